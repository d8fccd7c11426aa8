"""NumPy in; anything that NumPy reads out, PyTorch's tensors too, without importing PyTorch. And
what lifts of all frameworks share: the device's driver, and whether subnormal numbers are taken
for 0.
"""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..frames import BIT_DTYPES, FLOATS, Entries
from . import making
from .making import FormNotMade, FrameworkForm

INPUTS = making.INPUTS
GRAD_KEYWORD = "grad_output"
# NumPy puts a name together each time
_DTYPE_NAMES = {np.dtype(name): name for name in ("float64", "float32", "float16")}


class Lift:
    """The framework is NumPy. Other lifts override what is otherwise with theirs."""

    name = ""
    device = "cpu"

    def __init__(self, device: str = "") -> None:
        """Raises ImportError without the framework, LookupError, with those there are."""
        if device not in ("", "cpu"):
            raise LookupError("cpu")

    def context_for(self, dtype: str) -> Any:
        """What must be set while arrays of this dtype are handed over, computed with and read."""
        return contextlib.nullcontext()

    def takes(self, dtype: str) -> str:
        """Why it cannot hand over arrays of this dtype; empty if it can."""
        if dtype not in BIT_DTYPES or narrow_dtype(dtype):
            return ""
        return "NumPy has no {} where ml_dtypes is not installed: pip install ml_dtypes".format(dtype)

    def hand(self, entries: Entries) -> Any:
        """The framework's array, any shape, of the same entries and, if it can, memory."""
        if entries.dtype in BIT_DTYPES:
            return entries.array.view(narrow_dtype(entries.dtype))
        return entries.array

    def read(self, value: Any) -> Entries:
        """The same entries, any shape, in NumPy. Raises TypeError or ValueError for what is no
        array.

        A PyTorch tensor is read, also in bfloat16 or with gradient.
        """
        if is_tensor(value):
            return read_tensor(value)
        return entries_of(np.asarray(value))

    def wait(self, returned: Any) -> None:
        """Return once it is computed."""

    def gradients(self, function: Callable[..., Any], inputs: Sequence[Any],
                  rows: Any) -> Tuple[Any, Optional[List[Any]]]:
        """What the function makes of the inputs, and the gradient of the sum of those rows of it
        (the last axis but one) that are True in rows (T,) with respect to each input, as
        (B,H,T,D); None where there is no gradient.
        """
        return function(*inputs), None

    def differentiate(
        self, function: Callable[..., Any], inputs: Sequence[Any], keywords: Mapping[str, Any],
        wrt: Sequence[str]) -> Tuple[Any, Optional[List[Any]]]:
        """The output, and the gradients with respect to these arguments, query, key, value or
        keywords, in their shapes, as (B,H,T,D), where that of the output is the keyword
        `grad_output`; None where there are none.
        """
        keywords = {name: value for name, value in keywords.items() if name != GRAD_KEYWORD}
        return function(*inputs, **keywords), None

    def make_form(self, function: Callable[..., Any], form: FrameworkForm) -> Callable[..., Any]:
        """The function in a form that the framework makes of it, with the same arguments, arrays
        (B,H,T,D); each once. It, or this, raises FormNotMade where there is none.
        """
        raise FormNotMade("NumPy makes no other form of a function")

    def give_back(self, value: Any, entries: Entries) -> None:
        """Write what the call left of a framework's array, any shape, into the one that it was
        made of, where the two share no memory.
        """

    def is_lost(self) -> bool:
        """Whether the device is lost, as after an access to memory that is not there."""
        return False

    def about(self) -> Dict[str, str]:
        """What a record says of the framework's device and driver."""
        return {}

    def forget(self) -> None:
        """Give back what the framework keeps of calls, such as compiled programs."""


LIFT = Lift


def narrow_dtype(name: str) -> Any:
    """The dtype that ml_dtypes gives NumPy for one in `BIT_DTYPES`; None without it."""
    try:
        import ml_dtypes  # noqa: PLC0415  (its environment may lack it)
    except Exception:  # not there, or it does not get on with a NumPy that the subject has changed
        return None
    return np.dtype(getattr(ml_dtypes, name))


