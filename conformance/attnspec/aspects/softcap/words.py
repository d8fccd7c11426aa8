"""A spec word and questions about a softcap: how it bends, and whether it bends a bias."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import (
    FAILURES,
    Asker,
    Reply,
    keyword_question,
    name_candidate,
    promised_answer,
    softmax_rows,
)
from attnspec.vocabulary.transforms.axes import Attention


def with_softcap(posed: Attention, *, to: Literal["huge"]) -> Attention:  # noqa: ARG001  (named, so that clauses read)
    """Pass a softcap of 2^14, which every dtype can hold and which is far above ordinary logits."""
    return posed.but(softcap=2.0**14)


TRANSFORMS = (with_softcap,)


_CAP = 2.0


def _softcap(asker: Asker, *, with_bias: bool) -> Reply:
    """Asks what a softcap does; the plain answer tells the logits but for a constant."""
    plain, bias = _steep(asker), np.tile([0.0, 3.0, 0.0, 0.0], (4, 1))
    with np.errstate(all="ignore"):
        logits = np.log(asker.ask_output(plain)[:1, :1, :, :4])
        logits = logits - logits[..., :1]
    added = bias if with_bias else 0.0
    posed = plain.but(softcap=_CAP, bias=asker.as_bias(bias, plain) if with_bias else None)
    seen = asker.ask_output(posed)[..., :4]
    return name_candidate(seen, {
        "capped": softmax_rows(_cap_logits(logits) + added),
        "capped_with_bias": softmax_rows(_cap_logits(logits + added)),
        "clipped": softmax_rows(np.clip(logits, -_CAP, _CAP) + added),
        "ignored": softmax_rows(logits + added)})


def _steep(asker: Asker) -> Problem:
    problem = asker.make_sloped(4, 4)
    return problem.but(query=2 * problem.query)


def _cap_logits(logits: Array) -> Array:
    """Logits (B,H,T,S) under the cap of the question."""
    return np.asarray(_CAP * np.tanh(logits / _CAP))


_CAPS = {"capped": "c·tanh(x / c)", "clipped": "they are clipped at c", "ignored": "nothing: the softcap is ignored",
         **FAILURES}

QUESTIONS = (
    keyword_question("softcap.form", _CAPS, partial(_softcap, with_bias=False), promised_answer("capped", "softcap")),
    keyword_question("softcap.bias", {
        **_CAPS, "capped": "c·tanh(x / c), to which the bias is added", "capped_with_bias": "c·tanh((x + bias) / c)"},
        partial(_softcap, with_bias=True), promised_answer("capped", "softcap")),
)
