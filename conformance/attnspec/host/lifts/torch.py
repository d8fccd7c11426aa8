"""NumPy to PyTorch and back. bfloat16 travels as its bits, since torch and ml_dtypes know nothing of each other."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch

from ..frames import BITS, Entries
from . import driver, making, plain, torch_forms, torch_tensors
from .making import FrameworkForm


class TorchLift(plain.Lift):
    """Tensors that, on the CPU, share the arrays' memory, so that a mutation is seen."""

    name = "torch"

    def __init__(self, device: str = "") -> None:
        """Raises LookupError, with the devices there are, for one that is not there."""
        self.device = device or "cpu"
        if self.device not in devices():
            raise LookupError(", ".join(devices()))

    def takes(self, dtype: str) -> str:
        """It takes them all, but for MPS, which has no float64."""
        return "MPS has no float64" if dtype == "float64" and self.device == "mps" else ""

    def hand(self, entries: Entries) -> Any:
        """A tensor, any shape, with the array's memory, dtype and strides (those with negative ones are copied). NumPy
        gives an array of nothing strides of 0, by which a kernel takes it for one that is not contiguous.
        """
        array = entries.array.copy() if any(stride < 0 for stride in entries.array.strides) else entries.array
        tensor = _of_bits(entries.dtype, array) if entries.dtype in BITS else torch.from_numpy(array)
        tensor = tensor if array.size else tensor.new_empty(tensor.shape)
        return tensor if self.device == "cpu" else placed(tensor, self.device)

    def read(self, value: Any) -> Entries:
        """The tensor's entries, any shape; what is no tensor is read by NumPy."""
        return torch_tensors.read(value) if isinstance(value, torch.Tensor) else plain.entries_of(np.asarray(value))

    def wait(self, returned: Any) -> None:
        """An error of a kernel is told when the device is waited for."""
        if self.device == "mps":
            torch.mps.synchronize()
        elif self.device != "cpu":
            getattr(torch, _kind(self.device)).synchronize(self.device)

    def give_back(self, value: Any, entries: Entries) -> None:
        """On the CPU memory is shared; from a device it is copied where it has changed."""
        if self.device == "cpu":
            return
        left = self.read(value).array
        if left.shape == entries.array.shape and left.tobytes() != entries.array.tobytes():
            np.copyto(entries.array, left)

    def is_lost(self) -> bool:
        """Tried out: every further operation raises where a kernel has corrupted a context."""
        if self.device == "cpu":
            return False
        try:
            self.wait(torch.zeros(1, device=self.device).add_(1))
        except Exception:  # each kind of device has its own
            return True
        return False

    def about(self) -> Dict[str, str]:
        """The device, its driver, and what of it PyTorch was built for."""
        if self.device == "cpu":
            return {}
        name = getattr(getattr(torch, _kind(self.device), None), "get_device_name", None)
        found = {"gpu": name(self.device) if name else "", "driver": driver.nvidia()}
        if self.device.startswith("cuda"):
            found.update(cuda=str(torch.version.cuda or ""), cudnn=str(torch.backends.cudnn.version() or ""),
                         hip=str(getattr(torch.version, "hip", "") or ""))
        return {each: str(told) for each, told in found.items() if told}

    def gradients(self, function: Callable[..., Any], inputs: Sequence[Any],
                  rows: Any) -> Tuple[Any, Optional[List[Any]]]:
        """The output detached, and the gradients in the shapes of the inputs, (B,H,T,D) of the query, zero for an input
        that it does not depend on; rows (T,).
        """
        leaves = [each.detach().clone().requires_grad_() for each in inputs]
        output = function(*leaves)
        if not isinstance(output, torch.Tensor) or not output.requires_grad:
            return output, None
        chosen = torch.zeros_like(output)
        chosen[..., torch.from_numpy(rows).to(output.device), :] = 1
        found = torch.autograd.grad(output, leaves, chosen, allow_unused=True)
        return output.detach(), [_float64(each, leaf) for each, leaf in zip(found, leaves)]

    def differentiated(self, function: Callable[..., Any], inputs: Sequence[Any], keywords: Mapping[str, Any],
                       wrt: Sequence[str]) -> Tuple[Any, Optional[List[Any]]]:
        """By `torch.autograd.grad`, in the shapes of the arguments, (B,H,T,D) of the query; zeros with respect to one
        that the output does not depend on. Raises NotReached where that is none of the parameters.
        """
        given = {**dict(zip(plain.INPUTS, inputs)), **keywords}
        grad = given.pop(plain.GRAD)
        leaves = {name: making.argument(given, name).detach().requires_grad_() for name in wrt}
        serves = {id(making.argument(given, name)): leaf for name, leaf in leaves.items()}  # one input as several
        given = making.replaced({name: serves.get(id(value), value) for name, value in given.items()}, leaves)
        inputs = [given.pop(name) for name in plain.INPUTS]
        output = function(*inputs, **given)
        if not isinstance(output, torch.Tensor) or not output.requires_grad:
            return output, None
        found = torch.autograd.grad(output, list(leaves.values()), grad.to(output.dtype), allow_unused=True)
        of_parameters = [each for name, each in zip(wrt, found) if making.is_parameter(name)]
        if of_parameters and all(each is None for each in of_parameters):
            raise making.NotReached
        return output.detach(), [torch.zeros_like(leaf) if each is None else each
                                 for each, leaf in zip(found, leaves.values())]

    def formed(self, function: Callable[..., Any], form: FrameworkForm) -> Callable[..., Any]:
        """The function in this form, of tensors (B,H,T,D)."""
        return torch_forms.formed(function, form)

    def forget(self) -> None:
        """Drop what was compiled and exported."""
        torch_forms.forget()