def entries_of(array: Any) -> Entries:
    """An array of NumPy, any shape, as its dtype's name and what can travel."""
    name = _DTYPE_NAMES.get(array.dtype) or array.dtype.name
    if name in BIT_DTYPES:
        return Entries(name, array.view(BIT_DTYPES[name]))
    return Entries(name,
                   array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")))


def is_tensor(value: Any) -> bool:
    """Whether it is one. Where PyTorch is not imported, nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def read_tensor(value: Any) -> Entries:
    """The tensor's entries, any shape, detached from its graph and copied from its device."""
    torch = sys.modules["torch"]
    tensor = value.detach().cpu().resolve_conj().resolve_neg()
    name = str(tensor.dtype).partition(".")[2]
    if name in BIT_DTYPES:
        bits = torch.int16 if tensor.element_size() == 2 else torch.uint8
        return Entries(name, tensor.view(bits).numpy().view(BIT_DTYPES[name]))
    array = tensor.numpy()
    return Entries(array.dtype.name, array)


_NVIDIA_VERSION_FILE = Path("/proc/driver/nvidia/version")


def nvidia_driver_version() -> str:
    """The version of NVIDIA's kernel module, such as 550.54.15; empty where none is loaded."""
    try:
        found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b",
                          _NVIDIA_VERSION_FILE.read_text(encoding="utf-8"))
    except OSError:
        return ""
    if found:
        return found.group()
    return ""


FLUSH_TEST_SHAPE = 6, 17, 16
"""Batched and of several heads: kernels for bfloat16 that flush take over only at such sizes."""

FLUSH_TEST_OPERATIONS: Sequence[Tuple[str, Callable[[Any, Any], Any]]] = (
    ("a product", lambda tiny, halves: tiny * halves),
    ("a matrix product", lambda tiny, halves: tiny.swapaxes(-1, -2) @ halves))


def find_flushing_operation(lift: Any, dtype: str) -> str:
    """The first operation that takes half of the smallest normal number for 0, or ""."""
    smallest = _make_entries(np.full(FLUSH_TEST_SHAPE, FLOATS[dtype]), dtype)
    halves = _make_entries(np.broadcast_to(np.eye(*FLUSH_TEST_SHAPE[1:]) / 2, FLUSH_TEST_SHAPE),
                           dtype)
    with lift.context_for(dtype):
        for name, operation in FLUSH_TEST_OPERATIONS:
            if _is_lost(operation, lift, lift.hand(smallest), lift.hand(halves)):
                return name
    return ""


def _is_lost(operation: Callable[[Any, Any], Any], lift: Any, tiny: Any, halves: Any) -> bool:
    """Whether nothing but 0 comes back, of two tensors of SHAPE. A framework that has no such
    operation in the dtype (PyTorch 2.0: no matrix product in float16) loses nothing in it.
    """
    try:
        found = operation(tiny, halves)
        lift.wait(found)
        return not np.any(_as_float64(lift.read(found)))
    except Exception:  # whatever a framework says to that
        return False


def _make_entries(array: Any, dtype: str) -> Entries:
    """Numbers that the dtype holds exactly, of any shape, in it."""
    if dtype == "bfloat16":  # ml_dtypes may not be there, where a framework is
        return Entries(dtype,
                       (np.ascontiguousarray(array,
                                             np.float32).view(np.uint32) >> 16).astype(np.uint16))
    if dtype in BIT_DTYPES:
        return Entries(dtype, np.array(array, narrow_dtype(dtype)).view(BIT_DTYPES[dtype]))
    return Entries(dtype, np.array(array, dtype))


def _as_float64(found: Entries) -> Any:
    """What stands in an array of any shape, as numbers of float64."""
    if found.dtype == "bfloat16":
        return (found.array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if found.dtype in BIT_DTYPES:
        return found.array.view(narrow_dtype(found.dtype)).astype(np.float64)
    return found.array.astype(np.float64)
