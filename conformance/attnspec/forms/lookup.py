"""What the parameters of a callable are, also of one that is written in C and has only a docstring."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from attnspec.forms.words import SYNONYMS, plain
from attnspec.subjects.lifts import LIFTS

_PLAIN = (type(None), bool, int, float, str)
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameter:
    """One of theirs. default: REQUIRED where there is none.  kind: of `inspect`."""

    name: str
    default: object = REQUIRED
    kind: inspect._ParameterKind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    annotation: object = REQUIRED

    @property
    def is_required(self) -> bool:
        """Whether a call without it fails."""
        return self.default is REQUIRED

    @property
    def by_position(self) -> bool:
        """Whether it may be given by position."""
        return self.kind is not inspect.Parameter.KEYWORD_ONLY

    @property
    def text(self) -> str:
        """Its default in Python, where Python's `repr` can be read back; else empty."""
        parts = self.default if type(self.default) is tuple else (self.default,)
        return repr(self.default) if all(type(each) in _PLAIN for each in parts) else ""


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Its parameters, without self and without stars; empty if nobody can tell."""
    owner = getattr(function, "__self__", None)
    if function_of_autograd(function):  # `attention = _Attention.apply`
        found = parameters_of(owner.forward)[1:]  # type: ignore[union-attr]  # it has one: that was asked
        return tuple(Parameter(each.name, each.default, inspect.Parameter.POSITIONAL_ONLY) for each in found)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return _documented(function)
    return tuple(Parameter(each.name, each.default, each.kind, each.annotation) for each in parameters
                 if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD))


def function_of_autograd(function: Callable[..., Any]) -> bool:
    """Whether it is the `apply` of a torch.autograd.Function, which takes no keywords and has no signature."""
    owner = getattr(function, "__self__", None)
    return isinstance(owner, type) and hasattr(owner, "forward") and hasattr(owner, "backward")


def made_by(layer: type[Any]) -> tuple[Parameter, ...]:
    """The parameters of its constructor; those of `__init__` where a metaclass hides them."""
    return parameters_of(layer) or parameters_of(layer.__init__)[1:]


def _documented(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """From a docstring that begins with the signature, as those of PyTorch's functions in C do."""
    text = re.match(r"\s*\w+\((.*?)\)\s*(?:->|:|\n)", function.__doc__ or "", re.DOTALL)
    if text is None:
        return ()
    try:
        made = ast.parse(f"def f({text[1]}): pass").body[0]
    except SyntaxError:
        return ()
    assert isinstance(made, ast.FunctionDef)  # that is what was parsed
    given, only = made.args, made.args.kwonlyargs
    defaults = [None] * (len(given.args) - len(given.defaults)) + given.defaults
    return (*(Parameter(each.arg, _literal(default)) for each, default in zip(given.args, defaults, strict=True)),
            *(Parameter(each.arg, _literal(default), inspect.Parameter.KEYWORD_ONLY)
              for each, default in zip(only, given.kw_defaults, strict=True)))


def _literal(node: ast.expr | None) -> object:
    if node is None:
        return REQUIRED
    try:
        return ast.literal_eval(node)
    except ValueError:
        return node


def theirs(keyword: str, parameters: Iterable[Parameter]) -> tuple[Parameter, ...]:
    """Their parameters that may be our keyword, the usual name first."""
    present: dict[str, Parameter] = {}
    for each in parameters:
        present.setdefault(plain(each.name), each)  # Equinox has key_, an array, before key, of random numbers
    return tuple(present[name] for name in SYNONYMS[keyword] if name in present)


def lifts_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The frameworks whose tensors it may take, likeliest first: those its module mentions, then whatever is here."""
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    root = str(getattr(function, "__module__", "") or "").partition(".")[0]
    meant = [lift for lift in LIFTS if root == lift or _mentions(scope, lift)]
    here = [lift for lift in LIFTS if importlib.util.find_spec(lift)]
    return tuple(dict.fromkeys((*meant, *([] if meant else ["", *here]), "")))


def _mentions(scope: Mapping[str, Any], name: str) -> bool:
    return any(str(getattr(value, "__name__", "")).partition(".")[0] == name for value in scope.values()
               if inspect.ismodule(value))
