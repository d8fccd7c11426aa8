"""Questions about masks and biases: which way round, and what one handed in the other's place means."""

from __future__ import annotations

import numpy as np

from attnspec.ground.conventions import CONVENTIONS
from attnspec.probing.asker import FAILURES, Asker, Failed, NotAsked, Reply
from attnspec.probing.fit import even, softmax, which
from attnspec.probing.question import Question, convention, promised
from attnspec.problems.problem import Array, Problem

_MASK = np.array([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 1]], bool)
_WITH_CAUSAL = np.array([[1, 0, 1, 0], [1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 1]], bool)
_FLOATS = np.array([np.roll([0.0, -1.0, -64.0, -64.0], row) for row in range(4)])
_BIAS = np.array([np.roll([0.0, 2.0, 0.0, 0.0], row) for row in range(4)])
_PAST = np.tri(4, dtype=bool)
_OPEN = np.full((4, 4), 0.25)


def _weights(asker: Asker, problem: Problem) -> Array:
    return asker.output(problem)[..., :4]


def _polarity(asker: Asker) -> Reply:
    problem, mask = asker.even(4, 4), asker.rows(_MASK)
    seen = _weights(asker, problem.but(mask=asker.full(mask, problem)))
    return which(seen, {"keep": even(mask), "drop": even(~mask), "added": softmax(mask * 1.0),
                        "after_softmax": mask / 4, "ignored": _OPEN})


def drops(asker: Asker) -> bool:
    """Whether True in its mask hides a key: then every mask is turned round for it, to see what else it does."""
    try:
        return _polarity(asker).answer == "drop"
    except (NotAsked, Failed):
        return False


def _float_mask(asker: Asker) -> Reply:
    if asker.subject.declaration.limits.bias_is_mask:
        raise NotAsked("it never sees a mask")
    problem, floats = asker.even(4, 4), asker.rows(_FLOATS)
    seen = _weights(asker, problem.but(mask=asker.as_bias(floats, problem)))
    return which(seen, {"added": softmax(floats), **_by_truth(floats != 0)})


def _boolean_bias(asker: Asker) -> Reply:
    problem = asker.even(4, 4)
    seen = _weights(asker, problem.but(bias=asker.full(_MASK, problem)))
    return which(seen, {"added": softmax(_MASK * 1.0), **_by_truth(_MASK)})


def _form(asker: Asker) -> Reply:
    problem = asker.even(4, 4)
    seen = _weights(asker, problem.but(bias=asker.as_bias(_BIAS, problem)))
    scaled = _BIAS / np.sqrt(asker.subject.scale_width(problem))
    return which(seen, {"added": softmax(_BIAS), "added_before_scaling": softmax(scaled),
                        "subtracted": softmax(-_BIAS), **_by_truth(_BIAS != 0)})


def _by_truth(truth: Array) -> dict[str, Array]:
    return {"truth": even(truth), "truth_dropped": even(~truth), "ignored": _OPEN}


def _mask_with_causal(asker: Asker) -> Reply:
    problem, mask = asker.even(4, 4), asker.rows(_WITH_CAUSAL)
    return _with_causal(asker, problem.but(mask=asker.as_mask(mask, problem)), mask)


def _bias_with_causal(asker: Asker) -> Reply:
    problem = asker.even(4, 4)
    return _with_causal(asker, _hiding(asker, problem), _WITH_CAUSAL)


def _hiding(asker: Asker, problem: Problem) -> Problem:
    return problem.but(bias=asker.as_bias(np.where(_WITH_CAUSAL, 0.0, -np.inf), problem))


def _with_causal(asker: Asker, problem: Problem, mask: Array) -> Reply:
    return which(_weights(asker, problem.but(causal=True)), {
        "both": even(mask & _PAST), "mask": even(mask), "causal": even(_PAST), "neither": _OPEN})


_TRUTH = {"truth": "what is not zero is attended to", "truth_dropped": "what is not zero is hidden",
          "ignored": "nothing", **FAILURES}
_TOGETHER = {**{name: CONVENTIONS["mask_with_causal"].answers[name] for name in ("both", "mask", "causal")},
             "neither": "both are ignored", **FAILURES}

QUESTIONS = (
    Question("mask.polarity", "What does True in a boolean mask mean?", {
        "keep": "the query may attend to the key", "drop": "the key is hidden", "added": "1 is added to the logit",
        "after_softmax": "hidden weights become zero after the softmax, and the rest is not normalised again",
        "ignored": "nothing", **FAILURES}, _polarity, promised("keep")),
    Question("bias.form", "What happens to a bias?", {
        "added": "it is added to the scaled logits", "added_before_scaling": "it is added before the logits are scaled",
        "subtracted": "it is subtracted from them", **_TRUTH}, _form, promised("added")),
    Question("mask_with_causal", "What do a mask and the causal flag do together?", _TOGETHER, _mask_with_causal,
             convention("mask_with_causal")),
    Question("bias_with_causal", "What do a bias of 0 and -inf and the causal flag do together?", _TOGETHER,
             _bias_with_causal, convention("mask_with_causal")),
)
IN_PLACE = (
    Question("mask.float", "What does a float array mean that is handed over as `mask`?",
             {"added": "it is added to the logits", **_TRUTH}, _float_mask),
    Question("bias.boolean", "What does a boolean array mean that is handed over as `bias`?",
             {"added": "it is added to the logits, True as 1", **_TRUTH}, _boolean_bias),
)
"""What the contract does not allow, and callers do. Asked late: native code may die of it."""
