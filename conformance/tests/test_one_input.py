"""A layer whose one input is query, key and value: what hides a key hides no query, so NaN there is its own affair."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType, Effort, Kind
from attnspec.problems.problem import Array
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Violated
from attnspec.trials.trial import Trial
from helpers.law import checks
from helpers.subjects import subject_of

CONVENTIONS = {"hidden_row": "zeros", "causal_alignment": "top_left"}


def cautious(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int, mask: Array) -> Array:
    """What a place holds that no query may attend to is forgotten before it meets a weight."""
    mask = np.broadcast_to(mask, (len(query), heads, query.shape[1], key.shape[1]))
    seen = np.expand_dims(mask.any(axis=(1, 2)), -1)
    return careless(query, np.where(seen, key, 0), np.where(seen, value, 0), params=params, heads=heads, mask=mask)


def careless(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int, mask: Array) -> Array:
    """What is hidden gets the weight 0, and 0 times NaN is NaN."""
    Q, K, V = (array @ params[f"w_{name}"] + params[f"b_{name}"]
               for name, array in (("query", query), ("key", key), ("value", value)))
    Q, K, V = (X.reshape(*X.shape[:2], heads, -1).swapaxes(1, 2) for X in (Q, K, V))
    logits = np.where(mask, Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1]).astype(Q.dtype), -np.inf)
    shifted = logits - np.where(np.isfinite(logits), logits, -1e30).max(-1, keepdims=True).astype(Q.dtype)
    weights = np.where(mask, np.exp(shifted), 0).astype(Q.dtype)
    total = weights.sum(-1, keepdims=True)
    attended = (weights / np.where(total == 0, 1, total)) @ V
    joined: Array = attended.swapaxes(1, 2).reshape(*query.shape[:2], -1)
    return joined @ params["w_out"] + params["b_out"]


@pytest.mark.parametrize("clause", ["masking.hidden_nan_is_irrelevant", "masking.hidden_infinity_is_irrelevant"])
@pytest.mark.parametrize(("function", "holds"), [(cautious, True), (careless, False)])
def test_hidden_places_may_be_forgotten_unless_other_rows_show_them(
    clause: str, function: Callable[..., object], *, holds: bool,
) -> None:
    subject = subject_of(function, {"mask"}, kind=Kind.LAYER, limits=Limits(self_attention_only=True),
                         conventions=CONVENTIONS, claims=("masking",))
    check = checks()[clause]
    trial = Trial(check, Evaluator(subject, DType.FLOAT32), Effort.QUICK, seed_of(0, check.domain), lambda _: None)
    with np.errstate(all="ignore"):
        tally = trial.hold()
    assert (tally.failure is None) == holds, tally.failure
    assert isinstance(tally.failure, Violated) != holds
    assert tally.cases
