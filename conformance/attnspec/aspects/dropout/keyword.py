"""The keywords `dropout_rate` and `seed`."""

from __future__ import annotations

from attnspec.core.errors import SpecError
from attnspec.core.keyword import DROPOUT_POOL, DROPOUT_PROFILE, RATE, SEED, Acts, Keyword, Values

USUAL_RATES: tuple[float, ...] = (0.25, 0.5, 0.125)
"""Multiples of 1/256, which is how finely some kernels draw."""

_PROMISE = "each weight is dropped at the rate, or divided by one minus the rate"


def _parse_rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise ValueError(f"{RATE} should be a number from 0 to 1, not {text!r}")
    return rate


def _check_rate(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise SpecError(f"a dropout rate lies between 0 and 1, not at {rate:g}.")
    return float(rate)


KEYWORDS = (
    Keyword(
        RATE, "float", "the share of weights that are dropped behind the softmax; all others are divided by one minus "
        "the rate, and at 1 the output is zeros; given together with `seed`", DROPOUT_PROFILE, Acts.WEIGHTS, "float",
        promise=_PROMISE, in_layers=False,
        values=Values(USUAL_RATES, "dropout_rates", USUAL_RATES[0], repr, _parse_rate, _check_rate),
        sample=0.5, is_uncommon=True, pool=DROPOUT_POOL, beside=SEED, called="dropout rate", questions={
            "dropout.form": "What becomes of the weights at a dropout rate?",
            "dropout.seed": "Do two calls with the same seed drop the same weights?"},
        asks="What becomes of the weights at a dropout rate?", other_names=("dropout_p",)),
    Keyword(
        SEED, "int", "which weights are dropped follows from it, and from the shapes: the same in every call, and in "
        "the backward pass; given together with `dropout_rate`", DROPOUT_PROFILE, Acts.WEIGHTS, "int | None",
        promise=_PROMISE, in_layers=False, is_uncommon=True, is_drawn=True, pool=DROPOUT_POOL, beside=RATE,
        called="dropout seed", other_names=("dropout_seed",)),
)
