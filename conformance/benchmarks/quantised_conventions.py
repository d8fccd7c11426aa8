"""What subjects that take or store codes do where they differ, found by calling them.

Codes that are handed over: who shares a scale, where it is multiplied in, whether the outermost codes are kept, what a
NaN code that nobody sees does. Codes that are made inside (of decoders): who shares a scale, of how many levels,
whether a zero point belongs to it, whether later tokens are clipped, whether a token is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from attnspec.aspects.quantised.arrays import USUAL_SLOTS, shared_shape, spread_out
from attnspec.aspects.quantised.storage import SCALE_AXES, STORAGES
from attnspec.core.nouns import DType
from attnspec.problems.problem import Array, Problem, numpy_dtype
from attnspec.questions.asker import Asker, Failed, NotAsked
from attnspec.subjects.subject import Subject

CODE = 4.0
"""A code that every format has."""
SHARP = 96.0
"""Of a query: times CODE it is so large a logit that no other key has a weight."""
HUGE = 2.0**126
"""A scale: four times it is beyond float32."""
UNKNOWN = "–"


def find_conventions(subject: Subject, dtype: DType) -> dict[str, str]:
    """By the name of a convention, what the subject does; UNKNOWN where it cannot be asked."""
    asker = Asker(subject, dtype)
    makes_codes = any(word.startswith("stored_") for word in subject.declaration.precision.get(dtype, {}))
    asked = _OF_STORED if makes_codes else _OF_HANDED
    return {name: _guarded(ask, asker) for name, ask in asked.items()}


def _guarded(ask: Callable[[Asker], str], asker: Asker) -> str:
    try:
        with np.errstate(all="ignore"):
            return ask(asker)
    except (NotAsked, Failed):
        return UNKNOWN


@dataclass(frozen=True, slots=True)
class Form:
    """How codes of an array are handed over: the format, and who shares a scale."""

    storage: str
    granularity: str

    @property
    def block(self) -> int:
        """How many neighbours share a scale along an axis; 1 where none do."""
        return max(SCALE_AXES[self.granularity].values(), default=1)


def _form(asker: Asker, array: str) -> Form:
    limits = asker.subject.declaration.limits
    storage = getattr(limits, f"stored_{array}") or "int8"
    return Form(storage, getattr(limits, f"{array}_scales") or STORAGES[storage].usual_granularity or "token")


def _plain(asker: Asker) -> Problem:
    """Two entries, two heads, S tokens and as many queries; all numbers 0, all scales 1. S is longer than a block of
    tokens, D than a block of features, and S is no more than D: each token has a feature of its own.
    """
    forms = [_form(asker, array) for array in ("key", "value")]
    along_tokens = max(form.block if "tokens" in form.granularity else 1 for form in forms)
    along_features = max(form.block if form.granularity.startswith("block") else 1 for form in forms)
    S = 8 if along_tokens == 1 else along_tokens + 2
    D = max(-(-S // 8) * 8, 2 * along_features)
    number = numpy_dtype(asker.dtype)
    problem = Problem(asker.dtype, *(np.zeros((2, 2, S, D), number) for _ in range(3)))
    declared = asker.subject.declaration.keywords
    beside = {"block_table": "in_order", "key_lengths": np.full(2, S, np.int32)} if "block_table" in declared else {}
    scales = {f"{array}_scale": np.ones((2, 2, S, D), np.float32) for array in ("query", "key", "value")
              if f"{array}_scale" in declared}
    return problem.but(**beside, **scales)


def _each_sees_its_own(problem: Problem) -> Problem:
    """Query i sees token i alone."""
    one_hot = np.eye(*problem.query.shape[2:], dtype=problem.query.dtype)
    return problem.but(query=problem.query + SHARP * one_hot, key=problem.key + CODE * one_hot)


def _first_doubled(asker: Asker, problem: Problem, array: str) -> Array:
    """Scales (2,2,S,D) of an array, 1 but for the first of those that the subject tells apart, which is 2."""
    form, full = _form(asker, array), problem.key.shape
    made = np.ones(shared_shape(form.granularity, full), np.float32)
    made.flat[0] = 2.0
    return spread_out(made, form.granularity, full)


def name_shared(moved: Array, page: int = 0) -> str:
    """Who shares a scale, by which entries (B,H,S,D) moved when the first scale was changed. page: of so many slots."""
    if not moved.any():
        return "ignored"
    apart = frozenset(axis for axis in range(4) if (moved != moved.any(axis=axis, keepdims=True)).any())
    tokens, features = int(moved[0, 0, :, 0].sum()), int(moved[0, 0, 0].sum())
    of_tokens = "token" if tokens == 1 else "page" if tokens == page else f"{tokens} tokens"
    names = {frozenset(): "tensor", frozenset({0}): "batch entry", frozenset({1}): "head",
             frozenset({0, 1}): "head of an entry", frozenset({1, 3}): "channel",
             frozenset({0, 1, 3}): "channel of an entry", frozenset({0, 1, 2}): of_tokens,
             frozenset({0, 1, 2, 3}): f"{features} features" if tokens == 1 else f"{tokens} tokens of a feature"}
    return names.get(apart, f"axes {sorted(apart)}")


def _ask_value_scale(asker: Asker) -> str:
    problem = _each_sees_its_own(_plain(asker))
    problem = problem.but(value=problem.value + 1)
    doubled = problem.but(value_scale=_first_doubled(asker, problem, "value"))
    return name_shared(asker.ask_output(doubled) > 1.5, _page(problem))


def _page(problem: Problem) -> int:
    """How many slots a page has; 0 where there are no pages."""
    return USUAL_SLOTS if problem.block_table is not None else 0


def _ask_key_scale(asker: Asker) -> str:
    """Query after query looks at one feature; the last token is 0, so that its logit is."""
    plain = _plain(asker)
    problem = plain.but(key=plain.key + 1, value=plain.value + np.eye(*plain.value.shape[2:], dtype=plain.value.dtype))
    problem.key[:, :, -1] = 0
    doubled, moved = _first_doubled(asker, problem, "key"), np.zeros(problem.key.shape, bool)
    for feature in range(problem.key.shape[3]):
        query = np.zeros_like(problem.query)
        query[..., feature] = CODE
        posed = problem.but(query=query)
        apart = _read_logits(asker.ask_output(posed.but(key_scale=doubled))) - _read_logits(asker.ask_output(posed))
        moved[..., feature] = np.abs(apart) > 0.01
    return name_shared(moved[:, :, :-1], _page(problem))


def _read_logits(output: Array) -> Array:
    """Of outputs (B,H,T,D) that are weights, the logits (B,H,S) of the first query, the last token's being 0."""
    weights = np.log(output[:, :, 0, :output.shape[2]])
    return np.asarray(weights - weights[..., -1:])