LIFT = TorchLift


def placed(tensor: Any, device: str) -> Any:
    """On the device, any shape, with the same strides: `to` keeps them only of tensors without gaps."""
    if any(stride == 0 and length > 1 for stride, length in zip(tensor.stride(), tensor.shape)):
        base = tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())]
        return placed(base, device).expand(tensor.shape)
    there = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    return there.copy_(tensor)


def _float64(gradient: Any, leaf: Any) -> Any:
    """A gradient, in the shape of its leaf, such as (B,H,T,D)."""
    found = torch.zeros_like(leaf) if gradient is None else gradient
    return found.detach().to("cpu", torch.float64).numpy()


def devices() -> List[str]:
    """The devices that are there, those of a backend that is a package of its own (PrivateUse1, as npu) too."""
    own = getattr(torch._C, "_get_privateuse1_backend_name", lambda: "")()
    mps = getattr(torch.backends, "mps", None)
    return ["cpu", *(each for kind in ("cuda", "xpu", own) for each in _of_kind(kind)),
            *(["mps"] if mps and mps.is_available() else [])]


def _of_kind(kind: str) -> List[str]:
    """The names of a kind's devices: `cuda`, `cuda:0`, …; none where there is no such device."""
    module = getattr(torch, kind, None) if kind else None
    if module is None or not module.is_available():
        return []
    return [kind, *("{}:{}".format(kind, at) for at in range(module.device_count()))]


def _kind(device: str) -> str:
    return device.partition(":")[0]


def _of_bits(dtype: str, bits: Any) -> Any:
    """A tensor of any shape, of a dtype that travels as its bits. PyTorch has no int4 and no uint4 that a function can
    read, so that int4 comes as int8 and uint4 as uint8.
    """
    if dtype == "int4":
        return torch.from_numpy(((bits.view(np.int8) << 4) >> 4).astype(np.int8))
    if dtype == "uint4":
        return torch.from_numpy(bits.view(np.uint8))
    return torch.from_numpy(bits.view("i{}".format(bits.itemsize))).view(getattr(torch, dtype))
