"""How the suites of today compare an answer with a reference. A comparison says whether the answer is called wrong.

Each is written from the description of its source, as linked in rules.py; NaN never passes, as in the originals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.ground.nouns import DType
from attnspec.peers.references import Reference
from attnspec.problems.problem import Array

Comparison = Callable[[Array, Reference], bool]
Tolerance = tuple[float, float]  # relative, absolute

ASSERT_CLOSE: Mapping[str, Tolerance] = {
    DType.FLOAT16.value: (1e-3, 1e-5), DType.BFLOAT16.value: (1.6e-2, 1e-5),
    DType.FLOAT32.value: (1.3e-6, 1e-5), DType.FLOAT64.value: (1e-7, 1e-7)}
"""torch.testing.assert_close, by the dtype of what is compared."""

KERNELBENCH: Mapping[str, Tolerance] = {
    DType.FLOAT16.value: (1e-2, 1e-2), DType.BFLOAT16.value: (1e-2, 1e-2), DType.FLOAT32.value: (1e-4, 1e-4)}
"""KernelBench's tolerance by precision; torch.allclose takes it as rtol and atol alike."""

FUSED: Mapping[str, Tolerance] = {
    DType.FLOAT16.value: (1e-3, 1e-3), DType.BFLOAT16.value: (1.6e-2, 1e-3), DType.FLOAT32.value: (1.3e-6, 1e-5)}
"""The least tolerances of PyTorch's tests of fused attention, before the fudge factor."""

FUDGE = 4
"""What PyTorch's tests of fused attention multiply the tolerance of the forward output by."""

ONNX: Mapping[str, Tolerance] = {
    DType.FLOAT16.value: (1e-3, 1e-7), DType.BFLOAT16.value: (2**-6, 1e-7), DType.FLOAT32.value: (1e-3, 1e-7)}
"""ONNX's backend tests; its runner widens bfloat16 to two units in the last place."""


def close_to_same(tolerances: Mapping[str, Tolerance]) -> Comparison:
    """Within atol + rtol·|reference| of a library's answer in the same dtype, entry by entry."""
    def wrong(seen: Array, reference: Reference) -> bool:
        known = reference.same
        return seen.dtype != known.dtype or _apart(seen, known, *tolerances[known.dtype.name])
    return wrong


def close_to_fused(seen: Array, reference: Reference) -> bool:
    """Within tolerances that a low-precision reference earns: its own largest deviations, times the fudge factor."""
    low = reference.same
    if low.dtype != seen.dtype:
        return True
    return _apart(seen, reference.wider.astype(low.dtype), *earned(reference.wider.astype(np.float64), low))


def earned(wide: Array, low: Array) -> Tolerance:
    """The tolerance that a low-precision reference earns by its deviations from the wide one."""
    rtol, atol = FUSED[low.dtype.name]
    deviation = np.abs(wide - low.astype(np.float64))
    with np.errstate(all="ignore"):  # 0/0 counts as the least tolerance
        relative = float(np.nan_to_num(deviation / np.abs(wide), nan=rtol, posinf=np.inf).max())
    scaled = FUDGE * max(relative, rtol)
    return rtol if scaled > 1e30 else scaled, FUDGE * max(float(deviation.max()), atol)


def twice_eager(seen: Array, reference: Reference) -> bool:
    """The largest error at most twice that of an eager run in the dtype of the inputs, over the whole tensor."""
    return not _largest_error(seen, reference) <= 2 * reference.eager_error


def twice_eager_and_noise(seen: Array, reference: Reference) -> bool:
    """As `twice_eager`, plus twice what adding 0.3 to the reference and taking it away again costs."""
    return not _largest_error(seen, reference) <= 2 * reference.eager_error + 2 * reference.noise


def _largest_error(seen: Array, reference: Reference) -> float:
    return float(np.abs(seen.astype(np.float64) - reference.rounded).max())


def _apart(seen: Array, known: Array, rtol: float, atol: float) -> bool:
    there, here = seen.astype(np.float64), known.astype(np.float64)
    return not bool((np.abs(there - here) <= atol + rtol * np.abs(here)).all())
