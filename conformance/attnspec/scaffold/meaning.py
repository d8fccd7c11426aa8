"""Decides what a parameter is given by what it means: a size, or what switches the rest off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from attnspec.core.keyword import Acts, Keyword
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import Kind
from attnspec.scaffold.form import SQUARE_SIDE, Site
from attnspec.scaffold.lookup import DIVISOR_NAMES, SYNONYMS, TheirParameter, find_parameters, find_role, normalise_name

Choices = Mapping[str, tuple[str, ...]]
"""By parameter, what it may be given, the likeliest first; "" stands for leaving it out."""

AXIS_LENGTHS: Mapping[Kind, Mapping[str, str]] = {
    Kind.ATTENTION: {
        "B": "query.shape[0]", "H": "query.shape[1]", "T": "query.shape[2]", "D": "query.shape[3]",
        "Hkv": "key.shape[1]", "S": "key.shape[2]", "Dv": "value.shape[3]"},
    Kind.LAYER: {
        "B": "query.shape[0]", "T": "query.shape[1]", "M": "query.shape[2]", "S": "key.shape[1]",
        "D": 'params["w_query"].shape[1] // heads', "Hkv": 'params["w_key"].shape[1] // D',
        "Dv": 'params["w_value"].shape[1] // Hkv'},
}
"""The Python of our axes' lengths; query is (B,H,T,D), or (B,T,M) in a layer."""

PACKED_AXIS_LENGTHS: Mapping[str, str] = {
    "H": "query.shape[1]", "D": "query.shape[2]", "Hkv": "key.shape[1]", "Dv": "value.shape[2]"}
"""The same for packed sequences: query (queries,H,D), key (keys,Hkv,D)."""

PAGED_AXIS_LENGTHS: Mapping[str, str] = {
    **AXIS_LENGTHS[Kind.ATTENTION], "Hkv": "key.shape[2]", "S": "block_table.shape[1] * key.shape[1]"}
"""The same for keys in pages (pages,page,Hkv,D); S is how many the table has room for."""

SIZES_BY_ROLE: Mapping[Kind, Mapping[str, str]] = {
    Kind.ATTENTION: {"heads": "H", "kv_heads": "Hkv", "width": "H * D", "head_width": "D",
                     "value_head_width": "Dv", "inner_width": "H * D", "out_width": "H * Dv"},
    Kind.LAYER: {"heads": "heads", "kv_heads": "Hkv", "width": "M", "head_width": "D",
                 "value_head_width": "Dv", "inner_width": "heads * D",
                 "out_width": 'params["w_out"].shape[1]'},
}
"""By role of a size, its Python in these lengths."""

EQUAL_BORDERS = "arange(B + 1"
"""A part of the Python for borders of sequences that are all of one length."""
_LENGTHS_BY_ROLE: Mapping[Kind, Mapping[str, str]] = {
    Kind.ATTENTION: {"queries": "T", "keys": "S", "length": "max(T, S)",
                     "query_ends": f"{{made}}.{EQUAL_BORDERS}, dtype={{made}}.int32) * T",
                     "key_ends": f"{{made}}.{EQUAL_BORDERS}, dtype={{made}}.int32) * S"},
    Kind.LAYER: {"queries": "T", "keys": "T", "length": "T", "context_width": "M",
                 "grid": "(1, T)", "rows": "1", "columns": "T"},
}
"""By role, other lengths that a callee may ask for. Tokens in a grid are one row."""
_ARRAY_MODULES: Mapping[str, str] = {"": "np", "torch": "torch", "jax": "jnp"}
_TRUTH_DTYPES: Mapping[str, str] = {"": "bool", "torch": "torch.bool", "jax": "bool"}
NO_DROPOUT = "0.0"
_OFF_TEXTS: Mapping[str, str] = {
    "dropout": NO_DROPOUT, "training": "False", "deterministic": "True", "place": "0",
    "spread": "1.0",
    "decoding": "False", "seed": "0", "caching": "False", "ratio": "1", "rotary_share": "1.0"}

_OFF_DEFAULTS: Mapping[str, tuple[object, ...]] = {
    "dropout": (0, None), "training": (False, None), "spread": (), "decoding": (False,), "caching": (False, None),
    "ratio": (1, None)}
"""By role, the defaults that need no switching off."""

