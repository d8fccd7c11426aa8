"""Questions about the scale: what it is unless one is given, and whether a given one is honoured."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from attnspec.probing.asker import FAILURES, OTHER, Asker, Reply
from attnspec.probing.question import Question, promised

_STEEP = 1.5
"""The logarithm of the ratio of two weights is read most exactly where they are not far apart, nor alike."""
_NEAR = 0.05
"""How near the scale is read off: weights in bfloat16 carry errors of 1 %."""
_FLAT = 2.0**-8


def _ratio(asker: Asker, times: float, scale: float | None = None) -> float:
    """log(weight of key 1 / weight of key 0), where their dot products with the query are `times` and 0."""
    problem = asker.even(4, 4)
    problem.key[:, :, 1, 0] = 1.0
    problem.query[..., 0] = times
    first, second = asker.output(problem.but(scale=scale))[0, 0, 0, :2]
    with np.errstate(all="ignore"):
        return float(np.log(second / first))


def _default(asker: Asker) -> Reply:
    """Asked twice: the second time with logits as steep as is read best."""
    rough = _ratio(asker, 1.0)
    if not math.isfinite(rough) or abs(rough) < _FLAT:
        return Reply("0" if abs(rough) < _FLAT else OTHER, f"keys whose dot products differ by 1 weigh e^{rough:.3g}")
    times = 2.0 ** round(math.log2(_STEEP / abs(rough)))
    scale = _ratio(asker, times) / times
    name = next((name for name, value in _candidates(asker).items() if abs(scale / value - 1) < _NEAR), OTHER)
    return Reply(name, f"dot products are multiplied by {scale:.3g}")


def _candidates(asker: Asker) -> dict[str, float]:
    D, H = asker.subject.scale_width(asker.even(4, 4)), asker.heads
    return {"1/sqrt(D)": D**-0.5, "1": 1.0, "1/D": 1 / D, "sqrt(D)": D**0.5, "1/sqrt(H·D)": (H * D)**-0.5,
            "-1/sqrt(D)": -(D**-0.5)}


def _given(asker: Asker, scale: float) -> Reply:
    """Dot products of 2 and 0: the weights tell the scale."""
    seen, default = _ratio(asker, 2.0, scale) / 2, _ratio(asker, 2.0) / 2
    candidates = {"honoured": scale, "size_only": abs(scale), "ignored": default}
    name = next((name for name, value in candidates.items() if abs(seen - value) < _NEAR), OTHER)
    return Reply("nan" if math.isnan(seen) else name, f"dot products are multiplied by {seen:.3g}, {scale:g} was given")


_HONOURED = {"honoured": "yes", "ignored": "no: the default is used", "nan": "NaN comes back", **FAILURES}
_GIVEN = {"positive": (0.5, _HONOURED), "zero": (0.0, _HONOURED),
          "negative": (-0.5, {**_HONOURED, "size_only": "but for its sign"})}

QUESTIONS = (
    Question("scale.default", "What are dot products multiplied by, unless a scale is given?", {
        "1/sqrt(D)": "one over the root of the head width", "1": "nothing", "1/D": "one over the head width",
        "sqrt(D)": "the root of the head width", "1/sqrt(H·D)": "one over the root of the model width",
        "-1/sqrt(D)": "the usual scale with the other sign", "0": "all keys weigh the same", **FAILURES},
        _default, promised("1/sqrt(D)")),
    *(Question(f"scale.{name}", f"Is a scale of {value:g} honoured?", answers, partial(_given, scale=value),
               promised("honoured", "scale")) for name, (value, answers) in _GIVEN.items()),
)
