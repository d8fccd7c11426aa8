"""A device `near` of PyTorch that is none: a PrivateUse1 backend in Python that keeps entries on the CPU.

Tests copy this file beside a function that is judged. It is as strict as a GPU: tensors on different devices do not
meet, what was computed cannot be read before it was waited for, and once lost the device answers nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

Tensor = Any  # torch is not seen by mypy

COUNT = 2
PLACES = ("copy_", "_to_copy", "detach")


class Near(torch.Tensor):  # type: ignore[misc]  # torch is not seen by mypy
    """A tensor that says that it is elsewhere. kept: its entries, with the same shape and strides."""

    pending = 0
    is_lost = False

    @staticmethod
    def __new__(cls: Any, kept: Tensor, device: Any) -> Any:  # noqa: ANN401  (as torch wants it)
        """A tensor of any shape on this device."""
        made = torch.Tensor._make_wrapper_subclass(cls, kept.shape, strides=kept.stride(), dtype=kept.dtype,
                                                   device=device)
        made.kept = kept
        return made

    @classmethod
    def __torch_dispatch__(cls, op: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        """Every operation, on what is kept."""
        name, kwargs = op.overloadpacket.__name__, dict(kwargs or {})
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        target = torch.device(kwargs.get("device") or next(each for each in tensors if isinstance(each, Near)).device)
        cls._refuse(name, tensors, target)
        inner, named = tree_map_only(Near, lambda each: each.kept, (args, kwargs))
        found = op(*inner, **{**named, **({"device": "cpu"} if "device" in named else {})})
        if name.endswith("_"):
            return args[0]
        return found if target.type == "cpu" else tree_map_only(torch.Tensor, lambda each: Near(each, target), found)

    @classmethod
    def _refuse(cls, name: str, tensors: list[Tensor], target: Any) -> None:  # noqa: ANN401
        if cls.is_lost:
            raise RuntimeError("near error: an illegal memory access was encountered")
        if name not in PLACES and len({each.device for each in tensors if each.dim()}) > 1:
            raise RuntimeError("expected all tensors to be on the same device")
        if target.type == "cpu" and cls.pending:
            raise RuntimeError("read before it was waited for")
        cls.pending += name not in PLACES


def lose() -> None:
    """Do what a kernel does that accesses memory which is not there."""
    Near.is_lost = True


class Device:
    """What stands in torch under the name of the device."""

    def is_available(self) -> bool:
        return True

    is_initialized = is_available

    def _is_in_bad_fork(self) -> bool:
        return False

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return COUNT

    def get_device_name(self, device: str) -> str:
        return f"Near and dear ({device})"

    def manual_seed_all(self, seed: int) -> None:
        """Nothing here draws numbers."""

    def synchronize(self, _device: str) -> None:
        Near.pending = 0


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, device: Any = None, **_: object) -> Tensor:  # noqa: ANN401
    return Near(torch.empty_strided(size, stride, dtype=dtype), device)


def _empty(size: Any, *, dtype: Any = None, device: Any = None, **_: object) -> Tensor:  # noqa: ANN401
    return Near(torch.empty(size, dtype=dtype), device)


_setup_privateuseone_for_python_backend("near", backend_module=Device())
library = torch.library.Library("aten", "IMPL")
library.impl("empty_strided", _empty_strided, "PrivateUse1")
library.impl("empty.memory_format", _empty, "PrivateUse1")
