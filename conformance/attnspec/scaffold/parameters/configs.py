"""The config object that a constructor wants: its class if one is named, else whatever the constructor asks it for."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from attnspec.core.nouns import Kind
from attnspec.scaffold.form import At, Config
from attnspec.scaffold.lookup import TheirParameter, parameters_of
from attnspec.scaffold.meaning import SIZES, roles
from attnspec.scaffold.probe_problems import CROSS

_FIELDS: Mapping[Kind, Mapping[str, str]] = {
    kind: {**SIZES[kind], "dropout": "0.0", "biases": "True", "length": "T", "place": "0"} for kind in Kind}
"""What a field is set to, by what it means."""
_NUMBERS: Mapping[str, int] = {"M": CROSS.H * CROSS.D, "heads": CROSS.H, "H": CROSS.H, "Hkv": CROSS.H, "D": CROSS.D,
                               "Dv": CROSS.D, "T": CROSS.T}
_BY_DEFAULT = frozenset({"length", "inner_width", "out_width", "value_head_width", "place"})
"""What a class of configs has a sensible default for."""
_ENDINGS = ("Config", "Args", "Arguments", "ConfigBase", "Params")


def configs_of(layer: type[Any], parameter: TheirParameter, kind: Kind,
               others: Mapping[str, object]) -> Iterator[Config]:
    """The configs worth a try: of the annotated class, of classes beside the layer, and of what the layer asks for.

    others: what else its constructor is given.
    """
    for made_by in _classes(layer, parameter):
        if fields := _fields_of(made_by, kind):
            yield Config(fields, made_by.__name__, made_by.__module__)
    for is_dict in (False, True):
        if fields := _asked(layer, parameter.name, kind, others, is_dict=is_dict):
            yield Config(fields, is_dict=is_dict)


def _classes(layer: type[Any], parameter: TheirParameter) -> Iterator[type[Any]]:
    """The class that the parameter is annotated with, and those of its module whose names say so, the likest first."""
    try:
        annotated = typing.get_type_hints(layer.__init__).get(parameter.name, parameter.annotation)
    except Exception:  # an annotation may name what is not there
        annotated = parameter.annotation
    options = [annotated, *typing.get_args(annotated)]
    beside = [each for name, each in vars(sys.modules[layer.__module__]).items() if name.endswith(_ENDINGS)]
    alike = sorted(beside, key=lambda each: -len(_common(layer.__name__, getattr(each, "__name__", ""))))
    for each in dict.fromkeys((*options, *alike)):
        if inspect.isclass(each) and each.__module__ not in ("builtins", "inspect"):
            yield each


def _common(first: str, second: str) -> str:
    return first[:next((at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), 0)]


def _fields_of(made_by: type[Any], kind: Kind) -> Mapping[str, str]:
    """The fields whose names say what they mean; nothing if none tells a number of heads."""
    parameters = parameters_of(made_by)
    means = roles(parameters, At.CONSTRUCTOR)
    required = {each.name for each in parameters if each.is_required}
    fields = {name: _FIELDS[kind][role] for name, role in means.items()
              if role in _FIELDS[kind] and (name in required or role not in _BY_DEFAULT)}
    return fields if "heads" in means.values() else {}


@dataclass(slots=True)
class _Asked:
    """A config that answers what it is asked for by what that means, and remembers it. An unknown field is False, but
    for a question that can do without (`getattr(config, name, default)`).
    """

    kind: Kind
    fields: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    missed: str = ""

    def answer(self, name: str) -> object:
        """The field's value. Raises KeyError for one whose name says nothing."""
        role = roles([TheirParameter(name)], At.CONSTRUCTOR).get(name, "")
        text = _FIELDS[self.kind].get(role, "False" if name in self.unknown else "")
        if not text:
            self.missed = name
            raise KeyError(name)
        self.fields[name] = text
        return eval(text.replace('params["w_out"].shape[1]', "M"), dict(_NUMBERS))


class _Attributes:
    """It is asked for attributes."""

    def __init__(self, asked: _Asked) -> None:
        self._answer = asked.answer

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._answer(name)
        except KeyError:
            raise AttributeError(name) from None


class _Items(dict[str, object]):
    """It is asked for items."""

    def __init__(self, asked: _Asked) -> None:
        super().__init__()
        self._answer = asked.answer

    def __missing__(self, name: str) -> object:
        return self._answer(name)


def _asked(layer: type[Any], name: str, kind: Kind, others: Mapping[str, object], *,
           is_dict: bool) -> Mapping[str, str]:
    """What the constructor asks of it; nothing if it cannot be satisfied."""
    asked = _Asked(kind)
    for _ in range(_MOST):
        asked.fields.clear()
        try:
            layer(**{**others, name: _Items(asked) if is_dict else _Attributes(asked)})
        except (AttributeError, KeyError):
            if asked.missed in asked.unknown or not asked.missed:
                return {}
            asked.unknown.add(asked.missed)
        except Exception:  # whatever somebody's constructor may raise
            return {}
        else:
            return dict(asked.fields)
    return {}


_MOST = 30
"""Fields whose names say nothing that a constructor may ask for."""
