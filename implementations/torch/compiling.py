"""`torch.compile` with room for every shape: beyond its own limit of programs, calls would silently stay eager."""

from __future__ import annotations

import inspect
from typing import Any

import torch

LIMIT = "recompile_limit"


def compile_often(function: Any, *, programs: int, dynamic: bool) -> Any:  # noqa: ANN401  (functions that torch makes)
    """The function, compiled anew up to so many times. `torch.compile` takes the limit since 2.12."""
    if LIMIT in inspect.signature(torch.compile).parameters:
        return torch.compile(function, dynamic=dynamic, recompile_limit=programs)
    setattr(torch._dynamo.config, LIMIT, programs)
    return torch.compile(function, dynamic=dynamic)
