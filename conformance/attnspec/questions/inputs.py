"""Questions about heads, widths, axes of length zero and inputs that do not fit together.

The problems that hide keys are made here too, for the questions about masks (`aspects/masks`).

Where lengths, widths, batches or masks do not fit together, no answer is right: a function should
refuse. One that answers ignored a part, or read past the end of an array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from attnspec.core.declaration import Declaration
from attnspec.core.dtype import DTYPES
from attnspec.core.forms import InputForm
from attnspec.core.keywords import PLACED
from attnspec.core.nouns import Kind
from attnspec.problems.problem import Array, Problem, numpy_dtype
from attnspec.questions.asker import (
    FAILURES,
    OTHER,
    RAISES,
    UNUSABLE,
    Asker,
    Failed,
    NotAsked,
    Question,
    Reply,
    declared_convention,
    even_weights,
    is_close,
    name_candidate,
    promised_answer,
    show_numbers,
    softmax_rows,
)


def ask_alignment(asker: Asker, T: int, S: int, keyword: str = "causal") -> Reply:
    """Where the diagonal of the causal flag lies, or of another keyword that hides later keys.

    Rows without a visible key may hold anything.
    """
    T, S = asker.fit_lengths(T, S)
    weights = asker.ask_output(asker.make_even(T, S).but(**{keyword: PLACED[keyword]}))[..., :S]
    bands = {"top_left": np.tri(T, S, dtype=bool), "bottom_right": np.tri(T, S, S - T, dtype=bool),
             "everything": np.ones((T, S), bool)}
    return Reply(name_band(weights, bands), show_numbers(weights))


def name_band(weights: Array, bands: Mapping[str, Array]) -> str:
    """The first band (T,S) over whose rows the weights are spread evenly.

    Rows without a visible key may hold anything. weights: (B,H,T,S), or those of the first keys.
    """
    def fits(visible: Array) -> bool:
        """Whether the weights are spread evenly over the keys visible in (T,S)."""
        sees = visible.any(axis=1)
        return is_close(weights[:, :, sees], even_weights(visible[sees])[:, :weights.shape[-1]])

    return next((name for name, visible in bands.items() if fits(visible)), OTHER)


_MASK_PATTERN = np.array([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 1]], bool)
MASK_BESIDE_CAUSAL = np.array([[1, 0, 1, 0], [1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 1]], bool)
UNMASKED_WEIGHTS = np.full((4, 4), 0.25)


def ask_weights(asker: Asker, problem: Problem) -> Array:
    """The weights (B,H,T,S) on four keys, read from an output whose values are the identity."""
    return asker.ask_output(problem)[..., :4]


def _ask_polarity(asker: Asker) -> Reply:
    problem, mask = asker.make_even(4, 4), asker.fit_rows(_MASK_PATTERN)
    weights = ask_weights(asker, problem.but(mask=asker.spread_over_heads(mask, problem)))
    return name_candidate(weights, {
        "keep": even_weights(mask), "drop": even_weights(~mask), "added": softmax_rows(mask * 1.0),
        "after_softmax": mask / 4, "ignored": UNMASKED_WEIGHTS})


def mask_drops(asker: Asker) -> bool:
    """Whether True in the mask hides a key. If so, every other question negates its masks."""
    try:
        return _ask_polarity(asker).answer == "drop"
    except (NotAsked, Failed):
        return False


def ask_mask_with_causal(asker: Asker, pattern: Array = MASK_BESIDE_CAUSAL) -> Reply:
    """Which of the two hides keys if a call has a mask and the causal flag.

    pattern: (T,T), what the mask leaves visible; repeated at larger lengths. If all queries share
    one mask, its first row is used.
    """
    shape = asker.fit_lengths(*pattern.shape)
    problem = asker.make_even(*shape)
    mask = asker.fit_rows(np.tile(pattern, shape)[:shape[0], :shape[1]])
    return ask_with_causal(asker, problem.but(mask=asker.as_mask(mask, problem)), mask)


def ask_with_causal(asker: Asker, problem: Problem, mask: Array) -> Reply:
    """Which of the mask (T,S) in the problem and the causal flag hides keys."""
    T, S = mask.shape
    weights = asker.ask_output(problem.but(causal=True))[..., :S]

    replies = []
    for last in sorted({0, S - T}):  # the diagonal may start in the first corner, or end in the last
        past = np.tri(T, S, last, dtype=bool)
        visible = {"both": mask & past, "mask": mask, "causal": past, "neither": np.ones_like(mask)}
        replies.append(name_candidate(weights, {name: even_weights(each)[:, :weights.shape[-1]]
                                                for name, each in visible.items()}))
    return next((each for each in replies if each.answer != OTHER), replies[0])


MASK_POLARITY = Question(
    "mask.polarity", "What does True in a boolean mask mean?", {
        "keep": "the query may attend to the key", "drop": "the key is masked",
        "added": "1 is added to the logit",
        "after_softmax": "masked weights become zero after the softmax, and the others are not "
                         "normalised again",
        "ignored": "nothing: the mask is ignored", **FAILURES},
    _ask_polarity, promised_answer("keep"))


HIDDEN_ROW = 1
"""The row without a visible key."""


def hide_row(asker: Asker, problem: Problem, form: str) -> Problem:
    """The problem with HIDDEN_ROW hidden; all rows, if they share one mask."""
    if form == "key_lengths":
        return problem.but(key_lengths=np.zeros(problem.sizes.B, np.int32))
    T, S = problem.sizes.T, problem.sizes.S
    visible = np.arange(T)[:, None] != np.full((T, S), min(HIDDEN_ROW, T - 1))
    return _hide_keys(asker, problem, visible & (asker.has_rows or form != "mask"), form)


def hide_last_key(asker: Asker, problem: Problem, form: str) -> Problem:
    """The problem with its last key hidden. The causal flag shows it to the last row."""
    if form == "causal":
        return problem.but(causal=True)
    return _hide_keys(asker, problem, np.arange(4) < np.full((4, 4), 3), form)


def _hide_keys(asker: Asker, problem: Problem, visible: Array, form: str) -> Problem:
    """Hides all but the visible keys (T,S): by a mask, or a bias of -inf or the lowest number."""
    if form == "mask":
        return problem.but(mask=asker.as_mask(visible, problem))
    least = -DTYPES[asker.dtype].largest if form == "finfo_min" else -np.inf
    return problem.but(bias=asker.as_bias(np.where(visible, 0.0, least), problem))


def ask_hidden_row(asker: Asker, form: str, problem: Problem, **others: Array) -> Reply:
    """What a row without a visible key holds, in a problem whose values are the identity.

    others: further candidates, of any shape that broadcasts to (B,H,4).
    """
    row = min(HIDDEN_ROW, problem.sizes.T - 1)
    output = asker.ask_output(hide_row(asker, problem, form))[:, :, row, :4]
    candidates = {"zeros": np.zeros(4), "uniform": np.full(4, 0.25), "nan": np.full(4, np.nan)}
    return name_candidate(output * (problem.sizes.S / 4), {**candidates, **others})


YES, NO = "yes", "no"
KV_HEADS = 2
_HEAD_ORDERS = ("repeat", "tile")


def yes_or_no(is_so: bool) -> str:
    """The answer to a question that asks whether something is so."""
    return YES if is_so else NO


def ask_heads_read(asker: Asker) -> Reply:
    """Which key/value head each query head reads, even if groups are declared impossible."""
    problem = grouped_problem(asker)
    heads = np.arange(problem.sizes.H)
    read = dict(zip(_HEAD_ORDERS, (heads // (len(heads) // KV_HEADS), heads % KV_HEADS),
                    strict=True))
    return name_candidate(asker.without_limits(grouped=True).ask_output(problem)[:, :, 0, 0], read)


def grouped_problem(asker: Asker) -> Problem:
    """Two query heads, or a larger group, on each of two key/value heads.

    The values say which key/value head was read. Raises NotAsked.
    """
    limits = asker.subject.declaration.limits
    if limits.single_head or (limits.self_attention_only and limits.grouped is False):
        raise NotAsked("it always has as many key/value heads as query heads")
    T, S = asker.fit_lengths(4, 4)
    number, B, D = numpy_dtype(asker.dtype), asker.fit_batch(T, S), asker.width
    H = KV_HEADS * limits.nearest("G", 2, least=2)
    value = np.tile(np.arange(KV_HEADS).reshape(1, KV_HEADS, 1, 1), (B, 1, S, D)).astype(number)
    return Problem(asker.dtype, np.zeros((B, H, T, D), number),
                   np.zeros((B, KV_HEADS, S, D), number), value, causal=limits.causal_only)


def _ask_groups_accepted(asker: Asker) -> Reply:
    """A wrong answer does not count as accepted."""
    try:
        reply = ask_heads_read(asker)
    except Failed as failed:
        return Reply(NO, failed.reply.detail)
    return Reply(yes_or_no(reply.answer in _HEAD_ORDERS), reply.detail)


def _ask_heads_of_groups(asker: Asker) -> Reply:
    if _ask_groups_accepted(asker).answer == NO:
        raise NotAsked("it only takes as many key/value heads as query heads")
    return ask_heads_read(asker)


def _ask_value_width(asker: Asker) -> Reply:
    """Values of width 4 with keys of width 8."""
    if asker.subject.declaration.kind is Kind.LAYER:
        raise NotAsked("the widths of a layer follow from its parameters")
    problem = asker.make_even(4, 4)
    narrow = problem.but(value=problem.value[..., :4].copy())
    try:
        output = asker.without_limits(ties_value_width=False).ask_output(narrow)
    except Failed as failed:
        return Reply(NO, failed.reply.detail)
    return Reply(yes_or_no(is_close(output, np.full((4, 4), 0.25))), show_numbers(output))


def _claimed_groups(declaration: Declaration) -> str:
    return {None: "", True: YES, False: NO}[declaration.limits.grouped]


def _claimed_width(declaration: Declaration) -> str:
    return yes_or_no(not declaration.limits.ties_value_width)


HEAD_QUESTIONS = (
    Question("grouped", "Are fewer key/value heads than query heads accepted?",
             {YES: "yes", NO: "no: the call fails, or its answer is wrong"}, _ask_groups_accepted,
             _claimed_groups),
    Question("grouped_heads", "Which key/value head does query head h use if Hkv < H?", {
        "repeat": "head h // (H / Hkv)", "tile": "head h % Hkv", **FAILURES}, _ask_heads_of_groups,
        declared_convention("grouped_heads")),
    Question("value_width", "May values have another width than keys?", {YES: "yes", NO: "no"},
             _ask_value_width, _claimed_width),
)


def _ask_empty_axis(asker: Asker, axis: str) -> Reply:
    """A subject with a least number of scores of more than 1 has said that it takes none."""
    limits = asker.subject.declaration.limits
    if limits.min_scores > 1 or (limits.self_attention_only and axis == "keys"):
        raise NotAsked("a limit forbids it")
    problem = _empty_axis(asker.make_even(4, 4), axis, is_self=limits.self_attention_only)
    output = asker.without_limits(min_scores=0).ask_output(problem)
    if axis == "keys":
        return name_candidate(output, {"zeros": np.zeros(1), "nan": np.full(1, np.nan)})
    return Reply("empty", f"shape {output.shape}")


def _empty_axis(problem: Problem, axis: str, *, is_self: bool) -> Problem:
    query, key, value = problem.query, problem.key, problem.value
    if axis == "batch":
        query, key, value = query[:0], key[:0], value[:0]
    if axis == "queries":
        query = query[:, :, :0]
    if axis == "keys" or (axis == "queries" and is_self):
        key, value = key[:, :, :0], value[:, :, :0]
    return problem.but(query=query.copy(), key=key.copy(), value=value.copy())


_EMPTY_ANSWERS = {"empty": "an empty array of the right shape", **FAILURES}

SIZE_QUESTIONS = (
    Question("zero.queries", "What is returned if there are no queries (T = 0)?", _EMPTY_ANSWERS,
             partial(_ask_empty_axis, axis="queries")),
    Question("zero.batch", "What is returned if the batch is empty (B = 0)?", _EMPTY_ANSWERS,
             partial(_ask_empty_axis, axis="batch")),
    Question("zero.keys", "What is returned if there are no keys (S = 0)?",
             {"zeros": "zeros", "nan": "NaN", **FAILURES}, partial(_ask_empty_axis, axis="keys")),
)


REFUSES, LEADING, ANSWERS = "refuses", "leading", "answers"
_FEWER_KEYS, _MORE_KEYS = 4, 5


# Inputs that do not belong together


Pose = Callable[[Asker], Problem]


def _ask_mismatch(asker: Asker, pose: Pose, paired: int) -> Reply:
    """An output of the wrong shape is an answer too. paired: how many keys are complete."""
    if asker.subject.declaration.limits.self_attention_only:
        raise NotAsked("one input serves as query, key and value")
    if asker.subject.declaration.limits.one_memory:
        raise NotAsked("one input serves as key and value")
    try:
        output = asker.without_limits(broadcasts=True).ask_output(pose(asker))
    except Failed as failed:
        named = {RAISES: REFUSES, UNUSABLE: ANSWERS}.get(failed.reply.answer, failed.reply.answer)
        return Reply(named, failed.reply.detail)
    return Reply(_name_heeded_keys(output, paired), show_numbers(output))


def _name_heeded_keys(output: Array, paired: int) -> str:
    """Of an output (B,H,T,Dv) with equal weights and identity values."""
    if is_close(output[..., :_FEWER_KEYS], (np.arange(_FEWER_KEYS) < paired) / paired):
        return LEADING
    return ANSWERS


def _add_key(asker: Asker) -> Problem:
    """One key has no value."""
    problem = asker.make_even(_FEWER_KEYS, _MORE_KEYS)
    return problem.but(value=problem.value[:, :, :_FEWER_KEYS].copy())


def _add_value(asker: Asker) -> Problem:
    """One value has no key."""
    problem = asker.make_even(_FEWER_KEYS, _MORE_KEYS)
    return problem.but(key=problem.key[:, :, :_FEWER_KEYS].copy())


def _narrow_keys_problem(asker: Asker) -> Problem:
    """Queries are twice as wide as keys."""
    if asker.subject.declaration.kind is Kind.LAYER:
        raise NotAsked("a layer's widths are made by the lowering")
    problem = asker.make_even(4, 4)
    return problem.but(key=problem.key[..., : asker.width // 2].copy())


def _add_batch_entry(asker: Asker) -> Problem:
    """Keys and values have one batch entry more than queries, which have at least two."""
    if asker.subject.declaration.form is InputForm.PAGED:
        raise NotAsked("keys and values in pages have no batch axis")
    problem = asker.make_even(4, 4)
    B = max(2, problem.query.shape[0])
    sizes = {"query": B, "key": B + 1, "value": B + 1}
    return problem.but(**{name: np.resize(getattr(problem, name), (size, *problem.query.shape[1:]))
                          for name, size in sizes.items()})


def _shorten_mask(asker: Asker, form: str) -> Problem:
    """Hides nothing and adds nothing, but one key has no entry."""
    problem = asker.make_even(4, 4)
    if form == "mask":
        return problem.but(mask=asker.as_mask(np.ones((4, 3), bool), problem))
    return problem.but(bias=asker.as_bias(np.zeros((4, 3)), problem))


_MISMATCH_ANSWERS = {REFUSES: "the call raises",
                     LEADING: "it takes what belongs together and ignores the rest",
                     ANSWERS: "it answers with something else"}
_MISMATCHES: Mapping[str, tuple[str, Pose, int]] = {
    "more_keys": ("there are five keys and four values", _add_key, _FEWER_KEYS),
    "more_values": ("there are four keys and five values", _add_value, _FEWER_KEYS),
    "head_width": ("queries are twice as wide as keys", _narrow_keys_problem, _FEWER_KEYS),
    "batch": ("keys and values have one batch entry more than queries", _add_batch_entry,
              _FEWER_KEYS),
    "mask": ("a mask has an entry for three of four keys", partial(_shorten_mask, form="mask"),
             _FEWER_KEYS - 1),
    "bias": ("a bias has an entry for three of four keys", partial(_shorten_mask, form="bias"),
             _FEWER_KEYS - 1),
}

MISMATCH_QUESTIONS = tuple(
    Question(f"mismatch.{name}", f"What happens where {what}?", _MISMATCH_ANSWERS,
             partial(_ask_mismatch, pose=pose, paired=paired))
    for name, (what, pose, paired) in _MISMATCHES.items())