_SWITCH_TEXTS: Mapping[str, str] = {"biases": "True", "activation": "None", "batch_first": "True"}
_OWNER_TEXT = "SimpleNamespace(training=False, num_key_value_groups=H // Hkv)"
_ANGLE_TEXTS = ("(query.new_ones(B, T, D), query.new_zeros(B, T, D))",
                "(query.new_ones(B, T, D // 2), query.new_zeros(B, T, D // 2))")
_TURN_TEXTS = ("torch.ones(T, D // 2, dtype=torch.complex64)",
               "torch.tensor([1.0, 0.0]).expand(T, D // 2, 2)")
_ZERO_ANGLES: Mapping[str, tuple[str, ...]] = {
    "cosines": ("{made}.ones((T, D), dtype=query.dtype)",
                "{made}.ones((T, D // 2), dtype=query.dtype)",
                "{made}.ones((1, 1, T, D), dtype=query.dtype)",
                "{made}.ones((1, T, D), dtype=query.dtype)"),
    "sines": ("{made}.zeros((T, D), dtype=query.dtype)",
              "{made}.zeros((T, D // 2), dtype=query.dtype)",
              "{made}.zeros((1, 1, T, D), dtype=query.dtype)",
              "{made}.zeros((1, T, D), dtype=query.dtype)")}
"""Cosines and sines of angles of 0, which turn nothing, in the same order of layouts."""
_PAIRED_TEXTS = frozenset(tuple(text.format(made=made) for text in texts) for texts in _ZERO_ANGLES.values()
                          for made in _ARRAY_MODULES.values())
PLACE_KEYWORDS = frozenset(word.name for word in KEYWORDS.values() if word.is_from_place)
"""The keywords by which each head adds something that depends on places."""
_LAYER_TEXTS: Mapping[str, tuple[str, ...]] = {
    "positions": tuple(f"{{made}}.zeros((B, T), dtype={{made}}.{whole})" for whole in ("int32", "int64")),
    "mask": ("None", "{made}.zeros((B, 1, T, S), dtype=query.dtype)",
             *(f"{{made}}.ones(({shape}), dtype={{truth}})" for shape in ("B, S", "B, T, S", "B, 1, T, S"))),
    **{role: ("None", *(f"{{made}}.zeros({shape}, dtype=query.dtype)"
                        for shape in ("(B * heads, 1, S)", "(heads, 1, S)", "(1, heads, 1, S)")))
       for role in PLACE_KEYWORDS}}
"""By role, what a layer is handed that changes nothing. All tokens stand at the first position;
there is no mask; and what each head adds by place is 0, in every shape that it may have.
"""
_NEUTRAL_SHAPES: Mapping[str, str] = {"B": "(B,)", "H": "(H,)", "BH": "(H,)", "BT": "(B, T)",
                                      "BS": "(B, S)"}
"""By the axes of a keyword's array, the shape of one that changes nothing."""


def _write_neutral(word: Keyword) -> str:
    """Writes an array that changes nothing: full lengths, no logit, no slope, one segment."""
    if word.counts:
        return f"{{made}}.full({_NEUTRAL_SHAPES[word.axes]}, {word.counts}, dtype={{made}}.int32)"
    if word.acts is Acts.LOGITS and not word.is_from_place:
        return f"{{made}}.full({_NEUTRAL_SHAPES[word.axes]}, -{{made}}.inf, dtype=query.dtype)"
    dtype = "query.dtype" if word.acts is Acts.LOGITS else "{made}.int32"
    return f"{{made}}.zeros({_NEUTRAL_SHAPES[word.axes]}, dtype={dtype})"


_NEUTRAL_TEXTS: Mapping[str, str] = {word.name: _write_neutral(word) for word in KEYWORDS.values()
                                     if word.axes in _NEUTRAL_SHAPES}
"""By keyword of attention, such an array, where the parameter has to be given."""
_HIDING_NUMBERS = frozenset(word.name for word in KEYWORDS.values() if word.needs_causal)
"""The keywords that hide keys by a number of them, and may be at work by default."""
DESTINATION = "destination"
"""The role and the name of an array that a function writes its output into."""
_TEXTS_BY_ROLE: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    kind: {"owner": (_OWNER_TEXT,), DESTINATION: (DESTINATION,), "a_width": widths,
           "residual": ("query * 0",), "bias": ("None", "[]")}
    for kind, widths in ((Kind.ATTENTION, ("D", "H * D")), (Kind.LAYER, ("M", "D")))}
"""By role, what is given in every lift; a width of unknown meaning may be either."""
_REPEATED_ROLES = ("dropout", "biases", "training", "place")
"""What several parameters of one callable may mean; of everything else there is one."""


