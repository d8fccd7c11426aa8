"""Describes a function without calling it, and reads off its signature what it can take."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from keyword import iskeyword
from pathlib import Path
from typing import Any

from attnspec.core.errors import FileLocation, TargetError
from attnspec.core.forms import (
    BESIDE_CACHE,
    BORDERS,
    CACHE,
    EXPRESSED,
    GIVEN_TO_PACKED,
    HELD_IN_CACHE,
    HELD_IN_PAGES,
    KEY_COUNTS,
    POSITIONS,
    ROTARY,
    SAID_BY_BORDERS,
    TABLE,
    InputForm,
)
from attnspec.core.keywords import CAUSAL, KEYWORDS, OTHER_NAMES, is_causal_flag, keyword_for, slip_of
from attnspec.core.nouns import Kind
from attnspec.core.paths import portable_text
from attnspec.host.describing import describe_callable
from attnspec.spec.yaml_lines import shown_path


class OpaqueObject:
    """An object that only the subject's own process can hold; here, how Python writes it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class FunctionDescription:
    """A function.

    parameters: None where it tells no signature.  attributes: what it carries.  uses: the packages
    its module imports.  is_function: whether an attribute that is set on it is meant for attnspec.
    """

    type_name: str
    qualname: str
    module: str
    doc: str
    place: FileLocation
    parameters: tuple[Parameter, ...] | None
    attributes: Mapping[str, object]
    uses: frozenset[str] = frozenset()
    is_class: bool = False
    is_callable: bool = True
    is_function: bool = True
    is_deferred: bool = False
    is_module_of_torch: bool = False

    @property
    def where(self) -> FileLocation | None:
        """Returns the place of a function; None where it is not known."""
        return self.place if self.place.file else None


def describe_function(function: Callable[..., object] | FunctionDescription) -> FunctionDescription:
    """Describes a function of this process; a description stays as it is."""
    if isinstance(function, FunctionDescription):
        return function
    return read_description(describe_callable(function))


def read_description(told: Mapping[str, Any]) -> FunctionDescription:
    """Reads a host's description of a function."""
    place, parameters = FileLocation(""), told["parameters"]
    if told["place"]:
        file, line = told["place"]
        place = FileLocation(shown_path(Path(str(file))), int(line))
    return FunctionDescription(
        type_name=str(told["type"]), qualname=str(told["qualname"]), module=str(told["module"]),
        doc=str(told["doc"]), place=place,
        parameters=None if parameters is None else tuple(map(_read_parameter, parameters)),
        attributes={str(name): read_value(value) for name, value in told["attributes"].items()},
        uses=frozenset(map(str, told["uses"])),
        **{name: bool(told[name]) for name in ("is_class", "is_callable", "is_function",
                                               "is_deferred", "is_module_of_torch")})


def _read_parameter(told: Mapping[str, Any]) -> Parameter:
    default = read_value(told["default"]) if "default" in told else Parameter.empty
    return Parameter(str(told["name"]), getattr(Parameter, str(told["kind"])), default=default)


def read_value(told: object) -> object:
    """Reads a value as it was, where JSON can say so."""
    if isinstance(told, list):
        return [read_value(each) for each in told]
    if not isinstance(told, Mapping):
        return told
    if "$float" in told:
        return float(str(told["$float"]))
    if "$tuple" in told:
        return tuple(map(read_value, told["$tuple"]))
    if "$map" in told:
        return {_read_key(key): read_value(value) for key, value in told["$map"]}
    # errors name the type of what they complain about
    return type(str(told.get("type", "object")), (OpaqueObject,), {})(str(told.get("$repr", "")))


def _read_key(told: object) -> object:
    key = read_value(told)
    return key if isinstance(key, str | int | float | bool | None) else repr(key)


UNKNOWN_PLACE = "package.module:name"  # a target for `attnspec init`, where nobody knows the real one
_ATTENTION_CALL = "attend(query, key, value, *, ...)"
ROTARY_CALL = "rotate(x, positions, *, base=10000.0, rotary_width=None, interleaved=False)"
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_STARS = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_NO_INPUTS = frozenset({"self", "cls", "params", "parameters", "weights", "state", "variables",
                        "config", "cfg"})