def _ask_order_of_values(asker: Asker) -> str:
    """The last value is a code that its scale takes beyond float32; its weight is 2^-40."""
    problem = _plain(asker)
    if _form(asker, "value").storage == "nvfp4":
        return UNKNOWN
    width = problem.query.shape[3]
    query, key, value = (np.zeros_like(each) for each in (problem.query, problem.key, problem.value))
    query[..., 0], key[:, :, :-1, 0], value[:, :, -1] = round(40 * np.log(2) * np.sqrt(width) / CODE), CODE, CODE
    output = asker.ask_output(problem.but(query=query, key=key, value=value, value_scale=np.full_like(
        problem.value, HUGE, np.float32)))
    return "behind the products" if np.isfinite(output).all() else "into the codes"


def _ask_order_of_keys(asker: Asker) -> str:
    """All keys but the first are codes that their scale takes beyond float32; queries are as small as it is large."""
    problem = _plain(asker)
    if _form(asker, "key").storage == "nvfp4" or asker.subject.declaration.limits.stored_query:
        return UNKNOWN
    query, key = (np.zeros_like(each) for each in (problem.query, problem.key))
    query[..., 0], key[:, :, 1:, 0] = 1 / HUGE, CODE
    value = problem.value + np.eye(*problem.value.shape[2:], dtype=problem.value.dtype)
    output = asker.ask_output(problem.but(query=query, key=key, value=value, key_scale=np.full_like(
        problem.key, HUGE, np.float32)))
    return "behind the products" if np.isfinite(output).all() else "into the codes"


