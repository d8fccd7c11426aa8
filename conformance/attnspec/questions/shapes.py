"""Questions about heads and widths, about axes of length zero, and about inputs that do not belong together.

Where lengths, widths, batches or masks do not match there is no right answer, so a function should refuse them. One
that answers has ignored a part, or has read beyond the end of an array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from attnspec.core.declaration import Declaration
from attnspec.core.forms import InputForm
from attnspec.core.nouns import Kind
from attnspec.problems.problem import Array, Problem, numpy_dtype
from attnspec.questions.asker import (
    FAILURES,
    RAISES,
    UNUSABLE,
    Asker,
    Failed,
    NotAsked,
    Question,
    Reply,
    convention,
    is_close,
    shown,
    which,
)

YES, NO = "yes", "no"
KV_HEADS = 2
_ORDERS = ("repeat", "tile")


def heads_read(asker: Asker) -> Reply:
    """Which key/value head each query head reads. A declared limit is set aside: it is asked whether it is one."""
    problem = grouped(asker)
    heads = np.arange(problem.sizes.H)
    read = dict(zip(_ORDERS, (heads // (len(heads) // KV_HEADS), heads % KV_HEADS), strict=True))
    return which(asker.without_limits(grouped=True).output(problem)[:, :, 0, 0], read)


def grouped(asker: Asker) -> Problem:
    """Two query heads, or more if it takes no such groups, on each of two key/value heads, whose values say which of
    them was read. Raises NotAsked.
    """
    limits = asker.subject.declaration.limits
    if limits.single_head or (limits.self_attention_only and limits.grouped is False):
        raise NotAsked("it always has as many key/value heads as query heads")
    T, S = asker.lengths(4, 4)
    number, B, D = numpy_dtype(asker.dtype), asker.batch(T, S), asker.width
    H = KV_HEADS * limits.nearest("G", 2, least=2)
    value = np.tile(np.arange(KV_HEADS).reshape(1, KV_HEADS, 1, 1), (B, 1, S, D)).astype(number)
    return Problem(asker.dtype, np.zeros((B, H, T, D), number), np.zeros((B, KV_HEADS, S, D), number), value,
                   causal=limits.causal_only)


def _accepted(asker: Asker) -> Reply:
    """A wrong answer is no acceptance."""
    try:
        found = heads_read(asker)
    except Failed as failed:
        return Reply(NO, failed.reply.detail)
    return Reply(YES if found.answer in _ORDERS else NO, found.detail)


def _read(asker: Asker) -> Reply:
    if _accepted(asker).answer == NO:
        raise NotAsked("it only takes as many key/value heads as query heads")
    return heads_read(asker)


def _value_width(asker: Asker) -> Reply:
    """Values of four entries, keys of eight."""
    if asker.subject.declaration.kind is Kind.LAYER:
        raise NotAsked("the widths of a layer follow from its parameters")
    problem = asker.even(4, 4)
    narrow = problem.but(value=problem.value[..., :4].copy())
    try:
        seen = asker.without_limits(ties_value_width=False).output(narrow)
    except Failed as failed:
        return Reply(NO, failed.reply.detail)
    return Reply(YES if is_close(seen, np.full((4, 4), 0.25)) else NO, shown(seen))


def _claims_groups(declaration: Declaration) -> str:
    said = declaration.limits.grouped
    return "" if said is None else YES if said else NO


def _claims_width(declaration: Declaration) -> str:
    return NO if declaration.limits.ties_value_width else YES


HEAD_QUESTIONS = (
    Question("grouped", "Are fewer key/value heads than query heads accepted?",
             {YES: "yes", NO: "no: the call fails, or its answer is wrong"}, _accepted, _claims_groups),
    Question("grouped_heads", "Which key/value head does query head h use if Hkv < H?", {
        "repeat": "head h // (H / Hkv)", "tile": "head h % Hkv", **FAILURES}, _read, convention("grouped_heads")),
    Question("value_width", "May values have another width than keys?", {YES: "yes", NO: "no"}, _value_width,
             _claims_width),
)


def _ask_empty_axis(asker: Asker, axis: str) -> Reply:
    """Whoever sets a least number of scores has said so; 1, the ordinary one, is no limit here."""
    limits = asker.subject.declaration.limits
    if limits.min_scores > 1 or (limits.self_attention_only and axis == "keys"):
        raise NotAsked("a limit forbids it")
    problem = _empty(asker.even(4, 4), axis, is_self=limits.self_attention_only)
    output = asker.without_limits(min_scores=0).output(problem)
    if axis == "keys":
        return which(output, {"zeros": np.zeros(1), "nan": np.full(1, np.nan)})
    return Reply("empty", f"shape {output.shape}")


def _empty(problem: Problem, axis: str, *, is_self: bool) -> Problem:
    query, key, value = problem.query, problem.key, problem.value
    if axis == "batch":
        query, key, value = query[:0], key[:0], value[:0]
    if axis == "queries":
        query = query[:, :, :0]
    if axis == "keys" or (axis == "queries" and is_self):
        key, value = key[:, :, :0], value[:, :, :0]
    return problem.but(query=query.copy(), key=key.copy(), value=value.copy())


_GONE = {"empty": "an empty array of the right shape", **FAILURES}

SIZE_QUESTIONS = (
    Question("zero.queries", "What is returned if there are no queries (T = 0)?", _GONE,
             partial(_ask_empty_axis, axis="queries")),
    Question("zero.batch", "What is returned if the batch is empty (B = 0)?", _GONE,
             partial(_ask_empty_axis, axis="batch")),
    Question("zero.keys", "What is returned if there are no keys (S = 0)?",
             {"zeros": "zeros", "nan": "NaN", **FAILURES}, partial(_ask_empty_axis, axis="keys")),
)


REFUSES, LEADING, ANSWERS = "refuses", "leading", "answers"
_LESS, _MORE = 4, 5


# Inputs that do not belong together


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
