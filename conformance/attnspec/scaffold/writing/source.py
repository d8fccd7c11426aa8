"""Writes an adapter's source from a form. The search runs these very lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from attnspec.core.forms import CACHE, TABLE
from attnspec.core.keywords import AXES, OFF
from attnspec.core.nouns import Kind
from attnspec.scaffold.form import SQUARE_SIDE, CallForm, OutputPlace
from attnspec.scaffold.meaning import DESTINATION
from attnspec.scaffold.writing.families import BORN_TEXTS, LAYER_HELPER, write_layer
from attnspec.scaffold.writing.lines import (
    ARRAY_NAMES,
    PARAMETER_DEFAULTS,
    add_axes,
    bindings_to,
    break_call,
    call_helper,
    find_alias,
    find_names,
    join_blocks,
    templates_of,
    wrap_text,
    write_arguments,
    write_arrays,
    write_imports,
    write_joint_helper,
    write_keywords,
    write_parameter,
    write_tree,
)
from attnspec.scaffold.writing.telling import describe_form

ADAPTER_NAME = "attend"
_STATIC_NAMES = frozenset({"heads", "max_query", "max_key", *OFF.keys() - AXES.keys() - {TABLE, CACHE}})
_SHAPES_BY_KIND: Mapping[Kind, str] = {
    Kind.ATTENTION: "Query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv) to (B,H,T,Dv).",
    Kind.LAYER: "Query (B,T,M), key and value (B,S,M) to (B,T,M).",
}
_PAGED_SHAPES = "Query (B,H,T,D), key (pages,page,Hkv,D), value (pages,page,Hkv,Dv) to (B,H,T,Dv)."
_PACKED_SHAPES = "Query (queries,H,D), key (keys,Hkv,D), value (keys,Hkv,Dv) to (queries,H,Dv)."
_EACH_TEXT = '''def _each(function: Callable[..., {array}]) -> Callable[..., {array}]:
    """The function for every entry of the first axis of its arguments, of which some may be None."""

    def mapped(first: {array}, *others: {array} | None) -> {array}:
        entries = range(len(first))
        rest = [[None if each is None else each[at] for each in others] for at in entries]
        return {stack}([function(first[at], *rest[at]) for at in entries])

    return mapped'''


def write_source(form: CallForm, folder: str = "") -> str:
    """Writes the whole module; its function is called `attend`.  folder: what the callee is
    imported from, relative to the adapter's folder; empty where it is found.
    """
    layer = write_layer(form) if form.is_class else []
    words = templates_of(form)
    mapped = _EACH_TEXT.format(array=words.array_type, stack=words.stack).splitlines()
    code = [_write_attend(form, layer), layer, *_write_variants(form), *_write_joint_helpers(form),
            mapped if form.arrangement.mapped_axes and form.lift != "jax" else []]
    used = find_names(*(line for block in code for line in block if '"""' not in line))
    constants = ['PARTS = ("query", "key", "value")'] if "PARTS" in used else []
    head = join_blocks([_write_docstring(form), *write_imports(form, used, folder), constants],
                       between=1)
    return "\n".join(join_blocks([head, *code])) + "\n"


_TENSORS_TEXT = """

def tensors(query, key, value{more}):
    layer = {layer}
    own = {{name: each for name, each in vars(layer).items() if isinstance(each, Tensor)}}
    return {{**dict(layer.named_buffers()), **dict(layer.named_parameters()), **own}}
"""


def write_tensors_source(form: CallForm) -> str:
    """Writes the adapter and a function `tensors`, which gives all tensors of a PyTorch module."""
    more = ", *, params, heads" if form.kind is Kind.LAYER else ""
    return write_source(form) + _TENSORS_TEXT.format(more=more, layer=call_helper(write_layer(form)))


def _write_docstring(form: CallForm) -> Iterator[str]:
    yield f'"""`{form.module}.{form.name}` for attnspec.'
    yield ""
    yield "Written by `attnspec init`: read it, and fix what is wrong. Found by trying:"
    for sentence in describe_form(form):
        yield from wrap_text(f"- {sentence}", hanging=2)
    yield '"""'


def _write_joint_helpers(form: CallForm) -> Iterator[list[str]]:
    """Writes a helper for every parameter that serves several keywords."""
    for parameter in dict.fromkeys(each.parameter for each in form.bindings if each.parameter):
        if len(bindings_to(form, parameter)) > 1:
            yield write_joint_helper(form, parameter)


def name_variant(variant: str) -> str:
    """Returns the name of the function for a variant."""
    return f"{ADAPTER_NAME}_{variant}"


def _write_variants(form: CallForm) -> Iterator[list[str]]:
    for name, variant in form.variants.items():
        layer = write_layer(variant, f"{LAYER_HELPER}_{name}") if variant.is_class else []
        yield _write_attend(variant, layer, name_variant(name),
                            f"The same as `{ADAPTER_NAME}`, as its variant {name}.")
        yield layer


