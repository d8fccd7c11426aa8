"""Finds the config object that a constructor takes: of its named class, or with what it asks for.

What it asks for, and what an initialiser makes, only running it tells. What runs is text that is
written here and loaded where the callee lives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

import numpy as np

from attnspec.core.errors import TargetError
from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType, Kind
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import ConfigObject, Site
from attnspec.scaffold.lookup import SYNONYMS, TheirParameter
from attnspec.scaffold.meaning import NO_DROPOUT, SIZES_BY_ROLE, find_roles
from attnspec.scaffold.probe_problems import CROSS_SIZES
from attnspec.subjects.call import Call, ReturnedTree

_ASKER_NAME = "ask"
_BARE_CALL = Call(dict.fromkeys(("query", "key", "value"), np.zeros((1, 1, 1, 1), np.float32)),
                  {}, DType.FLOAT32, ())
"""A call with arguments that its function ignores."""

_INITIALISER_TEXT = """\
import numpy as np
{imports}
from {module} import {top} as theirs


def {asked}(query, key, value):
    return theirs{rest}({given})
"""

_CONFIG_TEXT = """\
import re

import numpy as np
from {module} import {top} as theirs

KNOWN = {known!r}
MOST = {most}  # fields whose names say nothing that a constructor may ask for


class Asked:
    def __init__(self, unknown):
        self.fields, self.unknown, self.missed = {{}}, unknown, ""

    def answer(self, name):
        value = KNOWN.get(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_"))
        if value is None and name not in self.unknown:
            self.missed = name
            raise KeyError(name)
        self.fields[name] = np.ones(1)
        return False if value is None else value


class Attributes:
    def __init__(self, asked):
        self._answer = asked.answer

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._answer(name)
        except KeyError:
            raise AttributeError(name) from None


class Items(dict):
    def __init__(self, asked):
        super().__init__()
        self._answer = asked.answer

    def __missing__(self, name):
        return self._answer(name)


def {asked}(query, key, value):
    unknown = set()
    for _ in range(MOST):
        asked = Asked(unknown)
        try:
            theirs{rest}(**{others!r}, {parameter}={holder}(asked))
        except (AttributeError, KeyError):
            if not asked.missed or asked.missed in unknown:
                return {{}}
            unknown.add(asked.missed)
        except Exception:  # its own, which a call tells
            return asked.fields
        else:
            return asked.fields
    return {{}}
"""
_MOST_UNKNOWN_FIELDS = 30


def call_initialiser(target: str, given: Mapping[str, str], process: CalleeProcess) -> ReturnedTree | None:
    """Returns what the function `module:name` makes of these texts; None where it raises."""
    texts = [f"{name}={text}" for name, text in given.items()]
    imports = "import jax" if any("jax." in text for text in texts) else ""
    text = _INITIALISER_TEXT.format(**_name_target(target), imports=imports,
                                    given=", ".join(texts))
    return process.call_text(text, _ASKER_NAME, _BARE_CALL)


ConfigNumbers = Mapping[str, int | float | bool]


def list_config_fields(target: str, parameter: str, known: ConfigNumbers, others: ConfigNumbers,
                       process: CalleeProcess, *, is_dict: bool) -> tuple[str, ...]:
    """Lists the config fields that the class `module:name` asks for until it raises. Returns none
    if it cannot be satisfied.  known: by plain name, the answer to a field. A field of unknown
    name is False, but absent for a question that can do without (`getattr(config, name,
    default)`).  others: what else has to be given.
    """
    text = _CONFIG_TEXT.format(**_name_target(target), known=dict(known),
                               most=_MOST_UNKNOWN_FIELDS, others=dict(others), parameter=parameter,
                               holder="Items" if is_dict else "Attributes")
    made = process.call_text(text, _ASKER_NAME, _BARE_CALL)
    return tuple(part.path[0][2:-2] for part in made.parts) if made is not None else ()


def _name_target(target: str) -> Mapping[str, str]:
    module, _, name = target.partition(":")
    top, dot, rest = name.partition(".")
    return {"module": module, "top": top, "rest": dot + rest, "asked": _ASKER_NAME}


_SWITCHED_OFF_KEYWORDS = [word.name for word in KEYWORDS.values()
                          if word.in_layers and word.acts is Acts.LOGITS and not word.axes]
"""The keywords that a config switches on for a whole layer, by a number."""
OFF_IN_CONFIG = "None"
_FIELD_TEXTS: Mapping[Kind, Mapping[str, str]] = {
    kind: {**SIZES_BY_ROLE[kind], "dropout": NO_DROPOUT, "biases": "True", "length": "T",
           "place": "0", "batch": "B", "scale_width": "D", "rotary_width": "D",
           "rotary_share": "1.0", "ratio": "1", "one_kv_head": "False",
           **dict.fromkeys(_SWITCHED_OFF_KEYWORDS, OFF_IN_CONFIG), **of_memory}
    for kind, of_memory in ((Kind.ATTENTION, {}), (Kind.LAYER, {"context_width": "M"}))}
_CROSS_NUMBERS: Mapping[str, int] = {
    "B": CROSS_SIZES.B, "M": CROSS_SIZES.H * CROSS_SIZES.D, "heads": CROSS_SIZES.H,
    "H": CROSS_SIZES.H,
    "Hkv": CROSS_SIZES.H, "D": CROSS_SIZES.D,
                                     "Dv": CROSS_SIZES.D, "T": CROSS_SIZES.T}
_DEFAULT_ROLES = frozenset({"length", "inner_width", "out_width", "value_head_width", "place"})
"""The roles for which a class of configs has a sensible default."""
_CONFIG_ENDINGS = ("Config", "Args", "Arguments", "ConfigBase", "Params")


def list_configs(layer: ExaminedCallable, parameter: str, kind: Kind, others: Mapping[str, str],
                 process: CalleeProcess) -> Iterator[ConfigObject]:
    """Lists the configs worth a try: of annotated and neighbouring classes, and of what the layer
    asks for.  others: what else its constructor is given, as Python. If that says the number of
    heads, no field has to.
    """
    is_told_heads = "heads" in others.values()
    beside = [made_by for name, made_by in layer.neighbours if name.endswith(_CONFIG_ENDINGS)]
    pairs = {made_by: zip(layer.name, made_by.partition(":")[2], strict=False) for made_by in beside}
    common = {made_by: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs[made_by])) for made_by in beside}
    beside.sort(key=lambda made_by: -common[made_by])  # those first whose names begin as the layer's
    for made_by in dict.fromkeys((*layer.annotated_classes.get(parameter, ()), *beside)):
        module, _, name = made_by.partition(":")
        fields = _find_fields(made_by, kind, process, is_told_heads=is_told_heads)
        if fields is not None:
            yield ConfigObject(fields, name, module)
    given = {name: _evaluate_number(text) for name, text in others.items()}
    for is_dict in (False, True):
        asked = list_config_fields(layer.target, parameter, _list_known_answers(kind), given,
                                   process, is_dict=is_dict)
        if asked or is_told_heads:  # what raises before it asks for anything tells why once it is tried
            yield ConfigObject({name: _write_field(name, kind) for name in asked}, is_dict=is_dict)


def _find_fields(made_by: str, kind: Kind, process: CalleeProcess, *,
                 is_told_heads: bool) -> Mapping[str, str] | None:
    """Returns the fields whose names say their meaning; None if none says a number of heads."""
    try:
        parameters = process.examine(made_by).constructor_parameters
    except TargetError:
        return None
    means = find_roles(parameters, Site.CONSTRUCTOR)
    left = {each.name for each in parameters if _keeps_default(each, means.get(each.name, ""))}
    fields = {name: _FIELD_TEXTS[kind][role]
              for name, role in means.items() if role in _FIELD_TEXTS[kind] and name not in left}
    return fields if is_told_heads or "heads" in means.values() else None


def _keeps_default(parameter: TheirParameter, role: str) -> bool:
    """Says whether a field keeps its default. A memory of no width is often none at all; a list
    with a number for each stage of a model says nothing of one layer.
    """
    has_no_memory = role == "context_width" and parameter.default is None
    is_of_stages = isinstance(parameter.default, list | tuple)
    return not parameter.is_required and (role in _DEFAULT_ROLES or has_no_memory or is_of_stages)


def _list_known_answers(kind: Kind) -> Mapping[str, int | float | bool]:
    """Returns, by every name that says what a field means, the answer to it."""
    texts = {name: _write_field(name, kind) for names in SYNONYMS.values() for name in names
             if _find_field_role(name) in _FIELD_TEXTS[kind]}
    return {name: _evaluate_number(text) for name, text in texts.items()}


def _evaluate_number(text: str) -> int | float | bool:
    """Returns the number that this Python gives; 0 for what is none, such as a module."""
    try:
        found = eval(text.replace('params["w_out"].shape[1]', "M"), dict(_CROSS_NUMBERS))
    except NameError:
        return 0
    return found if isinstance(found, int | float) else 0


def _write_field(name: str, kind: Kind) -> str:
    """Writes what a field is set to; False where its name says nothing."""
    return _FIELD_TEXTS[kind].get(_find_field_role(name), "False")


def _find_field_role(name: str) -> str:
    return find_roles([TheirParameter(name)], Site.CONSTRUCTOR).get(name, "")
