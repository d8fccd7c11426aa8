"""What a probe asks about dropout: what becomes of a weight, and whether the seed decides which ones are dropped."""

from __future__ import annotations

import numpy as np

from attnspec.core.keyword import DROPOUT_PROFILE, RATE, SEED
from attnspec.problems.problem import Array
from attnspec.questions.asker import FAILURES, OTHER, Asker, Reply, is_close, keyword_question, promised, shown

QUERIES, KEYS = 16, 8
"""T and S: all weights are an eighth, and by chance none is dropped, or all of a call alike, once in 2^256."""
HALF = 0.5


def _weights(asker: Asker, seed: int) -> Array:
    """(B,H,T,S): even ones, at a rate of one half."""
    return asker.output(asker.even(QUERIES, KEYS).but(**{RATE: HALF, SEED: seed}))[..., :KEYS]


def _form(asker: Asker) -> Reply:
    seen = _weights(asker, 1)
    kept, plain = np.where(seen != 0, 1, 0), 1 / KEYS
    share = kept / np.maximum(kept.sum(axis=-1, keepdims=True), 1)
    forms = {"ignored": np.full_like(seen, plain), "rescaled": kept * plain / HALF, "not_rescaled": kept * plain,
             "renormalised": share}
    return Reply(next((name for name, form in forms.items() if is_close(seen, form)), OTHER), shown(seen))


def _seed(asker: Asker) -> Reply:
    one, again, other = (_weights(asker, seed) for seed in (1, 1, 2))
    if not np.array_equal(one, again):
        return Reply("anew", shown(again))
    return Reply("ignored" if np.array_equal(one, other) else "same", shown(one))


QUESTIONS = (
    keyword_question("dropout.form", {
        "rescaled": "0, or the weight over one minus the rate", "not_rescaled": "0, or the weight as it is",
        "renormalised": "0, or the weight over the sum of those that are left", "ignored": "nothing", **FAILURES},
        _form, promised("rescaled", DROPOUT_PROFILE)),
    keyword_question("dropout.seed", {
        "same": "yes, and another seed drops others", "ignored": "yes, and so does every other seed",
        "anew": "no: each call draws anew", **FAILURES}, _seed, promised("same", DROPOUT_PROFILE)),
)
