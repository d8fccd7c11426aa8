"""What the parameters of a callable are called, also of one that is written in C and has only a docstring."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from attnspec.forms.form import SYNONYMS


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of its parameters, without self and without stars; empty if nobody can tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return _documented(function)
    return tuple(each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD))


def _documented(function: Callable[..., Any]) -> tuple[str, ...]:
    """From a docstring that begins with the signature, as those of PyTorch's functions in C do."""
    text = re.match(r"\s*\w+\((.*?)\)\s*(?:->|:|\n)", function.__doc__ or "", re.DOTALL)
    if text is None:
        return ()
    try:
        made = ast.parse(f"def f({text[1]}): pass").body[0]
    except SyntaxError:
        return ()
    assert isinstance(made, ast.FunctionDef)  # that is what was parsed
    return tuple(each.arg for each in (*made.args.args, *made.args.kwonlyargs))


def theirs(keyword: str, parameters: Iterable[str]) -> tuple[str, ...]:
    """Their parameters that may be our keyword, the usual name first."""
    present = set(parameters)
    return tuple(name for name in SYNONYMS[keyword] if name in present)


def lifts_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The frameworks whose tensors it may take, likeliest first: those its module mentions, then whatever is here."""
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    root = str(getattr(function, "__module__", "") or "").partition(".")[0]
    known = {"torch": "torch", "jax": "jax"}
    meant = [lift for name, lift in known.items() if root == name or _mentions(scope, name)]
    here = [lift for name, lift in known.items() if importlib.util.find_spec(name)]
    return tuple(dict.fromkeys((*meant, *([] if meant else [""]), *([] if meant else here), "")))


def _mentions(scope: dict[str, Any], name: str) -> bool:
    return any(str(getattr(value, "__name__", "")).partition(".")[0] == name for value in scope.values()
               if inspect.ismodule(value))
