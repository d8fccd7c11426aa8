"""The config object that a constructor wants: its class if one is named, else whatever the constructor asks it for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attnspec.core.errors import TargetError
from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import Kind
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import ConfigObject, Site
from attnspec.scaffold.lookup import SYNONYMS, TheirParameter
from attnspec.scaffold.meaning import NO_DROPOUT, SIZES_BY_ROLE, find_roles
from attnspec.scaffold.parameters.asking import list_config_fields
from attnspec.scaffold.probe_problems import CROSS_SIZES
from attnspec.scaffold.there import CalleeProcess

_SWITCHED_OFF_KEYWORDS = [word.name for word in KEYWORDS.values()
                          if word.in_layers and word.acts is Acts.LOGITS and not word.axes]
"""The keywords that a config switches on for a whole layer, by a number."""
OFF_IN_CONFIG = "None"
"""What the field of such a keyword is."""
_FIELD_TEXTS: Mapping[Kind, Mapping[str, str]] = {
    kind: {**SIZES_BY_ROLE[kind], "dropout": NO_DROPOUT, "biases": "True", "length": "T", "place": "0", "batch": "B",
           "scale_width": "D", "rotary_width": "D", "rotary_share": "1.0", "ratio": "1", "one_kv_head": "False",
           **dict.fromkeys(_SWITCHED_OFF_KEYWORDS, OFF_IN_CONFIG), **of_memory}
    for kind, of_memory in ((Kind.ATTENTION, {}), (Kind.LAYER, {"context_width": "M"}))}
"""What a field is set to, by what it means."""
_CROSS_NUMBERS: Mapping[str, int] = {
    "B": CROSS_SIZES.B, "M": CROSS_SIZES.H * CROSS_SIZES.D, "heads": CROSS_SIZES.H, "H": CROSS_SIZES.H,
    "Hkv": CROSS_SIZES.H, "D": CROSS_SIZES.D,
                                     "Dv": CROSS_SIZES.D, "T": CROSS_SIZES.T}
_DEFAULT_ROLES = frozenset({"length", "inner_width", "out_width", "value_head_width", "place"})
"""What a class of configs has a sensible default for."""
_CONFIG_ENDINGS = ("Config", "Args", "Arguments", "ConfigBase", "Params")


def list_configs(layer: ExaminedCallable, parameter: str, kind: Kind, others: Mapping[str, str],
                 process: CalleeProcess) -> Iterator[ConfigObject]:
    """The configs worth a try: of the annotated class, of classes beside the layer, and of what the layer asks for.

    others: what else its constructor is given, as Python. If that tells the number of heads, no field has to.
    """
    is_told_heads = "heads" in others.values()
    for made_by in dict.fromkeys((*layer.annotated_classes.get(parameter, ()), *_list_config_classes(layer))):
        module, _, name = made_by.partition(":")
        fields = _find_fields(made_by, kind, process, is_told_heads=is_told_heads)
        if fields is not None:
            yield ConfigObject(fields, name, module)
    given = {name: _evaluate_number(text) for name, text in others.items()}
    for is_dict in (False, True):
        asked = list_config_fields(layer.target, parameter, _list_known_answers(kind), given, process, is_dict=is_dict)
        if asked or is_told_heads:  # what raises before it asks for anything tells why once it is tried
            yield ConfigObject({name: _write_field(name, kind) for name in asked}, is_dict=is_dict)


def _list_config_classes(layer: ExaminedCallable) -> Sequence[str]:
    """The classes of its module whose names say that they are configs, the likest first."""
    named = [made_by for name, made_by in layer.neighbours if name.endswith(_CONFIG_ENDINGS)]
    return sorted(named, key=lambda made_by: -len(_common_start(layer.name, made_by.partition(":")[2])))


def _common_start(first: str, second: str) -> str:
    return first[:next((at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), 0)]


def _find_fields(made_by: str, kind: Kind, process: CalleeProcess, *, is_told_heads: bool) -> Mapping[str, str] | None:
    """The fields whose names say what they mean; None if nobody tells a number of heads, or nobody can tell the
    fields.
    """
    try:
        parameters = process.examine(made_by).constructor_parameters
    except TargetError:
        return None
    means = find_roles(parameters, Site.CONSTRUCTOR)
    left = {each.name for each in parameters if _keeps_default(each, means.get(each.name, ""))}
    fields = {name: _FIELD_TEXTS[kind][role] for name,
              role in means.items() if role in _FIELD_TEXTS[kind] and name not in left}
    return fields if is_told_heads or "heads" in means.values() else None


def _keeps_default(parameter: TheirParameter, role: str) -> bool:
    """Whether a field keeps its default. A memory of no width is often none at all; what has a number for each stage of
    a model tells nothing of one layer.
    """
    has_no_memory = role == "context_width" and parameter.default is None
    is_of_stages = isinstance(parameter.default, list | tuple)
    return not parameter.is_required and (role in _DEFAULT_ROLES or has_no_memory or is_of_stages)


def _list_known_answers(kind: Kind) -> Mapping[str, int | float | bool]:
    """By every name that says what a field means, what it is answered with."""
    texts = {name: _write_field(name, kind) for names in SYNONYMS.values() for name in names
             if _find_field_role(name) in _FIELD_TEXTS[kind]}
    return {name: _evaluate_number(text) for name, text in texts.items()}


def _evaluate_number(text: str) -> int | float | bool:
    """The number that this Python gives; 0 for what is none, such as a module."""
    try:
        found = eval(text.replace('params["w_out"].shape[1]', "M"), dict(_CROSS_NUMBERS))
    except NameError:
        return 0
    return found if isinstance(found, int | float) else 0


def _write_field(name: str, kind: Kind) -> str:
    """What the field is, as Python; False where its name says nothing."""
    return _FIELD_TEXTS[kind].get(_find_field_role(name), "False")


def _find_field_role(name: str) -> str:
    return find_roles([TheirParameter(name)], Site.CONSTRUCTOR).get(name, "")
