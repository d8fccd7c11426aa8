"""Passes NumPy arrays to a function, and reads whatever NumPy can read.

PyTorch's tensors are read too, without importing PyTorch. It also has what lifts of all frameworks
share: the version of the device's driver, and a test whether subnormal numbers become 0.
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
    """The lift of NumPy. Lifts of frameworks override its methods."""

    name = ""
    device = "cpu"

    def __init__(self, device: str = "") -> None:
        """Raises ImportError without the framework, LookupError with the existing devices."""
        if device not in ("", "cpu"):
            raise LookupError("cpu")

    def context_for(self, dtype: str) -> Any:
        """Returns a context for making arrays of this dtype, computing and reading."""
        return contextlib.nullcontext()

    def takes(self, dtype: str) -> str:
        """Says why it cannot pass arrays of this dtype; empty if it can."""
        if dtype not in BIT_DTYPES or narrow_dtype(dtype):
            return ""
        return "NumPy has no {} where ml_dtypes is not installed: pip install ml_dtypes".format(dtype)

    def hand(self, entries: Entries) -> Any:
        """Makes the framework's array, any shape, and shares its memory if possible."""
        if entries.dtype in BIT_DTYPES:
            return entries.array.view(narrow_dtype(entries.dtype))
        return entries.array

    def read(self, value: Any) -> Entries:
        """Reads a NumPy array, any shape. Raises TypeError or ValueError for anything else. A
        PyTorch tensor is read too, also in bfloat16 or with a gradient.
        """
        if is_tensor(value):
            return read_tensor(value)
        return entries_of(np.asarray(value))

    def wait(self, returned: Any) -> None:
        """Waits until the result is computed."""

    def gradients(self, function: Callable[..., Any], inputs: Sequence[Any],
                  rows: Any) -> Tuple[Any, Optional[List[Any]]]:
        """Calls the function, and computes gradients of the sum of those rows of its output.

        The rows, of the last axis but one, are those that are True in rows (T,). The gradients are
        with respect to each input, in their shapes, as (B,H,T,D); None where there are none.
        """
        return function(*inputs), None

    def differentiate(
        self, function: Callable[..., Any], inputs: Sequence[Any], keywords: Mapping[str, Any],
        wrt: Sequence[str]) -> Tuple[Any, Optional[List[Any]]]:
        """Returns the output, and its gradients with respect to these arguments.

        They have the shapes of the arguments (query, key, value or keywords), as (B,H,T,D). The
        keyword `grad_output` is the gradient of the output. None where there are no gradients.
        """
        keywords = {name: value for name, value in keywords.items() if name != GRAD_KEYWORD}
        return function(*inputs, **keywords), None

    def make_form(self, function: Callable[..., Any], form: FrameworkForm) -> Callable[..., Any]:
        """Makes a form of the function, with the same arguments, arrays (B,H,T,D). It makes each
        form once. It raises FormNotMade where there is none; so may a call of the form.
        """
        raise FormNotMade("NumPy makes no other form of a function")

    def give_back(self, value: Any, entries: Entries) -> None:
        """Copies the framework's array, any shape, into the original if memory is not shared. So a
        change that the call made to its argument is seen.
        """

    def is_lost(self) -> bool:
        """Whether the device is unusable, as after an invalid memory access."""
        return False

    def about(self) -> Dict[str, str]:
        """Describes the framework's device and driver for a record."""
        return {}

    def forget(self) -> None:
        """Frees what the framework keeps of calls, such as compiled programs."""


LIFT = Lift


def narrow_dtype(name: str) -> Any:
    """Returns ml_dtypes' NumPy dtype for one in `BIT_DTYPES`; None without ml_dtypes."""
    try:
        import ml_dtypes  # noqa: PLC0415  (its environment may lack it)
    except Exception:  # not there, or it does not get on with a NumPy that the subject has changed
        return None
    return np.dtype(getattr(ml_dtypes, name))


def entries_of(array: Any) -> Entries:
    """Converts a NumPy array, any shape, to its dtype's name and an array that can be sent."""
    name = _DTYPE_NAMES.get(array.dtype) or array.dtype.name
    if name in BIT_DTYPES:
        return Entries(name, array.view(BIT_DTYPES[name]))
    return Entries(name,
                   array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")))


def is_tensor(value: Any) -> bool:
    """Whether the value is a tensor of PyTorch, if PyTorch is imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def read_tensor(value: Any) -> Entries:
    """Reads the tensor's entries, any shape, without its graph, and copied from its device."""
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
    """Reads the version of NVIDIA's kernel module, such as 550.54.15; empty without one."""
    try:
        version = re.search(r"\b\d{3}\.\d+(\.\d+)?\b",
                            _NVIDIA_VERSION_FILE.read_text(encoding="utf-8"))
    except OSError:
        return ""
    if version:
        return version.group()
    return ""


FLUSH_TEST_SHAPE = 6, 17, 16
"""Batched and of several heads: kernels for bfloat16 that flush take over only at such sizes."""

FLUSH_TEST_OPERATIONS: Sequence[Tuple[str, Callable[[Any, Any], Any]]] = (
    ("a product", lambda tiny, halves: tiny * halves),
    ("a matrix product", lambda tiny, halves: tiny.swapaxes(-1, -2) @ halves))


def find_flushing_operation(lift: Any, dtype: str) -> str:
    """Finds an operation that turns half of the smallest normal number into 0, or ""."""
    smallest = _make_entries(np.full(FLUSH_TEST_SHAPE, FLOATS[dtype]), dtype)
    halves = _make_entries(np.broadcast_to(np.eye(*FLUSH_TEST_SHAPE[1:]) / 2, FLUSH_TEST_SHAPE),
                           dtype)
    with lift.context_for(dtype):
        for name, operation in FLUSH_TEST_OPERATIONS:
            if _is_lost(operation, lift, lift.hand(smallest), lift.hand(halves)):
                return name
    return ""


def _is_lost(operation: Callable[[Any, Any], Any], lift: Any, tiny: Any, halves: Any) -> bool:
    """Whether the operation returns only 0 for two tensors of FLUSH_TEST_SHAPE.

    A framework without the operation in the dtype (PyTorch 2.0: no matrix product in float16)
    loses nothing in it.
    """
    try:
        result = operation(tiny, halves)
        lift.wait(result)
        return not np.any(_as_float64(lift.read(result)))
    except Exception:  # whatever a framework says to that
        return False


def _make_entries(array: Any, dtype: str) -> Entries:
    """Converts numbers, of any shape, to a dtype that holds them exactly."""
    if dtype == "bfloat16":  # ml_dtypes may not be there, where a framework is
        return Entries(dtype,
                       (np.ascontiguousarray(array,
                                             np.float32).view(np.uint32) >> 16).astype(np.uint16))
    if dtype in BIT_DTYPES:
        return Entries(dtype, np.array(array, narrow_dtype(dtype)).view(BIT_DTYPES[dtype]))
    return Entries(dtype, np.array(array, dtype))


def _as_float64(entries: Entries) -> Any:
    """Converts an array of any shape to float64."""
    if entries.dtype == "bfloat16":
        return (entries.array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if entries.dtype in BIT_DTYPES:
        return entries.array.view(narrow_dtype(entries.dtype)).astype(np.float64)
    return entries.array.astype(np.float64)