_LONGEST_DEFAULT = 40  # characters of a default that are shown
_ADDRESS_PATTERN = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object, another one in every process


_PARAMETERS_BY_FORM: Mapping[InputForm, frozenset[str]] = {
    InputForm.DENSE: frozenset(), InputForm.PACKED: SAID_BY_BORDERS, InputForm.PAGED: frozenset({TABLE}),
    InputForm.DECODER: HELD_IN_CACHE | {CACHE}}
"""By form, the keywords that it says by other means."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes beyond query, key and value.

    keywords: attnspec's.  defaults: of what is left alone.  form: of its arrays.  given: the
    parameters that belong to this form.  off: the flags that are off only if a call says so, each
    with False.  spelled: by keyword, the parameter's own name, where that differs.
    """

    keywords: frozenset[str]
    kind: Kind
    defaults: Mapping[str, str]
    form: InputForm = InputForm.DENSE
    given: frozenset[str] = frozenset()
    off: Mapping[str, bool] = field(default_factory=dict)
    spelled: Mapping[str, str] = field(default_factory=dict)


def signature_of(function: Callable[..., object] | FunctionDescription, name: str, *,
                 target: str = UNKNOWN_PLACE, is_always_causal: bool = False) -> Signature:
    """Reads what the function takes. Raises TargetError with file and line.

    target: what `attnspec init` would be told.  is_always_causal: whether every call gives
    `causal`.

    query, key and value are given by position, whatever their names, except names of keywords or
    of parameters (`params`). attnspec's keywords are given by name. A keyword that not every call
    gives needs a default, except a flag, which is then given as False.

    Other parameters with a default are left alone, and so are `*args` and `**kwargs`; one without
    a default is an error. So is a misspelt keyword (`masks`, `casual`), which would turn off what
    it is for, unless the function takes the keyword itself. A flag whose name says that it makes
    attention causal (`is_causal`) is the keyword, and is given by its own name. Another library's
    name for another keyword is left alone, unless it is a flag that is on.
    """
    function = describe_function(function)
    parameters = _list_parameters(function, name, target)
    if is_rotary(parameters):
        return _read_rotary(function, parameters, name)
    inputs = [each for each in parameters[:3]
              if each.kind in _POSITIONAL and not _is_no_input(each.name)]
    rest = [each for each in parameters[3:] if each.kind not in _STARS]
    if len(inputs) < 3:
        raise _make_error(function, _without_inputs(name, parameters, target))
    return _read_behind_inputs(function, rest, name, target, is_always_causal=is_always_causal)


def _read_behind_inputs(function: FunctionDescription, rest: Sequence[Parameter], name: str,
                        target: str, *, is_always_causal: bool) -> Signature:
    """Reads what attention takes beside query, key and value. Raises TargetError."""
    spelled = _find_causal_spelling([*rest])
    rest = [each.replace(name=spelled.get(each.name, each.name)) for each in rest]
    form, given_by_form = find_function_form([parameter.name for parameter in rest], function, name)
    rest = [parameter for parameter in rest if parameter.name not in given_by_form]
    known = {parameter.name: parameter for parameter in rest if parameter.name in KEYWORDS}
    unknown = [parameter for parameter in rest if parameter.name not in KEYWORDS]
    parameter_names = {word: parameter for parameter, word in spelled.items()}
    if wrong := _find_complaint(name, known, unknown, target, parameter_names):
        raise _make_error(function, wrong)
    kind = _find_kind(known, function, name)
    if is_always_causal and "causal" not in known:
        raise _make_error(function,
                          f"{name} is declared causal_only and takes no 'causal', which every "
                          "problem of such a subject gives. Let it take it: "
                          f"{_ATTENTION_CALL.replace('...', 'causal=True')}")
    given = {word for word in known if _is_flag(word) or kind in KEYWORDS[word].required}
    if form is InputForm.PAGED:
        given.add(KEY_COUNTS)
    if bare := [each for name, each in known.items()
                if each.default is Parameter.empty and name not in given]:
        raise _make_error(function, _without_default(name, bare, target))
    defaults = {each.name: _write_default(each.default) for each in unknown}
    off = {word: False for word, each in known.items() if _is_flag(word) and each.default}
    return Signature(frozenset(known) | _PARAMETERS_BY_FORM[form], kind, defaults, form,
                     given_by_form, off, parameter_names)


