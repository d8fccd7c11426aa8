"""What is known of a function without calling it, wherever it lives, and what it can take, read off its signature. A
parameter is a capability.
"""

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
    EXPRESSED,
    GIVES,
    HELD_IN_CACHE,
    HELD_IN_PAGES,
    NUMBER,
    POSITIONS,
    ROTARY,
    SAID,
    STATE,
    TABLE,
    InputForm,
)
from attnspec.core.keywords import CAUSAL, KEYWORDS, OTHER_NAMES, is_causal_flag, keyword_for, slip_of
from attnspec.core.nouns import Kind
from attnspec.core.paths import portable_text
from attnspec.host.describing import describe_callable
from attnspec.spec.yaml_lines import shown_path


class OpaqueObject:
    """Something of the subject's that only its own process can hold; here, how Python writes it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class FunctionDescription:
    """A function. parameters: None where it tells no signature.  attributes: what it carries.

    is_function: whether somebody who sets an attribute on it means attnspec.  uses: the packages its module imports.
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
        """The place of a function; None where nobody knows it."""
        return self.place if self.place.file else None


def describe_function(function: Callable[..., object] | FunctionDescription) -> FunctionDescription:
    """What is known of a function of this process; of one elsewhere it is known already."""
    return function if isinstance(function, FunctionDescription) else read_description(describe_callable(function))


def read_description(told: Mapping[str, Any]) -> FunctionDescription:
    """What a host tells of a function."""
    place = told["place"]
    parameters = told["parameters"]
    return FunctionDescription(
        type_name=str(told["type"]), qualname=str(told["qualname"]), module=str(told["module"]),
        doc=str(told["doc"]),
        place=FileLocation(shown_path(Path(str(place[0]))), int(place[1])) if place else FileLocation(""),
        parameters=None if parameters is None else tuple(map(_read_parameter, parameters)),
        attributes={str(name): read_value(value) for name, value in told["attributes"].items()},
        uses=frozenset(map(str, told["uses"])),
        **{name: bool(told[name]) for name in ("is_class", "is_callable", "is_function", "is_deferred",
                                               "is_module_of_torch")})


def _read_parameter(told: Mapping[str, Any]) -> Parameter:
    default = read_value(told["default"]) if "default" in told else Parameter.empty
    return Parameter(str(told["name"]), getattr(Parameter, str(told["kind"])), default=default)


def read_value(told: object) -> object:
    """The value as it was, where JSON can say so."""
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
_NO_INPUTS = frozenset({"self", "cls", "params", "parameters", "weights", "state", "variables", "config", "cfg"})
_LONGEST_DEFAULT = 40  # characters of a default that are shown
_ADDRESS_PATTERN = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object, another one in every process


_PARAMETERS_BY_FORM: Mapping[InputForm, frozenset[str]] = {
    InputForm.DENSE: frozenset(), InputForm.PACKED: SAID, InputForm.PAGED: frozenset({TABLE}),
    InputForm.DECODER: HELD_IN_CACHE | {STATE}}
"""By form, the keywords that it says by other means."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes beyond query, key and value: attnspec's keywords, and what is left at these defaults.

    form: the form of its arrays.  given: the parameters that belong to this form.  off: the flags that are off only
    where a call says so, since they are on by default or have none, each with False.  spelled: by keyword, the name of
    the parameter that it is given by, where that is another one.
    """

    keywords: frozenset[str]
    kind: Kind
    defaults: Mapping[str, str]
    form: InputForm = InputForm.DENSE
    given: frozenset[str] = frozenset()
    off: Mapping[str, bool] = field(default_factory=dict)
    spelled: Mapping[str, str] = field(default_factory=dict)