def find_roles(parameters: Iterable[TheirParameter], at: Site) -> Mapping[str, str]:
    """Returns, by parameter, what it means; without those whose name says nothing."""
    listed = tuple(parameters)
    found: dict[str, str] = {}
    for role in _list_roles(at):
        if role == "columns" and "rows" not in found.values():
            continue
        means = find_parameters(role, [each for each in listed if each.name not in found])
        found |= dict.fromkeys([each.name for each in (means if role in _REPEATED_ROLES else means[:1])], role)
    return found


_GRID_ROLES = ("grid", "rows", "columns")
"""The roles of tokens in a grid in a call; `width` means something else in a constructor."""


def _list_roles(at: Site) -> tuple[str, ...]:
    """Lists the roles at a site: `bias` is an array in a call and a switch in a constructor."""
    left_out = ("biases",) if at is Site.CALL else ("bias", "mask", "random_key", "params", DESTINATION, *_GRID_ROLES)
    first = ("config", "random_key") if at is Site.CONSTRUCTOR else _GRID_ROLES
    return (*first, *(role for role in SYNONYMS if role not in (*left_out, *first)))


def list_choices(parameters: Iterable[TheirParameter], means: Mapping[str, str], kind: Kind,
                 at: Site, lift: str) -> Choices:
    """Returns what each parameter may be given, without those that keep their defaults."""
    is_module = kind is Kind.LAYER and at is Site.CONSTRUCTOR and lift == "torch"
    found = {}
    for each in parameters:
        role = means.get(each.name, "")
        made = _choose_projection(each) if is_module and role in ("", "query", "key", "value") else ()
        found[each.name] = made or _choose(each, role, kind, at, lift)
    return {name: options for name, options in found.items() if options}


def find_unknown(parameters: Iterable[TheirParameter], at: Site) -> list[TheirParameter]:
    """Lists the required parameters whose names say nothing."""
    listed = tuple(parameters)
    means = find_roles(listed, at)
    return [each for each in listed if each.is_required and not means.get(each.name) and not find_role((each.name,))]


def _choose(parameter: TheirParameter, role: str, kind: Kind, at: Site,
            lift: str) -> tuple[str, ...]:
    """Lists what one parameter may be given; an unknown required one is given None."""
    required, constructed = parameter.is_required, at is Site.CONSTRUCTOR
    is_size = isinstance(parameter.default, int) or (role == "kv_heads" and parameter.default is None)
    if role in SIZES_BY_ROLE[kind] and (required or constructed or is_size):
        return (SIZES_BY_ROLE[kind][role],) if required else (SIZES_BY_ROLE[kind][role], "")
    if role in _CHOOSERS_BY_ROLE:
        return _CHOOSERS_BY_ROLE[role](parameter)
    if handed := _choose_by_role(parameter, role, kind, at, lift):
        return handed
    if role in _OFF_TEXTS or (role == "context" and kind is Kind.LAYER) or not required:
        return ()
    return _choose_required(parameter, role, kind, lift)


def _choose_by_role(parameter: TheirParameter, role: str, kind: Kind, at: Site,
                    lift: str) -> tuple[str, ...]:
    """Lists what a parameter is given by its role, unasked; empty where it keeps its default."""
    required, constructed, length = parameter.is_required, at is Site.CONSTRUCTOR, _LENGTHS_BY_ROLE[kind]["length"]
    left = () if required else ("",)
    found: tuple[str, ...] = ()
    if role == "batch" and (required or constructed):
        found = ("B",)
    elif role in _OFF_TEXTS and (required or parameter.default not in _OFF_DEFAULTS.get(role, (parameter.default,))):
        found = (_OFF_TEXTS[role],)
    elif role in _ZERO_ANGLES and not constructed:
        found = tuple(text.format(made=_ARRAY_MODULES[lift]) for text in _ZERO_ANGLES[role])
    elif role in _HIDING_NUMBERS and _is_number(parameter):
        tiled = (f"(1, {length})", SQUARE_SIDE) if constructed and kind is Kind.LAYER else ()
        found = (length, *tiled, "None") if required else (length, *tiled)
    elif role == "tile" and constructed and kind is Kind.LAYER:
        found = (f"(1, {length})", *left)
    elif role in _SWITCH_TEXTS and constructed:
        found = (_SWITCH_TEXTS[role], *left)
    elif role == "context" and kind is Kind.LAYER:
        found = (*left, "query")
    elif role == "context_width" and isinstance(parameter.default, int):
        found = _choose_required(parameter, role, kind, lift)
    return found