def _write_attend(form: CallForm, layer: list[str], name: str = ADAPTER_NAME,
                  says: str = "") -> list[str]:
    words = [*ARRAY_NAMES, *(["params", "heads"] if form.kind is Kind.LAYER else []),
             *form.keywords]
    signature = [write_parameter(form, name) + PARAMETER_DEFAULTS.get(name, "") for name in words]
    signature[3:3] = ["*"] if len(words) > 3 else []
    array = templates_of(form).array_type
    returns = _write_return_type(form, array)
    body = [*_write_trees(form), *_write_layer_lines(form, layer),
            *(_write_padded(form) if form.padded_parameter else _write_answer(form))]
    shapes = _SHAPES_BY_KIND[form.kind]
    if form.parameter_for(TABLE):
        shapes = _PAGED_SHAPES
    elif form.is_packed:
        shapes = _PACKED_SHAPES
    if form.next_cache:
        shapes = f"{shapes[:-1]}, and the cache for the next call."
    return [*_write_decorator(form, words),
            *break_call(f"def {name}(", signature, f") -> {returns}:", 0),
            f'    """{says or shapes}"""', *add_axes(form, [*_write_refusals(form), *body])]


def _write_layer_lines(form: CallForm, layer: list[str]) -> Iterator[str]:
    """Writes the lines that make the layer, and the cache that calls fill in place."""
    if form.kept_cache and not form.kept_cache.empty_text:
        yield from ("    if cache is None:", f"        cache = {call_helper(layer)}, 0",
                    "    layer, start = cache")
        return
    if layer:
        yield f"    layer = {call_helper(layer)}"
    if form.kept_cache:
        yield f"    cache = {form.kept_cache.empty_text} if cache is None else cache"


def _write_return_type(form: CallForm, array: str) -> str:
    weighs = form.reading is not None and bool(form.reading.weights_path)
    if form.next_cache:
        return "tuple[Any, ...]" if weighs else f"tuple[{array}, Any]"
    return f"{array} | tuple[{array}, {array}]" if weighs else array


def _write_decorator(form: CallForm, words: Sequence[str]) -> Iterator[str]:
    """Writes the decorator of jax.jit, which names the arguments that are no arrays."""
    static = [f'"{name}"' for name in words if name in _STATIC_NAMES]
    if form.is_compiled:
        named = f"({', '.join(static)}{',' * (len(static) == 1)})"
        yield f"@partial(jax.jit, static_argnames={named})" if static else "@jax.jit"


def _write_refusals(form: CallForm) -> Iterator[str]:
    """Writes what deletes unused parameters and refuses sizes that the callee does not take."""
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
        yield f"    if {SQUARE_SIDE} ** 2 != T:"
        yield '        raise ValueError("its tokens fill a square: T is a square number")'
    if form.needs_several_heads:
        yield from ("    if heads == 1:", '        raise ValueError("with one head it has other parameters")')
    if form.even_heads:
        yield from ("    if D % 2:", '        raise ValueError("features turn in pairs: the width of a head is even")')
    if form.limits.get("causal_only"):
        yield from ("    if not causal:", '        raise ValueError("it is always causal")')


def _write_trees(form: CallForm) -> Iterator[str]:
    for root in _list_tree_roots(form):
        inner = {path[1:]: text for path, text in (form.state or {}).items() if path[0] == root}
        holders = {path[1:]: each.partition(":")[2] for path, each in form.holders.items() if path[0] == root}
        if () not in inner:
            yield from write_tree(inner, holders, f"their_{root} = ")


def _list_tree_roots(form: CallForm) -> tuple[str, ...]:
    return () if form.is_class else tuple(dict.fromkeys(path[0] for path in form.state or ()))


def _name_callee(form: CallForm) -> str:
    return "layer" if form.is_class else find_alias(form)


def _list_given(form: CallForm) -> Mapping[str, str]:
    """Returns what the call is given beside its arrays."""
    trees = {root: (form.state or {}).get((root,), f"their_{root}") for root in _list_tree_roots(form)}
    return {**trees, **write_arguments(form)}


def _order_given(form: CallForm, given: Mapping[str, str]) -> Sequence[str]:
    """Writes arguments by name, or in the order in which they have to come."""
    return [given[name] for name in form.positional_order] if form.positional_order else write_keywords(given)


def _write_answer(form: CallForm) -> Iterator[str]:
    """Writes the lines from the call to what the adapter returns."""
    reading = form.reading
    if form.is_class and form.state is None and form.kind is Kind.LAYER:
        whole = f"{_name_callee(form)}({', '.join([*write_arrays(form), *_order_given(form, _list_given(form))])})"
        yield f"    return {BORN_TEXTS[form.family].format(whole, array=templates_of(form).array_type)}"
    elif DESTINATION in form.arguments.values() and not form.arrangement.mapped_axes:
        yield from _write_into_destination(form)
    elif reading is None:
        yield from _write_call(form, "return ")
    elif form.next_cache:
        yield from _write_with_cache(form, reading)
    elif reading.weights_path:
        yield from _write_call(form, "answer = ")
        asked = f"answer{reading.asked_path}" if reading.asked_path == reading.path else (
            f"answer{reading.asked_path} if {reading.extra_keyword} else answer{reading.path}")
        yield f"    output = {asked}"
        yield from break_call("return (",
                              [reading.layout.text.format("output"),
                               reading.weights_layout.text.format(f"answer{reading.weights_path}")],
                              f") if {reading.extra_keyword} else {reading.layout.text.format('output')}")
    elif reading.layout.text == "{0}":
        yield from _write_call(form, "return ", reading.path)
    else:
        yield from _write_call(form, "output = ", reading.path)
        yield f"    return {reading.layout.text.format('output')}"


