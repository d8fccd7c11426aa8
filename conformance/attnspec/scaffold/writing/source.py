"""An adapter's source, written from a form. What is tried is what is written: the search runs these very lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from attnspec.core.forms import STATE, TABLE
from attnspec.core.keywords import AXES, OFF
from attnspec.core.nouns import Kind
from attnspec.scaffold.form import SIDE, CallForm, OutputPlace
from attnspec.scaffold.meaning import DESTINATION
from attnspec.scaffold.writing.families import BORN, LAYER, layer_lines
from attnspec.scaffold.writing.imports import alias, import_lines
from attnspec.scaffold.writing.lines import (
    ARRAYS,
    arguments,
    blocks,
    broken,
    called_helper,
    handed,
    joined_lines,
    keywords,
    literal,
    names_in,
    optional,
    passed_to,
    typed,
    with_axes,
    words_of,
    wrapped,
)
from attnspec.scaffold.writing.telling import describe_form

ADAPTER = "attend"
_STATIC = frozenset({"heads", "max_query", "max_key", *OFF.keys() - AXES.keys() - {TABLE, STATE}})
_SHAPES: Mapping[Kind, str] = {
    Kind.ATTENTION: "Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv).",
    Kind.LAYER: "Query (B,T,M), key and value (B,S,M) to (B,T,M).",
}
_PAGED = "Query (B,H,T,D), key (pages,page,Hkv,D), value (pages,page,Hkv,Dv) to (B,H,T,Dv)."
_PACKED = "Query (queries,H,D), key (keys,Hkv,D), value (keys,Hkv,Dv) to (queries,H,Dv)."
_EACH = '''def _each(function: Callable[..., {array}]) -> Callable[..., {array}]:
    """The function for every entry of the first axis of its arguments, of which some may be None."""

    def mapped(first: {array}, *others: {array} | None) -> {array}:
        entries = range(len(first))
        rest = [[None if each is None else each[at] for each in others] for at in entries]
        return {stack}([function(first[at], *rest[at]) for at in entries])

    return mapped'''


def source(form: CallForm, folder: str = "") -> str:
    """The whole module. Its function is called `attend`.

    folder: what the callee is imported from, as one goes there from the adapter's folder; empty where it is found.
    """
    layer = layer_lines(form) if form.is_class else []
    words = words_of(form)
    mapped = _EACH.format(array=words.array, stack=words.stack).splitlines()
    code = [_attend(form, layer), layer, *_variants(form), *_shared(form),
            mapped if form.arrangement.mapped and form.lift != "jax" else []]
    used = names_in(*(line for block in code for line in block if '"""' not in line))
    constants = ['PARTS = ("query", "key", "value")'] if "PARTS" in used else []
    head = blocks([_docstring(form), *import_lines(form, used, folder), constants], between=1)
    return "\n".join(blocks([head, *code])) + "\n"


_TENSORS = """

def tensors(query, key, value{more}):
    layer = {layer}
    own = {{name: each for name, each in vars(layer).items() if isinstance(each, Tensor)}}
    return {{**dict(layer.named_buffers()), **dict(layer.named_parameters()), **own}}
"""


def tensors_source(form: CallForm) -> str:
    """The adapter of a module of PyTorch, and a function `tensors` beside it, which gives all tensors of the module."""
    more = ", *, params, heads" if form.kind is Kind.LAYER else ""
    return source(form) + _TENSORS.format(more=more, layer=called_helper(layer_lines(form)))


def _docstring(form: CallForm) -> Iterator[str]:
    yield f'"""`{form.module}.{form.name}` for attnspec.'
    yield ""
    yield "Written by `attnspec init`: read it, and fix what is wrong. Found by trying:"
    for sentence in describe_form(form):
        yield from wrapped(f"- {sentence}", hanging=2)
    yield '"""'


def _shared(form: CallForm) -> Iterator[list[str]]:
    """A helper for every parameter that serves several keywords."""
    for parameter in dict.fromkeys(each.parameter for each in form.passed if each.parameter):
        if len(passed_to(form, parameter)) > 1:
            yield joined_lines(form, parameter)


def variant_name(variant: str) -> str:
    """Of the function for a variant of this name."""
    return f"{ADAPTER}_{variant}"


def _variants(form: CallForm) -> Iterator[list[str]]:
    """The functions for its variants, each with its layer."""
    for name, variant in form.variants.items():
        layer = layer_lines(variant, f"{LAYER}_{name}") if variant.is_class else []
        yield _attend(variant, layer, variant_name(name), f"The same as `{ADAPTER}`, as its variant {name}.")
        yield layer


