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


def grouped(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int) -> Array:
    """Query head h reads the key head h // (H / Hkv)."""
    return in_groups((query, key, value), params, heads, lambda X, count: np.repeat(X, count, axis=1))


def of_first_head(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int) -> Array:
    """Each query head reads the first key head of a layer that has fewer of these."""
    return in_groups((query, key, value), params, heads,
                     lambda X, count: X if count == 1 else np.repeat(X[:, :1], heads, axis=1))


def in_groups(inputs: tuple[Array, Array, Array], params: Mapping[str, Array], heads: int,
              repeated: Callable[[Array, int], Array]) -> Array:
    width = params["w_query"].shape[1] // heads
    Q, K, V = (array @ params[f"w_{name}"] + params[f"b_{name}"]
               for name, array in zip(("query", "key", "value"), inputs, strict=True))
    Q, K, V = (X.reshape(*X.shape[:2], -1, width).swapaxes(1, 2) for X in (Q, K, V))
    K, V = (repeated(X, heads // X.shape[1]) for X in (K, V))
    logits = Q @ K.swapaxes(-1, -2) / np.sqrt(width).astype(Q.dtype)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    attended = (weights / weights.sum(-1, keepdims=True)) @ V
    joined: Array = attended.swapaxes(1, 2).reshape(*inputs[0].shape[:2], -1)
    return joined @ params["w_out"] + params["b_out"]


@pytest.mark.parametrize(("function", "holds"), [(grouped, True), (of_first_head, False)])
def test_groups_of_heads_are_judged_in_one_input(function: Callable[..., object], *, holds: bool) -> None:
    subject = subject_of(function, kind=Kind.LAYER, limits=Limits(self_attention_only=True, grouped=True),
                         conventions={"grouped_heads": "repeat"}, claims=("grouped",))
    check = checks()["grouped.definition"]
    trial = Trial(check, Evaluator(subject, DType.FLOAT32), Effort.QUICK, seed_of(0, check.domain), lambda _: None)
    assert (trial.hold().failure is None) == holds