def _ask_outermost(asker: Asker) -> str:
    """The least and the largest code of values."""
    problem, storage = _each_sees_its_own(_plain(asker)), STORAGES[_form(asker, "value").storage]
    value = problem.value.copy()
    value[..., ::2], value[..., 1::2] = storage.lowest, storage.largest
    seen = asker.ask_output(problem.but(value=value))
    if np.allclose(seen, value, rtol=1e-6):
        return "kept"
    return f"{storage.lowest:g} read as {seen[..., ::2].min():g}, {storage.largest:g} as {seen[..., 1::2].max():g}"


def _hide_last(asker: Asker, problem: Problem) -> Problem:
    """The problem whose last token no query sees. Raises NotAsked where that cannot be said."""
    declared, (B, H, T, _) = asker.subject.declaration.keywords, problem.query.shape
    if "key_lengths" in declared:
        return problem.but(key_lengths=np.full(B, problem.sizes.S - 1, np.int32))
    if "mask" in declared:
        visible = np.ones((B, H, T, problem.sizes.S), bool)
        visible[..., -1] = False
        return problem.but(mask=visible)
    raise NotAsked("it takes neither lengths nor a mask")


def _ask_nan(asker: Asker, array: str) -> str:
    """A NaN code of a token that no query sees."""
    if not STORAGES[_form(asker, array).storage].has_nan:
        return "no such code"
    problem = _hide_last(asker, _plain(asker))
    entries = getattr(problem, array).copy()
    entries[:, :, -1] = np.nan
    return "harmless" if np.isfinite(asker.ask_output(problem.but(**{array: entries}))).all() else "spreads"


def _ask_zero(asker: Asker) -> str:
    """Values of 4 whose zero points are 1."""
    if "value_zero" not in asker.subject.declaration.keywords:
        return "none taken"
    problem = _each_sees_its_own(_plain(asker))
    value = problem.value + CODE
    seen = float(asker.ask_output(problem.but(value=value, value_zero=np.ones(value.shape, np.float32))).mean())
    done = {3.0: "taken off", 4.0: "ignored", 5.0: "added"}.get(round(seen, 3), f"4 - 1 is {seen:g}")
    return f"{done}, as {asker.subject.declaration.limits.zeros or 'float32'}"


_OF_HANDED: Mapping[str, Callable[[Asker], str]] = {
    "key scale shared by": _ask_key_scale, "value scale shared by": _ask_value_scale,
    "key scale multiplied": _ask_order_of_keys, "value scale multiplied": _ask_order_of_values,
    "outermost codes": _ask_outermost, "hidden NaN key": lambda asker: _ask_nan(asker, "key"),
    "hidden NaN value": lambda asker: _ask_nan(asker, "value"), "zero points": _ask_zero}


def _behind_past(asker: Asker, value: Array, key: Array | None = None, calls: str = "at_once") -> Problem:
    """Queries (2,2,8,64) that each see one past token alone, whose values are given, (2,2,8,64)."""
    number = numpy_dtype(asker.dtype)
    one_hot, zeros = np.tile(np.eye(8, 64), (2, 2, 1, 1)), np.zeros((2, 2, 8, 64), number)
    return Problem(asker.dtype, (SHARP * SHARP * one_hot).astype(number), zeros, zeros,
                   past_key=(one_hot if key is None else key).astype(number), past_value=value.astype(number),
                   cache=calls)


def _ramp() -> Array:
    """Values (2,2,8,64) between 0 and 1, both of them in each token and each feature."""
    made = np.random.default_rng(0).random((2, 2, 8, 64))
    made[..., 0], made[..., 1] = 0, 1
    made[:, :, 0, 2:], made[:, :, 1, 2:] = 0, 1
    return made