def signature_of(function: Callable[..., object] | FunctionDescription, name: str, *,
                 target: str = UNKNOWN_PLACE,
                 is_always_causal: bool = False) -> Signature:
    """What the function takes. `target`: what `attnspec init` would be told. Raises TargetError with file and line.

    A keyword that not every call gives needs a default, but for a flag, which is given as False then, as where it is on
    by default; is_always_causal: every call gives `causal`.

    query, key and value are given by position, whatever they are called, but for the name of a keyword or of parameters
    (`params`), which something else is given by; attnspec's keywords by name. A parameter that
    is none of these is left alone if it has a default, and so are `*args` and `**kwargs`. If it has none, the function
    cannot be called: an error. So is a keyword with a slip of the pen in it (`masks`, `casual`), which would turn off
    what the keyword is for, unless the function takes the keyword itself. A flag that says in its name that it makes
    attention causal (`is_causal`) is the keyword, and is given by its own name. Another library's name for another
    keyword is left alone like any other parameter, unless it is a flag that is on; wherever it is listed, the keyword
    stands beside it.
    """
    function = describe_function(function)
    parameters = _list_parameters(function, name, target)
    if is_rotary(parameters):
        return _read_rotary(function, parameters, name)
    inputs, rest = parameters[:3], [parameter for parameter in parameters[3:] if parameter.kind not in _STARS]
    if len(inputs) < 3 or any(each.kind not in _POSITIONAL or _is_no_input(each.name) for each in inputs):
        raise _make_error(function, _without_inputs(name, parameters, target))
    return _read_behind_inputs(function, rest, name, target, is_always_causal=is_always_causal)


def _read_behind_inputs(function: FunctionDescription, rest: Sequence[Parameter], name: str,
                        target: str, *,
                        is_always_causal: bool) -> Signature:
    """What attention takes beside query, key and value. Raises TargetError."""
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
                          f"{name} is declared causal_only and takes no 'causal', which every problem of such a "
                               f"subject gives. Let it take it: {_ATTENTION_CALL.replace('...', 'causal=True')}")
    given = {word for word in known if _is_flag(word) or kind in KEYWORDS[word].required} | (
        {NUMBER} if form is InputForm.PAGED else set())
    if bare := [each for each in known.values() if each.default is Parameter.empty and each.name not in given]:
        raise _make_error(function, _without_default(name, bare, target))
    return Signature(frozenset(known) | _PARAMETERS_BY_FORM[form], kind,
                     {parameter.name: _write_default(parameter.default) for parameter in unknown},
                     form, given_by_form,
                     {each.name: False for each in known.values() if _is_flag(each.name) and each.default},
                     parameter_names)


def _find_causal_spelling(rest: Sequence[Parameter]) -> Mapping[str, str]:
    """The parameter that is `causal` under another name, if there is just one, and none of that name: a flag, or what
    any library calls it so that it cannot be another thing.
    """
    named = [each for each in rest if each.kind is not Parameter.POSITIONAL_ONLY and is_causal_flag(each.name)
             and (each.default is Parameter.empty or isinstance(each.default, bool))]
    has_keyword = any(each.name == CAUSAL for each in rest)
    return {named[0].name: CAUSAL} if len(named) == 1 and not has_keyword else {}


def _without_inputs(name: str, parameters: Sequence[Parameter], target: str) -> str:
    """That query, key and value do not come first; a decorator may hide them."""
    takes = f"{name} takes ({', '.join(map(str, parameters))})"
    if parameters and all(each.kind in _STARS for each in parameters):
        return (f"{takes}, as a decorator makes it that hides the parameters: put @functools.wraps(function) on what "
                f"the decorator returns, or name them in a wrapper: {_ATTENTION_CALL}.")
    return (f"{takes}; the first three should be query, key and value, given by position: {_ATTENTION_CALL}. "
            f"To have a wrapper written: attnspec init {target}")


def _find_complaint(name: str, known: Mapping[str, Parameter], unknown: Sequence[Parameter],
                    target: str,
                    parameter_names: Mapping[str, str]) -> str:
    """What is wrong with the parameters behind query, key and value; empty if nothing is. parameter_names: by keyword,
    where the function calls it otherwise.
    """
    wrong = (*map(_complain_of_position, known.values()), *(suggest_parameter(each.name, known) for each in unknown),
             *(_switched_on(each, known, target) for each in unknown))
    if said := next(filter(None, wrong), ""):
        return f"{name} takes {said}"
    needed = [each for each in unknown if each.default is Parameter.empty]
    return _complain_of_needs(name, needed, known.values(), target,
                              parameter_names) if needed else ""


def _switched_on(parameter: Parameter, known: Collection[str], target: str) -> str:
    """What is wrong with another library's name for a flag, if the flag is on by default; empty for any other."""
    word = keyword_for(parameter.name)
    if parameter.default is not True or not word or word in known or not _is_flag(word):
        return ""
    return (f"{parameter.name}=True, a flag that attnspec knows as {word} and cannot switch off by this name. Rename "
            f"it to {word}, or have a wrapper written: attnspec init {target}")


