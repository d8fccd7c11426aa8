"""The config object that a constructor wants: its class if one is named, else whatever the constructor asks it for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attnspec.core.errors import TargetError
from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import Kind
from attnspec.scaffold.examined import Examined
from attnspec.scaffold.form import At, Config
from attnspec.scaffold.lookup import SYNONYMS, TheirParameter
from attnspec.scaffold.meaning import NO_DROPOUT, SIZES, roles
from attnspec.scaffold.parameters.asking import fields_asked
from attnspec.scaffold.probe_problems import CROSS
from attnspec.scaffold.there import There

_SWITCHED_OFF = [word.name for word in KEYWORDS.values()
                 if word.in_layers and word.acts is Acts.LOGITS and not word.axes]
"""The keywords that a config switches on for a whole layer, by a number."""
OFF_IN_CONFIG = "None"
"""What the field of such a keyword is."""
_FIELDS: Mapping[Kind, Mapping[str, str]] = {
    kind: {**SIZES[kind], "dropout": NO_DROPOUT, "biases": "True", "length": "T", "place": "0", "batch": "B",
           "scale_width": "D", "rotary_width": "D", "rotary_share": "1.0", "ratio": "1", "one_kv_head": "False",
           **dict.fromkeys(_SWITCHED_OFF, OFF_IN_CONFIG), **of_memory}
    for kind, of_memory in ((Kind.ATTENTION, {}), (Kind.LAYER, {"context_width": "M"}))}
"""What a field is set to, by what it means."""
_NUMBERS: Mapping[str, int] = {
    "B": CROSS.B, "M": CROSS.H * CROSS.D, "heads": CROSS.H, "H": CROSS.H, "Hkv": CROSS.H, "D": CROSS.D,
                               "Dv": CROSS.D, "T": CROSS.T}
_BY_DEFAULT = frozenset({"length", "inner_width", "out_width", "value_head_width", "place"})
"""What a class of configs has a sensible default for."""
_ENDINGS = ("Config", "Args", "Arguments", "ConfigBase", "Params")


def configs_of(layer: Examined, parameter: str, kind: Kind, others: Mapping[str, str],
               there: There) -> Iterator[Config]:
    """The configs worth a try: of the annotated class, of classes beside the layer, and of what the layer asks for.

    others: what else its constructor is given, as Python. If that tells the number of heads, no field has to.
    """
    is_told_heads = "heads" in others.values()
    for made_by in dict.fromkeys((*layer.annotated.get(parameter, ()), *_beside(layer))):
        module, _, name = made_by.partition(":")
        fields = _fields_of(made_by, kind, there, is_told_heads=is_told_heads)
        if fields is not None:
            yield Config(fields, name, module)
    given = {name: _number(text) for name, text in others.items()}
    for is_dict in (False, True):
        asked = fields_asked(layer.target, parameter, _known(kind), given, there, is_dict=is_dict)
        if asked or is_told_heads:  # what raises before it asks for anything tells why once it is tried
            yield Config({name: _text(name, kind) for name in asked}, is_dict=is_dict)


def _beside(layer: Examined) -> Sequence[str]:
    """The classes of its module whose names say that they are configs, the likest first."""
    named = [made_by for name, made_by in layer.beside if name.endswith(_ENDINGS)]
    return sorted(named, key=lambda made_by: -len(_common(layer.name, made_by.partition(":")[2])))


def _common(first: str, second: str) -> str:
    return first[:next((at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), 0)]


def _fields_of(made_by: str, kind: Kind, there: There, *, is_told_heads: bool) -> Mapping[str, str] | None:
    """The fields whose names say what they mean; None if nobody tells a number of heads, or nobody can tell the
    fields.
    """
    try:
        parameters = there.examined(made_by).constructor
    except TargetError:
        return None
    means = roles(parameters, At.CONSTRUCTOR)
    left = {each.name for each in parameters if _is_left(each, means.get(each.name, ""))}
    fields = {name: _FIELDS[kind][role] for name, role in means.items() if role in _FIELDS[kind] and name not in left}
    return fields if is_told_heads or "heads" in means.values() else None


def _is_left(parameter: TheirParameter, role: str) -> bool:
    """Whether a field keeps its default. A memory of no width is often none at all; what has a number for each stage of
    a model tells nothing of one layer.
    """
    has_no_memory = role == "context_width" and parameter.default is None
    is_of_stages = isinstance(parameter.default, list | tuple)
    return not parameter.is_required and (role in _BY_DEFAULT or has_no_memory or is_of_stages)


def _known(kind: Kind) -> Mapping[str, int | float | bool]:
    """By every name that says what a field means, what it is answered with."""
    texts = {name: _text(name, kind) for names in SYNONYMS.values() for name in names if _role(name) in _FIELDS[kind]}
    return {name: _number(text) for name, text in texts.items()}


def _number(text: str) -> int | float | bool:
    """The number that this Python gives; 0 for what is none, such as a module."""
    try:
        found = eval(text.replace('params["w_out"].shape[1]', "M"), dict(_NUMBERS))
    except NameError:
        return 0
    return found if isinstance(found, int | float) else 0


def _text(name: str, kind: Kind) -> str:
    """What the field is, as Python; False where its name says nothing."""
    return _FIELDS[kind].get(_role(name), "False")


def _role(name: str) -> str:
    return roles([TheirParameter(name)], At.CONSTRUCTOR).get(name, "")
