"""Questions about inputs that do not belong together: lengths, widths, batches and masks that do not match.

There is no right answer, so a function should refuse them. One that answers has ignored a part, or has read beyond
the end of an array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from attnspec.core.forms import InputForm
from attnspec.core.nouns import Kind
from attnspec.problems.problem import Array, Problem
from attnspec.questions.asker import RAISES, UNUSABLE, Asker, Failed, NotAsked, Question, Reply, is_close, shown

REFUSES, LEADING, ANSWERS = "refuses", "leading", "answers"
_LESS, _MORE = 4, 5

Pose = Callable[[Asker], Problem]


def _ask_mismatch(asker: Asker, pose: Pose, paired: int) -> Reply:
    """paired: how many keys have all that belongs to them. An output of another shape is an answer, too."""
    if asker.subject.declaration.limits.self_attention_only:
        raise NotAsked("one input serves as query, key and value")
    if asker.subject.declaration.limits.one_memory:
        raise NotAsked("one input serves as key and value")
    try:
        output = asker.without_limits(broadcasts=True).output(pose(asker))
    except Failed as failed:
        named = {RAISES: REFUSES, UNUSABLE: ANSWERS}.get(failed.reply.answer, failed.reply.answer)
        return Reply(named, failed.reply.detail)
    return Reply(_count_of_keys(output, paired), shown(output))


def _count_of_keys(output: Array, paired: int) -> str:
    """(B,H,T,Dv), where all keys weigh the same and the values are the identity."""
    return LEADING if is_close(output[..., :_LESS], (np.arange(_LESS) < paired) / paired) else ANSWERS


def _more_keys(asker: Asker) -> Problem:
    """One key has no value."""
    problem = asker.even(_LESS, _MORE)
    return problem.but(value=problem.value[:, :, :_LESS].copy())


def _more_values(asker: Asker) -> Problem:
    """One value has no key."""
    problem = asker.even(_LESS, _MORE)
    return problem.but(key=problem.key[:, :, :_LESS].copy())


def _narrow_keys(asker: Asker) -> Problem:
    """Queries are twice as wide as keys."""
    if asker.subject.declaration.kind is Kind.LAYER:
        raise NotAsked("a layer's widths are made by the lowering")
    problem = asker.even(4, 4)
    return problem.but(key=problem.key[..., : asker.width // 2].copy())


def _more_batches(asker: Asker) -> Problem:
    """Keys and values have one batch entry more than the queries, which have two at least."""
    if asker.subject.declaration.form is InputForm.PAGED:
        raise NotAsked("keys and values in pages have no batch axis")
    problem = asker.even(4, 4)
    B = max(2, problem.query.shape[0])
    sizes = {"query": B, "key": B + 1, "value": B + 1}
    return problem.but(**{name: np.resize(getattr(problem, name), (size, *problem.query.shape[1:]))
                          for name, size in sizes.items()})


def _short(asker: Asker, form: str) -> Problem:
    """Nothing is hidden, and nothing is added."""
    problem = asker.even(4, 4)
    array = np.ones((4, 3), bool) if form == "mask" else np.zeros((4, 3))
    return problem.but(**{form: asker.as_mask(array, problem) if form == "mask" else asker.as_bias(array, problem)})


_WORDS = {REFUSES: "the call raises", LEADING: "it takes what belongs together and ignores the rest",
          ANSWERS: "it answers with something else"}
_POSED: Mapping[str, tuple[str, Pose, int]] = {
    "more_keys": ("there are five keys and four values", _more_keys, _LESS),
    "more_values": ("there are four keys and five values", _more_values, _LESS),
    "head_width": ("queries are twice as wide as keys", _narrow_keys, _LESS),
    "batch": ("keys and values have one batch entry more than queries", _more_batches, _LESS),
    "mask": ("a mask has an entry for three of four keys", partial(_short, form="mask"), _LESS - 1),
    "bias": ("a bias has an entry for three of four keys", partial(_short, form="bias"), _LESS - 1),
}

MISMATCH_QUESTIONS = tuple(
    Question(f"mismatch.{name}", f"What happens where {what}?", _WORDS,
             partial(_ask_mismatch, pose=pose, paired=paired))
    for name, (what, pose, paired) in _POSED.items())
