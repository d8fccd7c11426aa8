"""Questions about inputs: what a query sees, heads and widths, axes of length zero, and what does not belong together.

What a query sees: causal flag, masks and biases, rows that see nothing, hidden keys and values. Where lengths, widths,
batches or masks do not match there is no right answer, so a function should refuse them. One that answers has ignored a
part, or has read beyond the end of an array.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial

import ml_dtypes
import numpy as np

from attnspec.core.conventions import CONVENTIONS
from attnspec.core.declaration import Declaration
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
    convention,
    even,
    is_close,
    no_claim,
    promised,
    show_numbers,
    softmax,
    which,
)

_SQUARE = {"past": np.tri(4, dtype=bool), "strict_past": np.tri(4, k=-1, dtype=bool),
           "future": np.tri(4, dtype=bool).T, "everything": np.ones((4, 4), bool)}


def _square(asker: Asker) -> Reply:
    """The first row of a strict past sees nothing, so it is left out."""
    seen = asker.output(asker.even(4, 4).but(causal=True))
    return which(seen[:, :, 1:, :4], {name: even(visible)[1:] for name, visible in _SQUARE.items()})


def alignment(asker: Asker, T: int, S: int, keyword: str = "causal") -> Reply:
    """The diagonal of the causal flag, or of another keyword that hides later keys. Rows that see no key may hold
    anything.
    """
    T, S = asker.lengths(T, S)
    seen = asker.output(asker.even(T, S).but(**{keyword: PLACED[keyword]}))[..., :S]
    bands = {"top_left": np.tri(T, S, dtype=bool), "bottom_right": np.tri(T, S, S - T, dtype=bool),
             "everything": np.ones((T, S), bool)}
    return Reply(band(seen, bands), show_numbers(seen))


def band(weights: Array, bands: Mapping[str, Array]) -> str:
    """The first of the bands (T,S) whose rows the weights are spread evenly over; rows that see nothing may be
    anything. weights: (B,H,T,S), or those of the first keys.
    """
    def fits(visible: Array) -> bool:
        """Whether the weights are spread evenly over what is visible (T,S)."""
        sees = visible.any(axis=1)
        return is_close(weights[:, :, sees], even(visible[sees])[:, :weights.shape[-1]])

    return next((name for name, visible in bands.items() if fits(visible)), OTHER)


_ALIGNED = {"top_left": "query i sees keys 0 … i", "bottom_right": "query i sees keys 0 … i + S - T",
            "everything": "the flag is ignored", **FAILURES}

CAUSAL_QUESTIONS = (
    Question("causal.square", "Which keys does query i see under the causal flag, where T = S?", {
        "past": "keys 0 … i", "strict_past": "keys 0 … i - 1", "future": "keys i … S - 1",
        "everything": "all keys: the flag is ignored", **FAILURES}, _square, promised("past")),
    Question("causal_alignment.longer_keys", "Along which diagonal does the causal mask lie if T < S?", _ALIGNED,
             partial(alignment, T=2, S=5), convention("causal_alignment")),
    Question("causal_alignment.longer_queries", "Along which diagonal does the causal mask lie if T > S?", _ALIGNED,
             partial(alignment, T=5, S=2), convention("causal_alignment")),
)


_MASK = np.array([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 1]], bool)
_WITH_CAUSAL = np.array([[1, 0, 1, 0], [1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 1]], bool)
_FLOATS = np.array([np.roll([0.0, -1.0, -64.0, -64.0], row) for row in range(4)])
_BIAS = np.array([np.roll([0.0, 2.0, 0.0, 0.0], row) for row in range(4)])
_OPEN = np.full((4, 4), 0.25)


def _weights(asker: Asker, problem: Problem) -> Array:
    """(B,H,T,S), of four keys: the weights in effect, where the values are the identity."""
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
        raise NotAsked("its adapter turns every mask into a bias")
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
    """The weights (T,S) where an array (T,S) is taken for its truth, one way round or the other, or is ignored."""
    return {"truth": even(truth), "truth_dropped": even(~truth), "ignored": _OPEN}


def mask_with_causal(asker: Asker, pattern: Array = _WITH_CAUSAL) -> Reply:
    """pattern: (T,S), T = S, what the mask leaves visible, again and again where there are more; its first row for all,
    where queries share one mask.
    """
    shape = asker.lengths(*pattern.shape)
    problem, mask = asker.even(*shape), asker.rows(np.tile(pattern, shape)[:shape[0], :shape[1]])
    return _with_causal(asker, problem.but(mask=asker.as_mask(mask, problem)), mask)


def _bias_with_causal(asker: Asker) -> Reply:
    problem = asker.even(4, 4)
    return _with_causal(asker, _hiding(asker, problem), _WITH_CAUSAL)


def _hiding(asker: Asker, problem: Problem) -> Problem:
    return problem.but(bias=asker.as_bias(np.where(_WITH_CAUSAL, 0.0, -np.inf), problem))


def _with_causal(asker: Asker, problem: Problem, mask: Array) -> Reply:
    """Which of the mask (T,S), however the problem has it, and the causal flag are heeded."""
    T, S = mask.shape
    seen = asker.output(problem.but(causal=True))[..., :S]

    def reply(past: Array) -> Reply:
        """The same, where the causal flag leaves the past (T,S) visible."""
        visible = {"both": mask & past, "mask": mask, "causal": past, "neither": np.ones_like(mask)}
        return which(seen, {name: even(each)[:, :seen.shape[-1]] for name, each in visible.items()})

    replies = [reply(np.tri(T, S, last, dtype=bool)) for last in sorted({0, S - T})]  # the diagonal begins or ends
    return next((each for each in replies if each.answer != OTHER), replies[0])


_TRUTH = {"truth": "keys whose entry is not zero are attended to",
          "truth_dropped": "keys whose entry is not zero are masked", "ignored": "nothing: it is ignored", **FAILURES}
_TOGETHER = {**{name: CONVENTIONS["mask_with_causal"].answers[name] for name in ("both", "mask", "causal")},
             "neither": "both are ignored", **FAILURES}

MASK_QUESTIONS = (
    Question("mask.polarity", "What does True in a boolean mask mean?", {
        "keep": "the query may attend to the key", "drop": "the key is masked", "added": "1 is added to the logit",
        "after_softmax": "masked weights become zero after the softmax, and the others are not normalised again",
        "ignored": "nothing: the mask is ignored", **FAILURES}, _polarity, promised("keep")),
    Question("bias.form", "What happens to a bias?", {
        "added": "it is added to the scaled logits", "added_before_scaling": "it is added before the logits are scaled",
        "subtracted": "it is subtracted from the scaled logits", **_TRUTH}, _form, promised("added")),
    Question("mask_with_causal", "What do a mask and the causal flag do together?", _TOGETHER, mask_with_causal,
             convention("mask_with_causal")),
    Question("bias_with_causal", "What do a bias of 0 and -inf and the causal flag do together?", _TOGETHER,
             _bias_with_causal, convention("mask_with_causal")),
)
IN_PLACE = (
    Question("mask.float", "What does a float array mean that is passed as `mask`?",
             {"added": "it is added to the logits", **_TRUTH}, _float_mask),
    Question("bias.boolean", "What does a boolean array mean that is passed as `bias`?",
             {"added": "it is added to the logits, True as 1", **_TRUTH}, _boolean_bias),
)
"""What the contract does not allow, and callers do. Asked late: native code may die of it."""


ROW = 1
"""The row that sees nothing."""


def without_row(asker: Asker, problem: Problem, form: str) -> Problem:
    """The problem with row ROW hidden; every row, where a mask is the same for all, or where there are no keys."""
    if form == "key_lengths":
        return problem.but(key_lengths=np.zeros(problem.sizes.B, np.int32))
    T, S = problem.sizes.T, problem.sizes.S
    visible = np.arange(T)[:, None] != np.full((T, S), min(ROW, T - 1))
    return _hidden(asker, problem, visible & (asker.has_rows or form != "mask"), form)


def without_last_key(asker: Asker, problem: Problem, form: str) -> Problem:
    """The problem with its last key hidden; under the causal flag from all rows but the last."""
    if form == "causal":
        return problem.but(causal=True)
    return _hidden(asker, problem, np.arange(4) < np.full((4, 4), 3), form)


def _hidden(asker: Asker, problem: Problem, visible: Array, form: str) -> Problem:
    """The problem with only the keys `visible` (T,S), by a mask or by a bias of -inf or of the most negative number."""
    if form == "mask":
        return problem.but(mask=asker.as_mask(visible, problem))
    least = float(ml_dtypes.finfo(numpy_dtype(asker.dtype)).min) if form == "finfo_min" else -np.inf
    return problem.but(bias=asker.as_bias(np.where(visible, 0.0, least), problem))


def hidden_row(asker: Asker, form: str, problem: Problem, **others: Array) -> Reply:
    """What a row that sees no key gets of a problem whose values are the identity; others: further candidates, of any
    shape that broadcasts to (B,H,4).
    """
    seen = asker.output(without_row(asker, problem, form))[:, :, min(ROW, problem.sizes.T - 1), :4]
    candidates = {"zeros": np.zeros(4), "uniform": np.full(4, 0.25), "nan": np.full(4, np.nan)}
    return which(seen * (problem.sizes.S / 4), {**candidates, **others})


def _row(asker: Asker, form: str) -> Reply:
    """Keys do not weigh alike, so that what looks uniform is not what nobody has masked."""
    problem, others = asker.sloped(4, 4), {}
    with contextlib.suppress(NotAsked, Failed):
        others["unmasked"] = asker.output(problem)[:, :, ROW, :4]
    return hidden_row(asker, form, problem, **others)


def _row_under_causal(asker: Asker) -> Reply:
    """Only where the last query sees all keys and there are more queries than keys are there rows that see none."""
    if alignment(asker, 5, 2).answer != "bottom_right":
        raise NotAsked("every query sees a key")
    seen = asker.output(asker.sloped(5, 2).but(causal=True))[:, :, :3, :2]
    return which(seen, {"zeros": np.zeros(2), "uniform": np.full(2, 0.5), "nan": np.full(2, np.nan)})


_POISON = {"nan": np.nan, "inf": np.inf}


def _poisoned(asker: Asker, place: str, content: str, form: str) -> Reply:
    """The last row is not looked at: a layer that attends to its own input has the poison in its query, too."""
    hidden = without_last_key(asker, asker.sloped(4, 4), form)
    right = asker.output(hidden)[:, :, :3, :4]
    array = getattr(hidden, place).copy()
    array[:, :, -1, 0] = _POISON[content]
    seen = asker.output(hidden.but(**{place: array}))[:, :, :3, :4]
    return Reply(_damage(seen, right), show_numbers(seen))


def _damage(seen: Array, right: Array) -> str:
    """What poison did to an output of any shape, compared with the one without."""
    if is_close(seen, right):
        return "harmless"
    return "nan" if np.isnan(seen).any() else "infinite" if np.isinf(seen).any() else "changed"


_OF_CAUSAL = {**{name: text for name, text in CONVENTIONS["hidden_row"].answers.items() if name != "undefined"},
              **FAILURES}
_ROWS = {**_OF_CAUSAL, "unmasked": "as if no key were masked"}
_FORMS = {"mask": "a boolean mask", "bias": "a bias of -inf", "finfo_min": "a bias of the most negative number"}
_HIDING = {"mask": "a boolean mask", "bias": "a bias of -inf", "causal": "the causal flag"}
_DAMAGES = {"harmless": "nothing", "nan": "it becomes NaN", "infinite": "it becomes infinite",
            "changed": "it changes to other numbers", **FAILURES}

HIDDEN_QUESTIONS = (
    *(Question(f"hidden_row.{form}", f"What is the output of a query if {text} masks all its keys?", _ROWS,
               partial(_row, form=form), no_claim if form == "finfo_min" else convention("hidden_row", form))
      for form, text in _FORMS.items()),
    Question("hidden_row.causal", "What is the output of a query that sees no key because of the causal flag?",
             _OF_CAUSAL, _row_under_causal, convention("hidden_row", "causal")),
    *(Question(f"hidden_{place}.{content}.{form}",
               f"What does {text} in a {place} do to the output of queries for which {how} masks it?", _DAMAGES,
               partial(_poisoned, place=place, content=content, form=form))
      for place in ("key", "value") for content, text in (("nan", "NaN"), ("inf", "infinity"))
      for form, how in _HIDING.items()),
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
    return Reply(YES if is_close(seen, np.full((4, 4), 0.25)) else NO, show_numbers(seen))


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
    return Reply(_count_of_keys(output, paired), show_numbers(output))


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