def _attend(form: CallForm, layer: list[str], name: str = ADAPTER, says: str = "") -> list[str]:
    words = [*ARRAYS, *(["params", "heads"] if form.kind is Kind.LAYER else []), *form.keywords]
    signature = [optional(form, name) for name in words]
    signature[3:3] = ["*"] if len(words) > 3 else []
    array = words_of(form).array
    returns = _returned(form, array)
    body = [*_trees(form), *_made(form, layer), *(_padded(form) if form.padded else _answer(form))]
    shapes = _PAGED if form.parameter(TABLE) else _PACKED if form.is_packed else _SHAPES[form.kind]
    shapes = f"{shapes[:-1]}, and the cache for the next call." if form.next_cache else shapes
    return [*_decorated(form, words), *broken(f"def {name}(", signature, f") -> {returns}:", 0),
            f'    """{says or shapes}"""', *with_axes(form, [*_unused(form), *body])]


def _made(form: CallForm, layer: list[str]) -> Iterator[str]:
    """The layer, and the cache that calls fill in place."""
    if form.kept and not form.kept.empty:
        yield from ("    if cache is None:", f"        cache = {called_helper(layer)}, 0", "    layer, start = cache")
        return
    if layer:
        yield f"    layer = {called_helper(layer)}"
    if form.kept:
        yield f"    cache = {form.kept.empty} if cache is None else cache"


def _returned(form: CallForm, array: str) -> str:
    """The type of what an adapter returns."""
    weighs = form.reading is not None and bool(form.reading.weights)
    if form.next_cache:
        return "tuple[Any, ...]" if weighs else f"tuple[{array}, Any]"
    return f"{array} | tuple[{array}, {array}]" if weighs else array


def _decorated(form: CallForm, words: Sequence[str]) -> Iterator[str]:
    """What is no array is told to the compiler."""
    static = [f'"{name}"' for name in words if name in _STATIC]
    if form.compiled:
        named = f"({', '.join(static)}{',' * (len(static) == 1)})"
        yield f"@partial(jax.jit, static_argnames={named})" if static else "@jax.jit"


def _unused(form: CallForm) -> Iterator[str]:
    """What of its parameters says nothing to the callee."""
    if form.kind is Kind.LAYER and form.arrangement.is_one:
        yield "    del key, value  # one input serves for all three"
    if form.limits.get("one_memory"):
        yield "    del value  # one input serves as key and value"
    if form.limits.get("segments_are_shared"):
        yield "    del key_segments  # one array serves for both"
    if form.takes_one_query:
        yield from ("    if query.shape[2] != 1:", '        raise ValueError("it takes one query a sequence: T = 1")')
    if form.mask_of_squares:
        yield "    if mask is not None and T != S:"
        yield '        raise ValueError("it takes a mask where T = S only")'
    if form.takes_squares:
        yield f"    if {SIDE} ** 2 != T:"
        yield '        raise ValueError("its tokens fill a square: T is a square number")'
    if form.even_heads:
        yield from ("    if D % 2:", '        raise ValueError("features turn in pairs: the width of a head is even")')
    if form.limits.get("causal_only"):
        yield from ("    if not causal:", '        raise ValueError("it is always causal")')


def _trees(form: CallForm) -> Iterator[str]:
    """The parameters that a function is given, each as a tree."""
    for root in _roots(form):
        inner = {path[1:]: text for path, text in (form.state or {}).items() if path[0] == root}
        holders = {path[1:]: each.partition(":")[2] for path, each in form.holders.items() if path[0] == root}
        if () not in inner:
            yield from literal(inner, holders, f"their_{root} = ")


def _roots(form: CallForm) -> tuple[str, ...]:
    return () if form.is_class else tuple(dict.fromkeys(path[0] for path in form.state or ()))


def _callee(form: CallForm) -> str:
    return "layer" if form.is_class else alias(form)


def _given(form: CallForm) -> Mapping[str, str]:
    """What the call is given beside its arrays."""
    trees = {root: (form.state or {}).get((root,), f"their_{root}") for root in _roots(form)}
    return {**trees, **arguments(form)}


def _beside(form: CallForm, given: Mapping[str, str]) -> Sequence[str]:
    """By name, or in the order in which they have to come."""
    return [given[name] for name in form.by_position] if form.by_position else keywords(given)


def _answer(form: CallForm) -> Iterator[str]:
    """From the call to what the adapter returns."""
    reading = form.reading
    if form.is_class and form.state is None and form.kind is Kind.LAYER:
        whole = f"{_callee(form)}({', '.join([*handed(form), *_beside(form, _given(form))])})"
        yield f"    return {BORN[form.family].format(whole, array=words_of(form).array)}"
    elif DESTINATION in form.given.values() and not form.arrangement.mapped:
        yield from _written_into(form)
    elif reading is None:
        yield from _called(form, "return ")
    elif form.next_cache:
        yield from _with_cache(form, reading)
    elif reading.weights:
        yield from _called(form, "answer = ")
        asked = f"answer{reading.asked}" if reading.asked == reading.path else (
            f"answer{reading.asked} if {reading.beside} else answer{reading.path}")
        yield f"    output = {asked}"
        yield from broken("return (", [reading.back.text.format("output"),
                                       reading.weights_back.text.format(f"answer{reading.weights}")],
                          f") if {reading.beside} else {reading.back.text.format('output')}")
    elif reading.back.text == "{0}":
        yield from _called(form, "return ", reading.path)
    else:
        yield from _called(form, "output = ", reading.path)
        yield f"    return {reading.back.text.format('output')}"


