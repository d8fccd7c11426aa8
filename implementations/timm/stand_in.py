"""A stand-in for torchvision where there is none: timm and vit-pytorch import it and their attention has no use for it.

PyPI's torchvision is built for CUDA and breaks a CPU build of PyTorch, so it is often left out (`pip install --no-deps
timm`). Import this module first. Where torchvision is installed it does nothing. Otherwise every module below
`torchvision` can be imported, and every name in one is an empty nn.Module, which can be subclassed and named in a type.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from torch import nn


class _Named(type):
    """A class that has every constant, as enumerations do."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class _StandIn(ModuleType):
    """A module that has every name."""

    __path__: list[str] = []  # so that it counts as a package  # noqa: RUF012  (the import system's name)
    __file__ = "<stand-in for torchvision>"
    __version__ = "0.0"  # Transformers, imported later in the same process, asks for it

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (a class, or what the import system asks for)
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, _Named(name, (nn.Module,), {}))
        return vars(self)[name]


class _Finder(MetaPathFinder, Loader):
    """Finds torchvision and all below it."""

    def find_spec(self, fullname: str, path: Sequence[str] | None,  # noqa: ARG002  (the protocol's)
                  target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG002  (the protocol's)
        """A spec for the modules that are stood in for."""
        return ModuleSpec(fullname, self, is_package=True) if f"{fullname}.".startswith("torchvision.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty module that has every name."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to execute."""


if importlib.util.find_spec("torchvision") is None:
    sys.meta_path.append(_Finder())
