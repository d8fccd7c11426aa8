"""What was found out about a form, in sentences: for whoever reads the adapter, and for a search that failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attnspec.core.nouns import Kind
from attnspec.scaffold.form import CallableKind, CallForm

_ARRAYS_BY_LIFT: Mapping[str, str] = {"": "NumPy arrays", "torch": "torch tensors",
                                      "jax": "JAX arrays"}


def describe_arrays(form: CallForm) -> str:
    """`torch tensors (B,T,H,D)`: how the arrays lie that it takes."""
    shape = form.arrangement.shape
    ours = form.kind is Kind.LAYER and form.arrangement.is_one
    told = shape.replace("{L}", "T") if "{L}" not in shape or ours else f"{shape.replace('{L}', 'T')}, " \
        f"key and value {shape.replace('{L}', 'S')}"
    one = ", one input for all three" if ours else ", one memory for both" if form.limits.get("one_memory") else ""
    return f"{_ARRAYS_BY_LIFT[form.lift]} {told}{one}"


def describe_call(form: CallForm) -> str:
    """A form in one sentence's part: what is called, with what, and where the output was."""
    given = {**form.construction, **form.arguments}
    told = f", given {', '.join(f'{name}={text}' for name, text in given.items())}" if given else ""
    without = f", without its {' and '.join(form.removed_parts)}" if form.removed_parts else ""
    path = form.reading.path if form.reading else ""
    read = f", its output {path and f'answer{path}, '}{form.reading.layout.shape}" if form.reading else ""
    return f"a {form.family.value} that takes {describe_arrays(form)}{told}{without}{read}"


def say_handed_on(parameter: str, keyword: str, against: str, says: str = "") -> str:
    """That a parameter is handed on as a keyword, though this stands against it. says: what it means, in words."""
    meaning = f" ({says})" if says else ""
    return (f"Its {parameter} is handed on as `{keyword}`{meaning}, but {against}: attnspec check says what is wrong. "
            f"If {parameter} means something else, take it out of the adapter.")


def describe_form(form: CallForm) -> Iterator[str]:
    """One sentence a fact, what has to be known first at the beginning."""
    yield from form.warnings
    named = f", as {', '.join(form.array_names)}" if form.array_names else ""
    yield f"It is a {form.family.value}. It takes {describe_arrays(form)}{named}."
    yield from _describe_output(form)
    yield from _describe_given(form)
    for each in dict.fromkeys(each.keyword for each in form.bindings if each.parameter):
        yield _describe_binding(form, each)
    if biased := str(form.limits.get("biases", "")).split():
        yield f"It adds a bias to {', '.join(biased)}, and to no other projection."
    if form.variants:
        variants = (f"{name} ({_describe_variant(form, each)})" for name, each in form.variants.items())
        yield f"Variants, which must answer as it does: {' and '.join(variants)}."
    if form.is_compiled:
        yield "It runs under jax.jit."
    yield from form.remarks
    if left := form.defaults:
        yield f"Left at their defaults: {', '.join(f'{name}={text}' if text else name for name, text in left.items())}."


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


def _describe_given(form: CallForm) -> Iterator[str]:
    given = {**form.construction, **form.arguments}
    if given:
        yield f"Always given: {', '.join(f'{name}={text}' for name, text in given.items())}."


def _describe_variant(form: CallForm, variant: CallForm) -> str:
    """What is different in a variant."""
    fields, usual = ({**each.construction, **(each.config.fields if each.config else {}), **each.arguments}
                     for each in (variant, form))
    told = [f"{name}={text}" for name, text in fields.items() if usual.get(name) != text]
    has_modes = form.family in (CallableKind.TORCH, CallableKind.LAZY)
    return ", ".join([*([f"in {variant.mode.value}"] if has_modes else []), *told])


def _describe_binding(form: CallForm, keyword: str) -> str:
    each = next(each for each in form.bindings if each.keyword == keyword)
    says = f": {each.says}" if each.says else ""
    return f"`{keyword}` is its {each.parameter}{says}."