def _padded(form: CallForm) -> Iterator[str]:
    """The call with padding behind each entry, and other entries that have none before them; and what is not
    padding.
    """
    joined, made = words_of(form).concatenate, {"": "np.array", "torch": "torch.tensor", "jax": "jnp.array"}[form.lift]
    yield "    padding = -query[:, :1]"
    yield f"    padded = {joined}((query, padding, padding), 1)"
    if form.padded_alike:
        yield from (f"    {form.padded} = {made}([T] * B)", "    query = padded")
    else:
        yield f"    {form.padded} = {made}([T + 2] * B + [T] * B)"
        yield f"    query = {joined}((-padded, padded), 0)  # the first half are others, without padding"
    told = replace(form, padded="", given={**form.given, form.padded: form.padded})
    *lines, last = _answer(told)
    yield from (*lines, f"    padded = {last.strip().removeprefix('return ')}")
    yield "    return padded[:, :T]" if form.padded_alike else "    return padded[B:, :T]"


def _written_into(form: CallForm) -> Iterator[str]:
    """The call of a function that writes its output into what it is handed."""
    back = form.reading.back.text if form.reading else "{0}"
    yield f"    {_destination(form)}"
    yield from _called(form, "")
    yield f"    return {back.format(DESTINATION)}"


def _destination(form: CallForm) -> str:
    """The array that is written into, as what is handed over lies: no number stands there before."""
    axes = re.sub(r"\b[23][,·]", "", form.arrangement.shape.partition(")")[0][1:].replace("{L}", "T"))
    shape = ", ".join(axes.replace("D", "Dv").replace("·", " * ").split(","))
    return f"{DESTINATION} = {words_of(form).filled.format(f'({shape})')}"


def _with_cache(form: CallForm, reading: OutputPlace) -> Iterator[str]:
    """The output, the weights if they are asked for, and the cache."""
    yield from _called(form, "answer = ")
    yield f"    output = answer{reading.path}"
    if reading.weights:
        yield from (f"    if {reading.beside}:", f"        output = answer{reading.asked}")
        weights = reading.weights_back.text.format(f"answer{reading.weights}")
        yield from broken("return (", [reading.back.text.format("output"), weights, form.next_cache], ")", 8)
    yield f"    return {reading.back.text.format('output')}, {form.next_cache}"


def _called(form: CallForm, begin: str, end: str = "") -> Iterator[str]:
    """The call; one for each entry of the batch where the callee knows none."""
    if form.arrangement.in_turn:
        begin, end = f"{begin}{words_of(form).concatenate}([", f"{end} for first in range(T)], 1)"
    if not form.arrangement.mapped:
        yield from broken(f"{begin}{_callee(form)}(", [*handed(form), *_beside(form, _given(form))], f"){end}")
    else:
        yield from _mapped(form, begin, end)


def _mapped(form: CallForm, begin: str, end: str) -> Iterator[str]:
    """What differs from entry to entry goes through the map: the arrays, masks and biases."""
    given, array = _given(form), words_of(form).array
    inner = dict(zip(ARRAYS, handed(replace(form, names=())), strict=False))
    outer = {name: text for name, text in given.items() if {"B", "mask", "bias"} & names_in(text)}
    arrays = [f"{theirs}={ours}" for theirs, ours in zip(form.names, inner, strict=True)] if form.names else [*inner]
    called = [*arrays, *_beside(form, {name: name if name in outer else text for name, text in given.items()})]
    typed_names = [*(typed(form, name) for name in inner), *(f"{name}: {array} | None" for name in outer)]
    yield ""
    yield from broken("def one(", typed_names, f") -> {array}:")
    if DESTINATION in given.values():
        yield f"        {_destination(form)}"
        yield from broken(f"{_callee(form)}(", called, ")", 8)
        yield f"        return {DESTINATION}"
    else:
        yield from broken(f"return {_callee(form)}(", called, f"){end}", 8)
    yield ""
    callee = "one"
    for _ in range(form.arrangement.mapped):
        callee = words_of(form).mapped.format(callee)
    yield from broken(f"{begin}{callee}(", [*inner.values(), *outer.values()], ")")