def find_function_form(names: Collection[str], function: FunctionDescription,
                       name: str) -> tuple[InputForm, frozenset[str]]:
    """The form of a function with these parameters, and those that belong to the form. Raises TargetError where it has
    one of the borders only, or takes what packed arrays have no place for.
    """
    borders = [border for border in BORDERS if border in names]
    if STATE in names:
        _check_decoder([*borders, *names], function, name)
        return InputForm.DECODER, frozenset({STATE})
    if TABLE in names:
        _check_paged([*borders, *names], function, name)
        return InputForm.PAGED, frozenset({TABLE})
    if not borders:
        return InputForm.DENSE, frozenset()
    if len(borders) < len(BORDERS):
        [other] = set(BORDERS) - set(borders)
        raise _make_error(function, f"{name} takes {borders[0]!r} but not {other!r}; a packed function takes both: "
                               "attend(query, key, value, *, cu_query, cu_key, ...)")
    if unfit := [each for each in names if each in KEYWORDS and each not in EXPRESSED]:
        raise _make_error(function,
                          f"{name} is packed (it takes cu_query and cu_key) and takes {unfit[0]!r}, which packed "
                               f"arrays have no place for. A packed function may take {', '.join(sorted(EXPRESSED))}.")
    return InputForm.PACKED, frozenset(names) & GIVES.keys()


def _check_paged(names: Collection[str], function: FunctionDescription, name: str) -> None:
    """Raise TargetError for a paged function without lengths, or with what a table of pages has no place for."""
    if NUMBER not in names:
        raise _make_error(function, f"{name} takes {TABLE!r} but not {NUMBER!r}; a paged function takes both: "
                               f"attend(query, key, value, *, {TABLE}, {NUMBER}, ...)")
    if unfit := [each for each in names if each != TABLE and each in {*KEYWORDS, *BORDERS} - HELD_IN_PAGES]:
        raise _make_error(function,
                          f"{name} is paged (it takes {TABLE}) and takes {unfit[0]!r}, which has no place beside "
                               f"pages. A paged function may take {', '.join(sorted(HELD_IN_PAGES))}.")


def _check_decoder(names: Collection[str], function: FunctionDescription, name: str) -> None:
    """Raise TargetError for a decoder that takes what its cache says, or what has no place beside one."""
    of_layers = {word.name for word in KEYWORDS.values() if word.required}
    if unfit := [each for each in names if each in {*KEYWORDS, *BORDERS} - BESIDE_CACHE - of_layers - {STATE}]:
        raise _make_error(function,
                          f"{name} is a decoder (it takes {STATE}) and takes {unfit[0]!r}, which has no place "
                               f"beside a cache. A decoder may take {', '.join(sorted(BESIDE_CACHE))}.")


def is_rotary(parameters: Sequence[Parameter]) -> bool:
    """Whether these are the parameters of a rotary embedding: the second one is called `positions`."""
    return len(parameters) > 1 and parameters[1].name == POSITIONS and parameters[1].kind in _POSITIONAL


def _read_rotary(function: FunctionDescription, parameters: Sequence[Parameter],
                 name: str) -> Signature:
    """What a rotary embedding takes beside x and positions. Raises TargetError."""
    rest = [parameter for parameter in parameters[2:] if parameter.kind not in _STARS]
    known = {parameter.name for parameter in rest if parameter.name in ROTARY}
    for parameter in rest:
        others = [word for word in ROTARY if word not in known]
        if meant := "" if parameter.name in known else slip_of(parameter.name, others):
            raise _make_error(function,
                              f"{name} takes {parameter.name!r}, which is no keyword of a rotary embedding. Did "
                                   f"you mean {meant!r}? If another thing is meant, give it another name.")
        if parameter.name in known and parameter.kind is Parameter.POSITIONAL_ONLY:
            raise _make_error(function,
                              f"{name} takes {parameter.name!r} by position only, but attnspec gives only x and "
                                   "positions by position.")
        if parameter.default is Parameter.empty:
            raise _make_error(function, f"{name} needs {parameter.name!r}; a rotary embedding can be called with x and "
                                   f"positions alone: {ROTARY_CALL}.")
    defaults = {each.name: _write_default(each.default) for each in rest if each.name not in known}
    return Signature(frozenset({POSITIONS, *known}), Kind.ROTARY, defaults)


def _is_no_input(name: str) -> bool:
    """Whether a parameter bears the name of something else than query, key or value; most names say nothing."""
    return name in KEYWORDS or name in _NO_INPUTS or any(name in others for others in OTHER_NAMES.values())