def _write_padded(form: CallForm) -> Iterator[str]:
    """Writes the call with padding, beside unpadded entries if lengths may differ."""
    joined = templates_of(form).concatenate
    made = {"": "np.array", "torch": "torch.tensor", "jax": "jnp.array"}[form.lift]
    yield "    padding = -query[:, :1]"
    yield f"    padded = {joined}((query, padding, padding), 1)"
    if form.is_padded_alike:
        yield from (f"    {form.padded_parameter} = {made}([T] * B)", "    query = padded")
    else:
        yield f"    {form.padded_parameter} = {made}([T + 2] * B + [T] * B)"
        yield f"    query = {joined}((-padded, padded), 0)  # the first half are others, without padding"
    told = replace(form, padded_parameter="",
                   arguments={**form.arguments, form.padded_parameter: form.padded_parameter})
    *lines, last = _write_answer(told)
    yield from (*lines, f"    padded = {last.strip().removeprefix('return ')}")
    yield "    return padded[:, :T]" if form.is_padded_alike else "    return padded[B:, :T]"


def _write_into_destination(form: CallForm) -> Iterator[str]:
    """Writes the call of a function that writes its output into an array it is handed."""
    back = form.reading.layout.text if form.reading else "{0}"
    yield f"    {_write_destination(form)}"
    yield from _write_call(form, "")
    yield f"    return {back.format(DESTINATION)}"


def _write_destination(form: CallForm) -> str:
    """Writes the array to be written into, in the callee's layout and full of NaN."""
    axes = re.sub(r"\b[23][,·]", "", form.arrangement.shape.partition(")")[0][1:].replace("{L}", "T"))
    shape = ", ".join(axes.replace("D", "Dv").replace("·", " * ").split(","))
    return f"{DESTINATION} = {templates_of(form).nan_array.format(f'({shape})')}"


def _write_with_cache(form: CallForm, reading: OutputPlace) -> Iterator[str]:
    yield from _write_call(form, "answer = ")
    yield f"    output = answer{reading.path}"
    if reading.weights_path:
        yield from (f"    if {reading.extra_keyword}:", f"        output = answer{reading.asked_path}")
        weights = reading.weights_layout.text.format(f"answer{reading.weights_path}")
        yield from break_call("return (", [reading.layout.text.format("output"), weights, form.next_cache], ")", 8)
    yield f"    return {reading.layout.text.format('output')}, {form.next_cache}"


def _write_call(form: CallForm, begin: str, end: str = "") -> Iterator[str]:
    """Writes the call, or one call for each batch entry where the callee knows no batch."""
    if form.arrangement.is_in_turn:
        begin, end = f"{begin}{templates_of(form).concatenate}([", f"{end} for first in range(T)], 1)"
    if not form.arrangement.mapped_axes:
        yield from break_call(f"{begin}{_name_callee(form)}(",
                              [*write_arrays(form), *_order_given(form, _list_given(form))],
                              f"){end}")
    else:
        yield from _write_mapped(form, begin, end)


def _write_mapped(form: CallForm, begin: str, end: str) -> Iterator[str]:
    """Writes a call that maps arrays, masks and biases from entry to entry."""
    given, array = _list_given(form), templates_of(form).array_type
    inner = dict(zip(ARRAY_NAMES, write_arrays(replace(form, array_names=())), strict=False))
    outer = {name: text for name, text in given.items() if {"B", "mask", "bias"} & find_names(text)}
    arrays = [f"{theirs}={ours}"
              for theirs, ours in zip(form.array_names, inner, strict=True)] if form.array_names else [*inner]
    called = [*arrays, *_order_given(form, {name: name if name in outer else text for name, text in given.items()})]
    typed_names = [*(write_parameter(form, name) for name in inner),
                   *(f"{name}: {array} | None" for name in outer)]
    yield ""
    yield from break_call("def one(", typed_names, f") -> {array}:")
    if DESTINATION in given.values():
        yield f"        {_write_destination(form)}"
        yield from break_call(f"{_name_callee(form)}(", called, ")", 8)
        yield f"        return {DESTINATION}"
    else:
        yield from break_call(f"return {_name_callee(form)}(", called, f"){end}", 8)
    yield ""
    callee = "one"
    for _ in range(form.arrangement.mapped_axes):
        callee = templates_of(form).mapped_call.format(callee)
    yield from break_call(f"{begin}{callee}(", [*inner.values(), *outer.values()], ")")
