"""The forms that a layer of PyTorch may have: how it is constructed, and which of its parameters is which matrix."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from attnspec.forms.form import Form
from attnspec.forms.lookup import parameters_of, theirs
from attnspec.ground.errors import TargetError
from attnspec.ground.nouns import Kind

_WIDTH, _HEADS = 8, 2
_PARTS: Mapping[str, str] = {
    "query": r"(^|[._])(to_|w_?)?(q|query)(_?proj|_?linear|_?weight)?([._]|$)",
    "key": r"(^|[._])(to_|w_?)?(k|key)(_?proj|_?linear|_?weight)?([._]|$)",
    "value": r"(^|[._])(to_|w_?)?(v|value)(_?proj|_?linear|_?weight)?([._]|$)",
    "out": r"(^|[._])(to_|w_?|c_)?(o|out|output|proj|dense|fc)(_?proj|_?linear|_?weight)?([._]|$)",
}
_ALL = '[params[f"{0}_{{part}}"] for part in PARTS]'
_FUSED_BIAS = f"torch.cat({_ALL.format('b')})"
_STACKED = f"torch.cat({_ALL.format('w')}, dim=1)"
_BY_HEAD = (f"torch.stack({_ALL.format('w')}, dim=1).unflatten(2, (heads, -1)).transpose(1, 2)"
            '.reshape(params["w_query"].shape[0], -1)')


def layer_forms(target: str, layer: type[Any]) -> Iterator[Form]:
    """Every form worth a try. Raises TargetError for a class that is no module of PyTorch, or cannot be constructed."""
    if not any(base.__module__.partition(".")[0] == "torch" for base in layer.__mro__):
        raise TargetError(f"{target} is a class, and no module of PyTorch, so nobody can tell how it is constructed "
                          "and where its matrices are. Write its adapter by hand: docs/writing-an-adapter.md.")
    construction = _construction(target, layer)
    shapes = _shapes(target, layer, construction)
    inputs = _inputs(layer)
    for transposed in (True, False):
        for fused in (_STACKED, _BY_HEAD):
            state = _state(shapes, fused, transposed=transposed)
            for pair in (False, True):
                yield Form(target, Kind.LAYER, "torch", names=inputs if len(inputs) == 3 else (), inputs=len(inputs),
                           construction=construction, state=state, returns_pair=pair,
                           remarks=_left_over(shapes, state))


def _construction(target: str, layer: type[Any]) -> Mapping[str, str]:
    """The arguments of the constructor: width, heads, and what makes them (B,T,M)."""
    parameters = parameters_of(layer)
    known = {word: found[0] for word in ("width", "heads", "head_width") if (found := theirs(word, parameters))}
    for word in ("width", "heads"):
        if word not in known:
            raise TargetError(f"the constructor of {target} takes ({', '.join(parameters)}); none of these names its "
                              f"{word}. Write its adapter by hand: docs/writing-an-adapter.md.")
    made = {known["width"]: "query.shape[-1]", known["heads"]: "heads"}
    if "head_width" in known:
        made[known["head_width"]] = "query.shape[-1] // heads"
    return made | ({"batch_first": "True"} if "batch_first" in parameters else {})


def _shapes(target: str, layer: type[Any], construction: Mapping[str, str]) -> Mapping[str, tuple[int, ...]]:
    """The parameters of a small instance."""
    sizes = {"query.shape[-1]": _WIDTH, "heads": _HEADS, "query.shape[-1] // heads": _WIDTH // _HEADS, "True": True}
    try:
        module = layer(**{name: sizes[text] for name, text in construction.items()})
    except Exception as raised:  # whatever somebody's constructor may raise
        given = ", ".join(f"{name}={text}" for name, text in construction.items())
        raise TargetError(f"{target}({given}) raises {type(raised).__name__}: {raised}") from None
    return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}


def _inputs(layer: type[Any]) -> tuple[str, ...]:
    """The names of the call's arrays: query, key and value, or the one that serves for all."""
    names = parameters_of(inspect.unwrap(layer.forward))[1:]
    found = tuple(theirs(word, names)[0] for word in ("query", "key", "value") if theirs(word, names))
    return found if len(found) == 3 else names[:1]


def _state(shapes: Mapping[str, tuple[int, ...]], fused: str, *, transposed: bool) -> Mapping[str, str]:
    """What is copied where. Biases count only if query, key, value and output all have one; else they are zero."""
    matrices = {name: _matrix(name, shape, fused) for name, shape in shapes.items() if len(shape) == 2}
    state = {name: f"({text}).T" if transposed else text for name, text in matrices.items() if text}
    biases = {name: _bias(name, shape) for name, shape in shapes.items() if len(shape) == 1 and "norm" not in name}
    found = " ".join(biases.values())
    are_whole = 'params["b_out"]' in found and (_FUSED_BIAS in found or 'params["b_query"]' in found)
    zero = "torch.zeros(())"
    return state | {name: text if are_whole else zero for name, text in biases.items() if text}


def _part(name: str) -> str:
    return next((part for part, pattern in _PARTS.items() if re.search(pattern, name)), "")


def _matrix(name: str, shape: tuple[int, ...], fused: str) -> str:
    if sorted(shape) == [_WIDTH, 3 * _WIDTH]:
        return fused
    part = _part(name) if shape == (_WIDTH, _WIDTH) else ""
    return f'params["w_{part}"]' if part else ""


def _bias(name: str, shape: tuple[int, ...]) -> str:
    if shape == (3 * _WIDTH,):
        return _FUSED_BIAS
    part = _part(name) if shape == (_WIDTH,) else ""
    return f'params["b_{part}"]' if part else ""


def _left_over(shapes: Mapping[str, tuple[int, ...]], state: Mapping[str, str]) -> tuple[str, ...]:
    left = [name for name in shapes if name not in state]
    return (f"Parameters that keep the values they are born with: {', '.join(left)}.",) if left else ()