def _find_kind(keywords: Collection[str], function: FunctionDescription, name: str) -> Kind:
    """A layer takes what every layer must take (params, heads); an attention function takes none of it."""
    required = {word.name for word in KEYWORDS.values() if Kind.LAYER in word.required}
    present, absent = required.intersection(keywords), required.difference(keywords)
    if present and absent:
        raise _make_error(function, f"{name} takes {', '.join(sorted(present))} but not {', '.join(sorted(absent))}; "
                               "a layer takes both, an attention function neither.")
    return Kind.LAYER if present else Kind.ATTENTION


def _list_parameters(function: FunctionDescription, name: str, target: str) -> list[Parameter]:
    if function.is_deferred:
        raise _make_error(function,
                          f"{name} is a coroutine or generator function; a plain function is expected: "
                          f"{_ATTENTION_CALL}.")
    if function.parameters is None:
        raise _make_error(function, f"{name} has no readable signature, so attnspec cannot know what it takes. "
                               f"Wrap it in a function that names its keywords: {_ATTENTION_CALL}. "
                               f"Or have that written: attnspec init {target}")
    return list(function.parameters)


def _complain_of_position(parameter: Parameter) -> str:
    """What is wrong with a keyword that can be given by position only; empty for any other."""
    is_hidden = parameter.kind is Parameter.POSITIONAL_ONLY
    says = f"{parameter.name!r} by position only, but attnspec gives only query, key and value by position."
    return says if is_hidden else ""


def suggest_parameter(name: str, taken: Collection[str]) -> str:
    """What is wrong with a name that looks like a keyword, if the function does not take that; empty for any other."""
    meant = "" if keyword_for(name) else slip_of(name, [word for word in KEYWORDS if word not in taken])
    return (f"{name!r}, which is not a known keyword. Did you mean {meant!r}? If another thing is meant, give it "
            "another name.") if meant else ""


def _is_flag(keyword: str) -> bool:
    return KEYWORDS[keyword].shape == "bool"


def _without_default(name: str, bare: Collection[Parameter], target: str) -> str:
    """That keywords cannot be left out, and the defaults that mend it."""
    written = ", ".join(str(_is_plain_default(each).replace(default=None)) for each in bare)
    return (f"{name} takes {' and '.join(repr(each.name) for each in bare)} without a default, so it cannot be called "
            f"without. Give the default that means none is given: def {name}(query, key, value, *, {written}), or have "
            f"a wrapper written: attnspec init {target}")


def _complain_of_needs(name: str, needed: Collection[Parameter], known: Collection[Parameter],
                       target: str,
                       parameter_names: Mapping[str, str]) -> str:
    """That the function needs what attnspec does not know, with the wrapper that gives it, as code to paste."""
    inputs = [Parameter(word, Parameter.POSITIONAL_OR_KEYWORD) for word in ("query", "key", "value")]
    takes = inspect.Signature([*inputs, *map(_is_plain_default, known)])
    kept = (f"{parameter_names.get(each.name, each.name)}={each.name}" for each in known)
    gives = ", ".join(("query", "key", "value", *map(_write_gap, needed), *kept))
    wrapper, wrapped = "wrapped" if name == "attend" else "attend", "function" if iskeyword(name) else name
    return (f"{name} needs {' and '.join(map(_name_parameter, needed))}, which attnspec does not know "
            "and so cannot give. Write a wrapper that passes it, and check the wrapper:\n"
            f"    def {wrapper}{takes}: return {wrapped}({gives})\n"
            f"or have one written: attnspec init {target}")


def _is_plain_default(parameter: Parameter) -> Parameter:
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=Parameter.empty)


def _write_gap(parameter: Parameter) -> str:
    """The place in the wrapper's call where the user has to write what is given."""
    return "..." if parameter.kind is Parameter.POSITIONAL_ONLY else f"{parameter.name}=..."


def _name_parameter(parameter: Parameter) -> str:
    word = keyword_for(parameter.name)
    return f"{parameter.name!r} (attnspec's keyword is {word}: rename it)" if word else repr(parameter.name)


def _write_default(default: object) -> str:
    """The default as Python writes it, short and the same in every process."""
    text = _ADDRESS_PATTERN.sub("", portable_text(" ".join(repr(default).split())))
    return text if len(text) <= _LONGEST_DEFAULT else f"{text[:_LONGEST_DEFAULT - 1]}…"


def _make_error(function: FunctionDescription, message: str) -> TargetError:
    return TargetError(message, where=function.where)