def _choose_projection(parameter: TheirParameter) -> tuple[str, ...]:
    """Lists the PyTorch module for a constructor that takes ready-made projections; else empty."""
    role = find_role((parameter.name,)) if parameter.is_required else ""
    width = {"query": "heads * D", "key": "Hkv * D", "value": "Hkv * D"}.get(role, "")
    if role == "out":
        return ("nn.Linear(heads * D, M)",)
    return (f"nn.Linear(M, {width})",) if width else ()


def _choose_required(parameter: TheirParameter, role: str, kind: Kind,
                     lift: str) -> tuple[str, ...]:
    """Lists what a parameter without a default may be given."""
    made = {**_LENGTHS_BY_ROLE[kind], **(_NEUTRAL_TEXTS if kind is Kind.ATTENTION else {})}
    if role in made:
        return (made[role].format(made=_ARRAY_MODULES[lift]),
                *(["None"] if role in _NEUTRAL_TEXTS else []))
    if role in _TEXTS_BY_ROLE[kind]:
        return _TEXTS_BY_ROLE[kind][role]
    if role == "random_key":
        return ("nnx.Rngs(0)",) if parameter.name == "rngs" else ("jax.random.key(0)",)
    if role == "mask" and kind is Kind.ATTENTION:
        return _choose_visible_mask(parameter, lift)
    of_layers = _LAYER_TEXTS.get(role, ()) if kind is Kind.LAYER or role == "positions" else ()
    if of_layers:
        return tuple(text.format(made=_ARRAY_MODULES[lift], truth=_TRUTH_DTYPES[lift]) for text in of_layers)
    return _TEXTS_BY_ANNOTATION.get(parameter.annotation, ("None", "False"))


_TEXTS_BY_ANNOTATION: Mapping[str, tuple[str, ...]] = {
    "bool": ("False", "None"), "Literal[False]": ("False",), "Literal[True]": ("True",)}
"""By annotation, what a parameter is given of which nothing else is known."""


def _choose_visible_mask(parameter: TheirParameter, lift: str) -> tuple[str, ...]:
    """Lists masks that hide nothing: None, and truth values or numbers in each shape."""
    made, truth = _ARRAY_MODULES[lift], _TRUTH_DTYPES[lift]
    of_keys, of_scores = (f"{made}.ones(({shape}), dtype={truth})" for shape in ("B, S", "B, H, T, S"))
    added = f"{made}.zeros((B, H, T, S), dtype=query.dtype)"
    return ("None", of_keys, of_scores, added) if "key" in parameter.name else ("None", added, of_scores, of_keys)


def _choose_causal(parameter: TheirParameter) -> tuple[str, ...]:
    """Lists what a causal flag is given that is on, required, or None by default."""
    if parameter.default is None:
        return "False", ""
    return ("False",) if parameter.is_required or parameter.default is True else ()


def _choose_scale(parameter: TheirParameter) -> tuple[str, ...]:
    """Lists what a scale is given that is required or has a number by default."""
    is_number = isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)
    root = "D**0.5" if normalise_name(parameter.name) in DIVISOR_NAMES else "D**-0.5"
    return (root,) if parameter.is_required or is_number else ()


def _is_number(parameter: TheirParameter) -> bool:
    """Says whether a window is a number of keys that is at work by default."""
    default = parameter.default
    return parameter.is_required or (isinstance(default, int) and not isinstance(default, bool) and default > 0)


_CHOOSERS_BY_ROLE: Mapping[str, Callable[[TheirParameter], tuple[str, ...]]] = {
    "scale": _choose_scale, "causal": _choose_causal, "turns": lambda _: _TURN_TEXTS,
    "angles": lambda each: _ANGLE_TEXTS if each.is_required else (*_ANGLE_TEXTS, "")}
"""By role, what lists its choices whether or not it is required."""


def list_combinations(options: Choices) -> Iterator[Mapping[str, str]]:
    """Yields the likeliest choices, then those with another choice for one parameter each."""
    base = {name: texts[0] for name, texts in options.items()}
    yield _drop_blanks(base)
    for name, texts in options.items():
        alike = [other for other, each in options.items() if each in _PAIRED_TEXTS]
        together = alike if name in alike else [name]
        for at in range(1, len(texts)) if name == together[0] else ():
            yield _drop_blanks({**base, **{other: options[other][at] for other in together}})


def _drop_blanks(given: Mapping[str, str]) -> Mapping[str, str]:
    return {name: text for name, text in given.items() if text}