def _find_causal_spelling(rest: Sequence[Parameter]) -> Mapping[str, str]:
    """Finds the one parameter that is `causal` under another name, if there is one."""
    flags = [each for each in rest if each.kind is not Parameter.POSITIONAL_ONLY
             and (each.default is Parameter.empty or isinstance(each.default, bool))]
    named = [each.name for each in flags if is_causal_flag(each.name)]
    has_keyword = any(each.name == CAUSAL for each in rest)
    return {named[0]: CAUSAL} if len(named) == 1 and not has_keyword else {}


def _without_inputs(name: str, parameters: Sequence[Parameter], target: str) -> str:
    """Says that query, key and value do not come first; a decorator may hide them."""
    takes = f"{name} takes ({', '.join(map(str, parameters))})"
    if parameters and all(each.kind in _STARS for each in parameters):
        return (f"{takes}, as a decorator makes it that hides the parameters: put "
                "@functools.wraps(function) on what the decorator returns, or name them in a "
                f"wrapper: {_ATTENTION_CALL}.")
    return (f"{takes}; the first three should be query, key and value, given by position: "
            f"{_ATTENTION_CALL}. To have a wrapper written: attnspec init {target}")


def _find_complaint(name: str, known: Mapping[str, Parameter], unknown: Sequence[Parameter],
                    target: str, parameter_names: Mapping[str, str]) -> str:
    """Says what is wrong with the parameters behind query, key and value; empty if nothing."""
    wrong = (*map(_complain_of_position, known.values()),
             *(suggest_parameter(each.name, known) for each in unknown),
             *(_switched_on(each, known, target) for each in unknown))
    if said := next(filter(None, wrong), ""):
        return f"{name} takes {said}"
    needed = [each for each in unknown if each.default is Parameter.empty]
    if not needed:
        return ""
    return _complain_of_needs(name, needed, known.values(), target, parameter_names)


def _switched_on(parameter: Parameter, known: Collection[str], target: str) -> str:
    """Complains of another library's name for a flag that is on by default; else ""."""
    word = keyword_for(parameter.name)
    if parameter.default is not True or not word or word in known or not _is_flag(word):
        return ""
    return (f"{parameter.name}=True, a flag that attnspec knows as {word} and cannot switch off "
            f"by this name. Rename it to {word}, or have a wrapper written: attnspec init "
            f"{target}")


def find_function_form(names: Collection[str], function: FunctionDescription,
                       name: str) -> tuple[InputForm, frozenset[str]]:
    """Finds the form of a function with these parameters, and those that belong to the form.
    Raises TargetError for one border without the other, and for what the form has no place for.
    """
    borders = [border for border in BORDERS if border in names]
    if CACHE in names:
        _check_decoder([*borders, *names], function, name)
        return InputForm.DECODER, frozenset({CACHE})
    if TABLE in names:
        _check_paged([*borders, *names], function, name)
        return InputForm.PAGED, frozenset({TABLE})
    if not borders:
        return InputForm.DENSE, frozenset()
    if len(borders) < len(BORDERS):
        [other] = set(BORDERS) - set(borders)
        raise _make_error(function, f"{name} takes {borders[0]!r} but not {other!r}; a packed "
                                    "function takes both: attend(query, key, value, *, cu_query, "
                                    "cu_key, ...)")
    _refuse_unfit(function, [each for each in names if each in KEYWORDS], EXPRESSED,
                  f"{name} is packed (it takes cu_query and cu_key) and takes {{!r}}, which "
                  f"packed arrays have no place for. A packed function may take {{}}.")
    return InputForm.PACKED, frozenset(names) & GIVEN_TO_PACKED.keys()


