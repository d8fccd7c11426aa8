"""Describes a form in sentences, for a reader of the adapter and for a search that failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attnspec.core.nouns import Kind
from attnspec.scaffold.form import CallableKind, CallForm
from attnspec.scaffold.writing.lines import write_keywords

_ARRAYS_BY_LIFT: Mapping[str, str] = {"": "NumPy arrays", "torch": "torch tensors",
                                      "jax": "JAX arrays"}


def describe_arrays(form: CallForm) -> str:
    """Describes the arrays that it takes: `torch tensors (B,T,H,D)`."""
    shape = form.arrangement.shape
    is_one = form.kind is Kind.LAYER and form.arrangement.is_one
    told = shape.replace("{L}", "T")
    if "{L}" in shape and not is_one:
        told += f", key and value {shape.replace('{L}', 'S')}"
    if is_one:
        told += ", one input for all three"
    elif form.limits.get("one_memory"):
        told += ", one memory for both"
    return f"{_ARRAYS_BY_LIFT[form.lift]} {told}"


def describe_call(form: CallForm) -> str:
    """Describes a form in part of a sentence: what is called, with what, and the output."""
    told = f"a {form.family.value} that takes {describe_arrays(form)}"
    if given := write_keywords({**form.construction, **form.arguments}):
        told += f", given {', '.join(given)}"
    if form.removed_parts:
        told += f", without its {' and '.join(form.removed_parts)}"
    if form.reading:
        place = f"answer{form.reading.path}, " if form.reading.path else ""
        told += f", its output {place}{form.reading.layout.shape}"
    return told


def say_handed_on(parameter: str, keyword: str, against: str, says: str = "") -> str:
    """Says that a parameter is passed as a keyword, with this meaning, despite an objection."""
    meaning = f" ({says})" if says else ""
    return (f"Its {parameter} is handed on as `{keyword}`{meaning}, but {against}: attnspec check "
            f"says what is wrong. If {parameter} means something else, take it out of the "
            "adapter.")


def describe_form(form: CallForm) -> Iterator[str]:
    """Describes a form, one sentence a fact, the warnings first."""
    yield from form.warnings
    named = f", as {', '.join(form.array_names)}" if form.array_names else ""
    yield f"It is a {form.family.value}. It takes {describe_arrays(form)}{named}."
    yield from _describe_output(form)
    if given := write_keywords({**form.construction, **form.arguments}):
        yield f"Always given: {', '.join(given)}."
    for keyword in dict.fromkeys(each.keyword for each in form.bindings if each.parameter):
        passed = next(each for each in form.bindings if each.keyword == keyword)
        says = f": {passed.says}" if passed.says else ""
        yield f"`{keyword}` is its {passed.parameter}{says}."
    if biased := str(form.limits.get("biases", "")).split():
        yield f"It adds a bias to {', '.join(biased)}, and to no other projection."
    if form.variants:
        variants = (f"{name} ({_describe_variant(form, each)})" for name, each in form.variants.items())
        yield f"Variants, which must answer as it does: {' and '.join(variants)}."
    if form.is_compiled:
        yield "It runs under jax.jit."
    yield from form.remarks
    if form.defaults:
        left = (f"{name}={text}" if text else name for name, text in form.defaults.items())
        yield f"Left at their defaults: {', '.join(left)}."


def _describe_output(form: CallForm) -> Iterator[str]:
    reading = form.reading
    if reading is not None:
        place = f" is answer{reading.path}," if reading.path else " is"
        shape = reading.layout.shape.replace(("", "B,", "B,H,")[form.arrangement.mapped_axes], "")
        yield f"The output{place} {shape}."
        if reading.weights_path:
            what = "Weights are" if reading.extra_keyword == "return_weights" else "The log-sum-exp is"
            yield f"{what} answer{reading.weights_path}, {reading.weights_layout.shape}."
    if form.kept_cache:
        empty = form.kept_cache.empty_text
        held = f"what a call is handed ({empty} in the first)" if empty else "the module itself"
        yield f"It is a decoder. Its calls fill a cache in place: {held}."
    elif form.cache_path:
        yield f"It is a decoder. The cache for its next call is answer{form.cache_path}."


def _describe_variant(form: CallForm, variant: CallForm) -> str:
    fields, usual = ({**each.construction, **(each.config.fields if each.config else {}), **each.arguments}
                     for each in (variant, form))
    told = [f"{name}={text}" for name, text in fields.items() if usual.get(name) != text]
    has_modes = form.family in (CallableKind.TORCH, CallableKind.LAZY)
    return ", ".join([*([f"in {variant.mode.value}"] if has_modes else []), *told])