def _ask_sharing_inside(asker: Asker) -> str:
    """One value becomes far larger than the others: which are read back otherwise, in two draws of three? In a single
    one, some of a group keep their numbers by chance, and HQQ may move others: it stops by the mean error of all.
    """
    count = np.zeros((2, 2, 8, 64), int)
    for seed in (2, 3, 4):
        plain = 1 + np.random.default_rng(seed).random(count.shape)
        larger = plain.copy()
        larger[0, 0, 0, 0] = 50
        outputs = [asker.ask_output(_behind_past(asker, value)) for value in (plain, larger)]
        count += outputs[0] != outputs[1]
    return name_shared(_same_group(count >= 2))


def _same_group(moved: Array) -> Array:
    """Entries (B,H,S,D) of the group that moved: along an axis that moved almost throughout, a few kept their number
    by chance.
    """
    grown = np.ones(moved.shape, bool)
    for axis in range(4):
        along = moved.any(axis=tuple(each for each in range(4) if each != axis))
        shape = [1] * 4
        shape[axis] = -1
        grown &= (along | (along.mean() > 0.5)).reshape(shape)
    return grown


def _ask_levels(asker: Asker) -> str:
    ramp = _ramp()
    off = np.abs(asker.ask_output(_behind_past(asker, ramp)) - ramp)[:, :, 2:].max()
    return "as handed over" if off < 1e-6 else f"within 1/{1 / (2 * off):.0f} of the range"


def _ask_zero_inside(asker: Asker) -> str:
    """Values between 100 and 101: a scale of their size would lose them."""
    value = 100 + _ramp()
    off = np.abs(asker.ask_output(_behind_past(asker, value)) - value).max()
    return "taken from the least entry" if off < 0.1 else "none"


def _ask_later(asker: Asker) -> str:
    """The second call stores values 20 times as large as the first."""
    value = _ramp()
    value[:, :, 4:] *= 20
    seen = asker.ask_output(_behind_past(asker, value, calls="halves"))[:, :, 4:].max()
    return "kept" if seen > 18 else f"clipped: 20 is read as {seen:.3g}"


def _ask_once(asker: Asker) -> str:
    """Whether it matters in how many calls tokens came."""
    value = np.random.default_rng(1).standard_normal((2, 2, 8, 64))
    at_once, one_by_one = (asker.ask_output(_behind_past(asker, value, calls=calls))
                           for calls in ("at_once", "token_by_token"))
    if (at_once == one_by_one).all():
        return "once, bit for bit"
    apart = np.abs(at_once - one_by_one).max()
    return "again, to the same codes" if apart < 1e-4 else f"again: off by up to {apart:.2g}"


def _ask_own_tokens(asker: Asker) -> str:
    """Whether a first call attends to what it is handed or to what it stores."""
    number, ramp = numpy_dtype(asker.dtype), _ramp()
    one_hot = np.tile(np.eye(8, 64), (2, 2, 1, 1))
    arrays = (array.astype(number) for array in (SHARP * SHARP * one_hot, one_hot, ramp))
    problem = Problem(asker.dtype, *arrays)
    return "as handed over" if np.allclose(asker.ask_output(problem), ramp, atol=1e-5) else "as stored"


def _ask_nan_inside(asker: Asker) -> str:
    """A past token of NaN, which a mask hides."""
    value = _ramp()
    value[:, :, -1] = np.nan
    problem = _behind_past(asker, value)
    mask = np.ones((2, 2, 8, 16), bool)
    mask[..., 7] = False
    others = asker.ask_output(problem.but(mask=mask))[:, :, :7]
    return "harmless" if np.isfinite(others).all() else "spreads"


_OF_STORED: Mapping[str, Callable[[Asker], str]] = {
    "scale shared by": _ask_sharing_inside, "read back": _ask_levels, "zero points": _ask_zero_inside,
    "larger tokens later": _ask_later, "a token is stored": _ask_once, "own tokens of a first call": _ask_own_tokens,
    "hidden NaN value": _ask_nan_inside}