def _refuse_unfit(function: FunctionDescription, names: Collection[str], fit: Collection[str],
                  says: str) -> None:
    """Raises TargetError for a name that is not fit; says: with gaps for it and for those fit."""
    if unfit := [each for each in names if each not in fit]:
        raise _make_error(function, says.format(unfit[0], ", ".join(sorted(fit))))


def _check_paged(names: Collection[str], function: FunctionDescription, name: str) -> None:
    """Raises TargetError for a paged function without lengths, or with what pages rule out."""
    if KEY_COUNTS not in names:
        raise _make_error(function, f"{name} takes {TABLE!r} but not {KEY_COUNTS!r}; a paged function "
                                    f"takes both: attend(query, key, value, *, {TABLE}, {KEY_COUNTS}, "
                                    "...)")
    named = [each for each in names if each in {*KEYWORDS, *BORDERS} - {TABLE}]
    _refuse_unfit(function, named, HELD_IN_PAGES,
                  f"{name} is paged (it takes {TABLE}) and takes {{!r}}, which has no place "
                  f"beside pages. A paged function may take {{}}.")


def _check_decoder(names: Collection[str], function: FunctionDescription, name: str) -> None:
    """Raises TargetError for a decoder that takes what its cache says, or rules out."""
    of_layers = {word.name for word in KEYWORDS.values() if word.required}
    named = [each for each in names if each in {*KEYWORDS, *BORDERS} - of_layers - {CACHE}]
    _refuse_unfit(function, named, BESIDE_CACHE,
                  f"{name} is a decoder (it takes {CACHE}) and takes {{!r}}, which has no place "
                  "beside a cache. A decoder may take {}.")


def is_rotary(parameters: Sequence[Parameter]) -> bool:
    """Says whether these are parameters of a rotary embedding: the second is `positions`."""
    return len(parameters) > 1 and parameters[1].name == POSITIONS and parameters[1].kind in _POSITIONAL


def _read_rotary(function: FunctionDescription, parameters: Sequence[Parameter],
                 name: str) -> Signature:
    """Reads what a rotary embedding takes beside x and positions. Raises TargetError."""
    rest = [parameter for parameter in parameters[2:] if parameter.kind not in _STARS]
    known = {parameter.name for parameter in rest if parameter.name in ROTARY}
    for parameter in rest:
        others = [word for word in ROTARY if word not in known]
        if meant := "" if parameter.name in known else slip_of(parameter.name, others):
            raise _make_error(function,
                              f"{name} takes {parameter.name!r}, which is no keyword of a rotary "
                              f"embedding. Did you mean {meant!r}? If another thing is meant, "
                              "give it another name.")
        if parameter.name in known and parameter.kind is Parameter.POSITIONAL_ONLY:
            raise _make_error(function,
                              f"{name} takes {parameter.name!r} by position only, but attnspec "
                              "gives only x and positions by position.")
        if parameter.default is Parameter.empty:
            raise _make_error(function, f"{name} needs {parameter.name!r}; a rotary embedding can "
                                        f"be called with x and positions alone: {ROTARY_CALL}.")
    defaults = {each.name: _write_default(each.default) for each in rest if each.name not in known}
    return Signature(frozenset({POSITIONS, *known}), Kind.ROTARY, defaults)


def _is_no_input(name: str) -> bool:
    """Says whether a parameter's name means something else than query, key or value."""
    if name in KEYWORDS or name in _NO_INPUTS:
        return True
    return any(name in others for others in OTHER_NAMES.values())


def _find_kind(keywords: Collection[str], function: FunctionDescription, name: str) -> Kind:
    """Returns the kind: a layer takes all that layers must (params, heads), others none."""
    required = {word.name for word in KEYWORDS.values() if Kind.LAYER in word.required}
    present, absent = required.intersection(keywords), required.difference(keywords)
    if present and absent:
        raise _make_error(function, f"{name} takes {', '.join(sorted(present))} but not "
                                    f"{', '.join(sorted(absent))}; a layer takes both, an "
                                    "attention function neither.")
    return Kind.LAYER if present else Kind.ATTENTION


