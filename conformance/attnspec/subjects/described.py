"""What is known of a function without calling it, wherever it lives: its parameters, its attributes, its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import Any

from attnspec.core.errors import FileLocation
from attnspec.host.describing import described
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


def described_of(function: Callable[..., object] | FunctionDescription) -> FunctionDescription:
    """What is known of a function of this process; of one elsewhere it is known already."""
    return function if isinstance(function, FunctionDescription) else read_description(described(function))


def read_description(told: Mapping[str, Any]) -> FunctionDescription:
    """What a host tells of a function."""
    place = told["place"]
    parameters = told["parameters"]
    return FunctionDescription(
        type_name=str(told["type"]), qualname=str(told["qualname"]), module=str(told["module"]), doc=str(told["doc"]),
        place=FileLocation(shown_path(Path(str(place[0]))), int(place[1])) if place else FileLocation(""),
        parameters=None if parameters is None else tuple(map(_parameter, parameters)),
        attributes={str(name): value_of(value) for name, value in told["attributes"].items()},
        uses=frozenset(map(str, told["uses"])),
        **{name: bool(told[name]) for name in ("is_class", "is_callable", "is_function", "is_deferred",
                                               "is_module_of_torch")})


def _parameter(told: Mapping[str, Any]) -> Parameter:
    default = value_of(told["default"]) if "default" in told else Parameter.empty
    return Parameter(str(told["name"]), getattr(Parameter, str(told["kind"])), default=default)


def value_of(told: object) -> object:
    """The value as it was, where JSON can say so."""
    if isinstance(told, list):
        return [value_of(each) for each in told]
    if not isinstance(told, Mapping):
        return told
    if "$float" in told:
        return float(str(told["$float"]))
    if "$tuple" in told:
        return tuple(map(value_of, told["$tuple"]))
    if "$map" in told:
        return {_key(key): value_of(value) for key, value in told["$map"]}
    # errors name the type of what they complain about
    return type(str(told.get("type", "object")), (OpaqueObject,), {})(str(told.get("$repr", "")))


def _key(told: object) -> object:
    key = value_of(told)
    return key if isinstance(key, str | int | float | bool | None) else repr(key)