def _list_parameters(function: FunctionDescription, name: str, target: str) -> list[Parameter]:
    if function.is_deferred:
        raise _make_error(function,
                          f"{name} is a coroutine or generator function; a plain function is "
                          f"expected: {_ATTENTION_CALL}.")
    if function.parameters is None:
        raise _make_error(function, f"{name} has no readable signature, so attnspec cannot know "
                                    "what it takes. Wrap it in a function that names its "
                                    f"keywords: {_ATTENTION_CALL}. Or have that written: attnspec "
                                    f"init {target}")
    return list(function.parameters)


def _complain_of_position(parameter: Parameter) -> str:
    """Complains of a keyword that can be given by position only; else ""."""
    if parameter.kind is not Parameter.POSITIONAL_ONLY:
        return ""
    return (f"{parameter.name!r} by position only, but attnspec gives only query, key and value "
            "by position.")


def suggest_parameter(name: str, taken: Collection[str]) -> str:
    """Complains of a misspelt keyword that the function does not take itself; else ""."""
    if keyword_for(name):
        return ""
    meant = slip_of(name, [word for word in KEYWORDS if word not in taken])
    if not meant:
        return ""
    return (f"{name!r}, which is not a known keyword. Did you mean {meant!r}? If another thing is "
            "meant, give it another name.")


def _is_flag(keyword: str) -> bool:
    return KEYWORDS[keyword].shape == "bool"


def _without_default(name: str, bare: Collection[Parameter], target: str) -> str:
    """Says that keywords need defaults, with those that mend it."""
    written = ", ".join(str(_is_plain_default(each).replace(default=None)) for each in bare)
    return (f"{name} takes {' and '.join(repr(each.name) for each in bare)} without a default, so "
            "it cannot be called without. Give the default that means none is given: def "
            f"{name}(query, key, value, *, {written}), or have a wrapper written: attnspec init "
            f"{target}")


def _complain_of_needs(name: str, needed: Collection[Parameter], known: Collection[Parameter],
                       target: str, parameter_names: Mapping[str, str]) -> str:
    """Says that unknown parameters are needed, with a wrapper that gives them, to paste."""
    inputs = ("query", "key", "value")
    takes = inspect.Signature([*(Parameter(word, Parameter.POSITIONAL_OR_KEYWORD) for word in inputs),
                               *map(_is_plain_default, known)])
    kept = (f"{parameter_names.get(each.name, each.name)}={each.name}" for each in known)
    gives = ", ".join((*inputs, *map(_write_gap, needed), *kept))
    wrapper = "wrapped" if name == "attend" else "attend"
    wrapped = "function" if iskeyword(name) else name
    return (f"{name} needs {' and '.join(map(_name_parameter, needed))}, which attnspec does not "
            "know and so cannot give. Write a wrapper that passes it, and check the wrapper:\n    "
            f"def {wrapper}{takes}: return {wrapped}({gives})\nor have one written: attnspec init "
            f"{target}")


def _is_plain_default(parameter: Parameter) -> Parameter:
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=Parameter.empty)


def _write_gap(parameter: Parameter) -> str:
    """Writes the gap in the wrapper's call that the user has to fill."""
    return "..." if parameter.kind is Parameter.POSITIONAL_ONLY else f"{parameter.name}=..."


def _name_parameter(parameter: Parameter) -> str:
    word = keyword_for(parameter.name)
    hint = f" (attnspec's keyword is {word}: rename it)" if word else ""
    return f"{parameter.name!r}{hint}"


def _write_default(default: object) -> str:
    """Writes the default as Python does, short and the same in every process."""
    text = _ADDRESS_PATTERN.sub("", portable_text(" ".join(repr(default).split())))
    return text if len(text) <= _LONGEST_DEFAULT else f"{text[:_LONGEST_DEFAULT - 1]}…"


def _make_error(function: FunctionDescription, message: str) -> TargetError:
    return TargetError(message, where=function.where)
