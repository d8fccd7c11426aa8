"""Where a mistake sits that no fault of the catalogue explains: one stage after the other is read
off the subject.

With values that are the identity the output shows the weights; with a query of zeros all logits
are equal; entries are small whole numbers, so that dot products are exact. What is read is held to
the bound of numerics/, nothing else.

Whether large numbers are what makes an answer wrong is tried last: small whole numbers that are
answered rightly are multiplied by powers of two until they are answered wrongly, or those of the
failing case are divided until they are answered rightly. Between the two, the turn is looked for
by halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnspec.core.declaration import Limits
from attnspec.core.keyword import Acts
from attnspec.core.keywords import BESIDE, CACHED, KEYWORDS, OFF, VALUED, acting_on
from attnspec.core.nouns import DType
from attnspec.diagnosis.tolerance import ComparisonStandard
from attnspec.numerics.expectation import Expectation, expect, inner_problem
from attnspec.numerics.operands import prepare_operands
from attnspec.numerics.reference import compute_truth, wide_float
from attnspec.problems.keyword_arrays import replace_values
from attnspec.problems.make import RotaryProblem, make_problem
from attnspec.problems.problem import Array, LayerProblem, Problem, Recipe, Sizes, join_past
from attnspec.record.outcome import MAGNITUDE_CAUSE
from attnspec.trials.judging import Ending, LoggedCall, log_call
from attnspec.vocabulary.observables import relative_logits
from attnspec.vocabulary.scene import AnyProblem

MOST_DOUBLINGS = 24
HALVINGS = 5
"""Between a number that is answered rightly and twice as much, the turn is told to 3 %."""

LEAST_LOGIT = 1.0
"""With logits below it all weights are nearly the same, and few mistakes show."""

LEAST_VALUE = float(np.finfo(np.float32).tiny)
"""Smaller values lose their digits one by one: there it is rounding that shows, and no magnitude."""


@dataclass(frozen=True, slots=True)
class Magnitude:
    """A number that may be made larger: what it is called, its least that can show anything, how
    it is read and multiplied by a factor.
    """

    name: str
    stage: str
    least: float
    read_magnitude: Callable[[Problem], float]
    multiply: Callable[[Problem, float], Problem]


def _largest_logit(problem: Problem) -> float:
    """The largest q·k / sqrt(D), or as the scale says, whether or not its key is visible."""
    whole = join_past(problem)
    key = np.repeat(whole.key.astype(np.float64), whole.query.shape[1] // whole.key.shape[1],
                    axis=1)
    scale = problem.scale if problem.scale is not None else problem.query.shape[-1] ** -0.5
    return float(np.abs(whole.query.astype(np.float64) @ key.swapaxes(-1, -2)).max() * abs(scale))


def _multiply_query(problem: Problem, factor: float) -> Problem:
    return problem.but(query=problem.query * problem.query.dtype.type(factor))


def _multiply_value(problem: Problem, factor: float) -> Problem:
    return problem.but(value=problem.value * problem.value.dtype.type(factor))


MAGNITUDES = (Magnitude("logit", "logits", LEAST_LOGIT, _largest_logit, _multiply_query),
              Magnitude("value", "values", LEAST_VALUE,
                        lambda problem: float(np.abs(join_past(problem).value).max()),
                        _multiply_value))


def blamed_magnitude(is_right: Callable[[Problem], bool | None], small: Problem,
                     failing: Problem) -> str:
    """The magnitude from which on answers are wrong, as a sentence; "" if none is.

    is_right: whether a problem is answered rightly; None where that cannot be said.  small: a
    problem that is.
    """
    with np.errstate(all="ignore"):
        return next(_find_turns(is_right, small, failing), "")


def _find_turns(is_right: Callable[[Problem], bool | None], small: Problem,
                failing: Problem) -> Iterator[str]:
    for knob in MAGNITUDES:
        # small numbers first: they are right by now, and a turn that they show has nothing else in
        # it
        turn = (_double_until_wrong(is_right, knob, small, knob.read_magnitude(failing))
                or _halve_until_right(is_right, knob, failing))
        if turn and turn[0] >= knob.least:
            holds, fails = turn
            yield (f"{MAGNITUDE_CAUSE}{knob.name} is {fails:.3g} or more, "
                   f"and right where it is {holds:.3g} "
                   f"({knob.stage})")
    for name in VALUED.keys() & failing.keywords | ({"scale"} & failing.keywords):
        yield from _find_keyword_turn(is_right, name, failing)


def _double_until_wrong(is_right: Callable[[Problem], bool | None], knob: Magnitude,
                        small: Problem, most: float) -> tuple[float, float] | None:
    """The largest magnitude that is answered rightly, and the least that is not: of a problem that
    begins right.
    """
    if knob.read_magnitude(small) == 0 or not is_right(small):
        return None
    factor = 1.0
    # numbers far larger than those of the failing case are no reason for its failure
    while factor <= 2.0**MOST_DOUBLINGS and knob.read_magnitude(small) * factor <= 2 * most:
        if is_right(knob.multiply(small, 2 * factor)) is False:
            return _bisect_magnitude(is_right, knob, small, (factor, 2 * factor))
        factor *= 2
    return None


def _halve_until_right(is_right: Callable[[Problem], bool | None], knob: Magnitude,
                       failing: Problem) -> tuple[float, float] | None:
    """The same of a problem that is answered wrongly."""
    if knob.read_magnitude(failing) == 0 or is_right(failing) is not False:
        return None
    factor = 1.0
    # below its least, a magnitude shows nothing, so that all would seem right
    while (knob.read_magnitude(failing) * factor / 2 >= knob.least
           and factor > 2.0**-MOST_DOUBLINGS):
        if is_right(knob.multiply(failing, factor / 2)):
            return _bisect_magnitude(is_right, knob, failing, (factor / 2, factor))
        factor /= 2
    return None


def _bisect_magnitude(is_right: Callable[[Problem], bool | None], knob: Magnitude,
                      problem: Problem, between: tuple[float, float]) -> tuple[float, float]:
    low, high = between
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_right(knob.multiply(problem, middle)) else (low, middle)
    return knob.read_magnitude(problem) * low, knob.read_magnitude(problem) * high


def _find_keyword_turn(is_right: Callable[[Problem], bool | None], name: str,
                       failing: Problem) -> Iterator[str]:
    """A number that is given: whether the answer is right at twice or at half of it, and wrong as
    it is.
    """
    value = getattr(failing, name)
    if (not isinstance(value, float) or value == OFF[name] or value <= 0
        or is_right(failing) is not False):
        return
    # a softcap may be too small or too large for the function
    for factor, beyond in ((2.0, "or less"), (0.5, "or more")):
        other = value
        for _ in range(MOST_DOUBLINGS // 4):
            other *= factor
            if is_right(failing.but(**{name: other})):
                yield (f"the answer is wrong where {name} is {other / factor:.3g} {beyond}, "
                       "and right where it is "
                       f"{other:.3g} ({name})")
                return


def _keywords_acting_on(*acts: Acts) -> tuple[str, ...]:
    """The keywords that change one of these; of two that are given together the one that has
    values.
    """
    return tuple(name for name in acting_on(*acts) if name in VALUED or name not in BESIDE)


LEAVABLE_KEYWORDS = _keywords_acting_on(Acts.VISIBILITY, Acts.LOGITS)
_HIDING_KEYWORDS = (("", "mask"),
                    *((name, KEYWORDS[name].called or name)
                      for name in _keywords_acting_on(Acts.VISIBILITY)))
_SAMPLE_VALUES = {name: KEYWORDS[name].sample for name in VALUED}

READ_WIDTH = 16
"""T = S = D = Dv of the problems that are read: every layer and every kernel with tied widths
takes them.
"""

NOTHING_SHOWS = (
    "no small test input shows it: mask, logits, scale, softmax, bias, values and heads are right "
    "on small whole numbers with D = Dv and Hkv = H, so it takes something else of this case")
BACKWARD_IS_WRONG = "the backward pass is wrong; the forward pass is right on small test inputs"

MASK_IS_INVERTED = ("the mask is read the wrong way round: True means that a query may attend "
                    "(`mask_inverted`)")
OUTPUT_IS_MIXED = "the weights are right, but the output is not weights @ value (values, merge)"
SPOILT_BEGINNING = "the answer is "
"""How it begins where keywords of the case are told without which it is answered rightly."""

LARGEST_SCALED_CASE = 2**16
"""Multiply-adds of a case beyond which its magnitudes are not tried: each takes some twenty calls."""

NONE_TAKEN = "no small test input could be tried, since the function raises {}"
SOME_TAKEN = "no small test input that could be tried shows it; on others the function raises {}"


@dataclass(frozen=True, slots=True, eq=False)
class SeenAnswer:
    """What a subject answered and what the definition says of it."""

    seen_array: Array
    expectation: Expectation

    @property
    def is_right(self) -> bool:
        """Whether every entry that is claimed lies within the subject's allowance."""
        with np.errstate(invalid="ignore"):
            near = (np.abs(self.seen_array - self.expectation.output)
                    <= self.expectation.output_allowance)
        return bool((near | ~self.expectation.claimed[..., None]).all())


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """Puts small problems to a subject.  endings: how each of them ended: "", or the exception in
    a line.
    """

    bar: ComparisonStandard
    dtype: DType
    endings: list[str] = field(default_factory=list)

    def small_problem(self, keywords: str = "", **changes: object) -> Problem:
        """Small whole numbers, and the keywords that are named."""
        named = keywords.split()
        features = frozenset({*named, *(BESIDE[name] for name in named if name in BESIDE)})
        mask = "random" if "mask" in features else "none"
        recipe = Recipe(_reading_sizes(self.bar.subject.declaration.limits), ("integers",), mask,
                        features, 1, scale=0.25, values=_SAMPLE_VALUES)
        return make_problem(recipe, self.dtype).but(**changes)

    @property
    def flat_problem(self) -> Problem:
        """Small whole numbers with a query of zeros, so that all logits are equal."""
        problem = self.small_problem()
        return problem.but(query=np.zeros_like(problem.query))

    def read_answer(self, problem: Problem) -> SeenAnswer | None:
        """What the subject answers; None where it does not take the problem, or gives no answer."""
        subject = self.bar.subject
        if subject.refuses(problem):
            return None
        step = log_call(subject, problem)
        self.endings.append(step.exception_text)
        if step.ending is not Ending.ANSWERED:
            return None
        expected = expect(problem, self.bar.precision, conventions=self.bar.conventions,
                          scale_width=subject.scale_width(problem))
        return SeenAnswer(step.answer_given.output.astype(wide_float(self.dtype)), expected)

    def read_weights(self, keywords: str = "", *, is_flat: bool = False) -> SeenAnswer | None:
        """The weights in effect; is_flat: of a query of zeros."""
        problem = self.small_problem(keywords)
        value = join_past(problem).value
        # with V = I the output is the weights
        identity = np.broadcast_to(np.eye(*value.shape[2:], dtype=value.dtype), value.shape).copy()
        query = np.zeros_like(problem.query) if is_flat else problem.query
        return self.read_answer(replace_values(problem, identity).but(query=query))


def _reading_sizes(limits: Limits) -> Sizes:
    heads, width = 1 if limits.single_head else 3, max(READ_WIDTH, limits.min_head_width)
    # a batch large enough for subjects that take no problem of few scores
    return Sizes(max(2, -(-limits.min_scores // (heads * width * width))), heads, heads, width,
                 width, width, width)


def locate_stage(bar: ComparisonStandard, dtype: DType, failing: Sequence[AnyProblem] = ()) -> str:
    """The first stage that reads wrong, in a sentence; else the keywords that a failing problem
    cannot do without.
    """
    reader = Reader(bar, dtype)
    with np.errstate(all="ignore"):
        if found := next((sentence for read in READ_OUTS for sentence in read(reader)), ""):
            return found
        nowhere = _describe_nothing_found(tuple(reader.endings))
        if nowhere == NOTHING_SHOWS and (blamed := _blamed_magnitude(reader, failing)):
            return blamed
        left_out = (sentence for problem in failing if isinstance(problem, Problem)
                    for sentence in _describe_needed_keywords(reader, problem))
        return next(left_out, nowhere)


def _blamed_magnitude(reader: Reader, failing: Sequence[AnyProblem]) -> str:
    """The magnitude from which on answers are wrong; empty where there is none, or the case is
    large.
    """
    def is_right(problem: Problem) -> bool | None:
        sight = reader.read_answer(problem)
        return sight.is_right if sight else None

    asked = (each for each in failing if isinstance(each, Problem)
             and each.query.size * each.key.shape[2] <= LARGEST_SCALED_CASE)
    return next(filter(None,
                       (blamed_magnitude(is_right, reader.small_problem(), each)
                        for each in asked)), "")


def _describe_nothing_found(endings: Sequence[str]) -> str:
    """What is said where nothing was found, which differs where the function did not answer."""
    if raised := next(filter(None, endings), ""):
        return (NONE_TAKEN if all(endings) else SOME_TAKEN).format(raised)
    return NOTHING_SHOWS


def _describe_needed_keywords(reader: Reader, problem: Problem) -> Iterator[str]:
    """A wrong answer to the case itself, and which of its keywords make it so."""
    sight = reader.read_answer(problem)
    if sight and not sight.is_right:
        # one keyword at a time: the mistake is in what makes it right to leave it out
        without = dict[str, SeenAnswer | None]()
        for name in LEAVABLE_KEYWORDS:
            if name in problem.keywords:
                absent = {each: OFF[each] for each in (name, BESIDE.get(name, name))}
                without[name] = reader.read_answer(problem.but(**absent))
        # the same keys and values, none of them handed over as past
        if past := problem.keywords & set(CACHED):
            without[min(past)] = reader.read_answer(join_past(problem))
        needed = [_narrow_keyword(reader, problem, name) for name, other in without.items()
                  if other and other.is_right]
        if not np.isfinite(sight.seen_array[sight.expectation.claimed]).all():
            what = "not finite"
        else:
            what = "wrong"
        if needed:
            yield (
                f"{SPOILT_BEGINNING}{what} here, and right once {' or '.join(needed)} is left out")


def _narrow_keyword(reader: Reader, problem: Problem, name: str) -> str:
    """The keyword; if it is a number that is not positive, and a positive one is answered rightly,
    that.
    """
    value = getattr(problem, name)
    if not isinstance(value, float) or value > 0:
        return name
    positive = reader.read_answer(problem.but(**{name: abs(value) or 1.0}))
    return f"a {name} ≤ 0" if positive and positive.is_right else name


def _read_repeated_call(reader: Reader) -> Iterator[str]:
    """The same call twice."""
    one, two = (reader.read_answer(reader.small_problem()) for _ in range(2))
    if (one and two
        and (np.abs(one.seen_array - two.seen_array)
             > 2 * one.expectation.output_allowance).any()):
        yield ("the same call gives another answer the second time (memory of earlier calls, "
               "or chance)")


def _read_mean(reader: Reader) -> Iterator[str]:
    """The mean of the values, which is the output where all logits are equal.

    Where the identity in their place is read right and they are not, columns are mixed up: what
    those below read off single columns would blame another stage.
    """
    weights, mean = reader.read_weights(is_flat=True), reader.read_answer(reader.flat_problem)
    if weights and mean and weights.is_right and not mean.is_right:
        yield OUTPUT_IS_MIXED


def _read_inverted_mask(reader: Reader) -> Iterator[str]:
    """Exactly the keys are seen that the mask hides; rows that would see none may hold anything."""
    sight = reader.read_weights("mask", is_flat=True)
    if sight and not sight.is_right:
        visible = sight.expectation.visible & sight.expectation.claimed[..., None]
        # a row that sees all keys, or none, looks alike either way round
        rows = visible.any(axis=-1) & ~visible.all(axis=-1)
        if rows.any() and ((sight.seen_array != 0) == ~visible)[rows].all():
            yield MASK_IS_INVERTED


def _read_hidden_keys(reader: Reader) -> Iterator[str]:
    """Which keys are seen: with equal logits each weighs one over their number."""
    for keyword, what in _HIDING_KEYWORDS:
        sight = reader.read_weights(keyword, is_flat=True)
        if sight and not sight.is_right:
            claimed, visible = sight.expectation.claimed[..., None], sight.expectation.visible
            # with equal logits no visible key can have a weight of exactly 0
            lost = (claimed & visible & (sight.seen_array == 0)).any()
            leaked = (claimed & ~visible & (sight.seen_array != 0)).any()
            if leaked:
                yield f"a query attends to keys that the {what} excludes ({what})"
            elif lost:
                yield ("a query does not attend to keys that it may "
                       f"see{' under the ' + what if keyword else ''} (mask)")


def _read_weight_sums(reader: Reader) -> Iterator[str]:
    """Rows of weights: whether they sum to one, whether equal logits weigh the same."""
    # equal logits first: there a wrong softmax cannot be a wrong logit
    for is_flat in (True, False):
        sight = reader.read_weights(is_flat=is_flat)
        if sight is None:
            continue
        total, claimed = sight.seen_array.sum(axis=-1), sight.expectation.claimed
        if (claimed & ~(np.abs(total - 1) <= sight.expectation.row_sum_allowance)).any():
            worst = total[claimed][np.abs(total[claimed] - 1).argmax()]
            yield f"rows of weights sum to {worst:.7g}, not to 1 (softmax)"
        elif is_flat and not sight.is_right:
            yield "equal logits get different weights (softmax)"


def _read_logit_slope(reader: Reader) -> Iterator[str]:
    """The logits seen against the true ones: their slope, and whether they lie on one line."""
    # the default scale and one that is given are two lines of code
    for keyword, what in (("", "scale"), ("scale", "explicit scale")):
        sight = reader.read_weights(keyword)
        if sight and not sight.is_right:
            yield _compare_logits(sight, "the logits", what)


def _read_bias_terms(reader: Reader) -> Iterator[str]:
    """The same with a query of zeros: what is left is the bias."""
    sight = reader.read_weights("bias", is_flat=True)
    if sight and not sight.is_right:
        yield _compare_logits(sight, "the bias terms of the logits", "bias")


def _compare_logits(sight: SeenAnswer, what: str, stage: str) -> str:
    """A factor, if one explains the logits; else the stage that spoils them."""
    expected = sight.expectation
    true, allowance = expected.logits, expected.logits_allowance
    seen = relative_logits(sight.seen_array, true)
    counts = (expected.claimed[..., None] & expected.visible & np.isfinite(allowance)
              & np.isfinite(seen))
    if not (counts & (true != 0)).any():
        return (f"{what} cannot be computed from the weights "
                f"({'logits' if stage.endswith('scale') else stage})")
    # least squares through the origin: a wrong scale is one factor
    slope = float((seen * true)[counts].sum() / (true * true)[counts].sum())
    rest = np.abs(seen - slope * true)[counts] <= (allowance * max(1.0, abs(slope)))[counts]
    if rest.all():
        return f"{what} are wrong by the factor {slope:.4g} ({stage})"
    if stage == "bias":
        return "the bias terms of the logits are wrong, and not by one factor (bias)"
    if _is_function(seen, true, allowance, counts):
        return "the weights depend on the logits alone, but are not their softmax (softmax)"
    return "the logits are wrong, and not by one factor (logits)"


def _is_function(seen: Array, true: Array, allowance: Array, counts: Array) -> bool:
    """Whether keys of one row, of (B,H,T,S), with the same true logit have the same weight, within
    both their allowances.
    """
    # whole numbers make logits that are equal exactly
    same = (true[..., :, None] == true[..., None, :]) & counts[..., :, None] & counts[..., None, :]
    near = (np.abs(seen[..., :, None] - seen[..., None, :])
            <= allowance[..., :, None] + allowance[..., None, :])
    return bool((near | ~same).all())


def _read_permuted_heads(reader: Reader) -> Iterator[str]:
    """Heads: each right in itself, and in the place of another."""
    sight = reader.read_answer(reader.small_problem())
    if sight and not sight.is_right:
        # a head that is right in another's place was merged wrongly
        order = [_find_shown_head(sight, head) for head in range(sight.seen_array.shape[1])]
        if all(owner >= 0 for owner in order):
            yield f"the heads come out in the order {', '.join(map(str, order))} (merge)"


def _read_mixed_values(reader: Reader) -> Iterator[str]:
    """The weights read right by now, so a wrong output is mixed or merged wrongly."""
    sight = reader.read_answer(reader.small_problem())
    if sight and not sight.is_right:
        yield OUTPUT_IS_MIXED


def _find_shown_head(sight: SeenAnswer, head: int) -> int:
    """The head whose true output this one shows; -1 for none."""
    truth, slack = sight.expectation.output, sight.expectation.output_allowance
    fits = [bool((np.abs(sight.seen_array[:, head] - truth[:, other]) <= slack[:, other]).all())
            for other in range(truth.shape[1])]
    return fits.index(True) if True in fits else -1


# in this order: a stage is blamed only where those before it read right
READ_OUTS: tuple[Callable[[Reader], Iterator[str]], ...] = (
    _read_repeated_call, _read_permuted_heads, _read_mean, _read_inverted_mask, _read_hidden_keys,
    _read_weight_sums, _read_logit_slope, _read_bias_terms, _read_mixed_values)


# Exponentials of the raw logits: a softmax that leaves the range of its format since no maximum is subtracted.
# The format in which a function takes exp is its own affair, and so is what it makes of 0/0, so that no fault of the
# catalogue answers as all such functions do. What they have in common is read off: equal logits weigh the same wherever
# they lie, and here they do not once their exponential overflows.


WITHOUT_MAXIMUM = "softmax_without_maximum"
"""The fault of the catalogue."""

EXP_FORMATS = (np.float16, np.float32, np.float64)
"""In which exp may be taken, the narrowest first; bfloat16 has the range of float32."""


@dataclass(frozen=True, slots=True, eq=False)
class RawExponentials:
    """A subject that takes exp of the raw logits in a format."""

    bar: ComparisonStandard
    format: np.finfo[Any]

    @classmethod
    def measure_subject(cls, bar: ComparisonStandard, dtype: DType) -> RawExponentials | None:
        """Put equal logits to the subject, beyond the range of one format after the other; None if
        all weigh alike.
        """
        reader = Reader(bar, dtype)
        # a subject that fails there has something else wrong with it
        at_zero = _read_equal_logits(reader, 0.0)
        if at_zero is None or not at_zero.is_right:
            return None
        # the narrowest first: a wider one overflows at larger logits
        formats = (np.finfo(each) for each in EXP_FORMATS)
        return next((cls(bar, each) for each in formats if _overflows(reader, each)), None)

    def wrong_calls(self, log: Sequence[LoggedCall]) -> int:
        """How many calls are answered wrongly; 0 if one is wrong in a row whose exponentials fit
        the format.
        """
        with np.errstate(all="ignore"):
            wrong = [(rows, self._find_overflowing_rows(step.problem)) for step in log
                     if step.ending is Ending.ANSWERED and (rows := self._wrong_rows(step)).any()]
        return 0 if any((rows & ~beyond).any() for rows, beyond in wrong) else len(wrong)

    def _wrong_rows(self, step: LoggedCall) -> Array:
        """(B,H,T), of a layer (B,T): rows of the output that are not right."""
        expected = self.bar.expectation_for(step.problem, self.bar.precision)
        gap = np.abs(step.answer_given.output.astype(wide_float(step.problem.dtype))
                     - expected.output)
        return np.asarray(~(gap <= expected.output_allowance).all(axis=-1)
                          & expected.output_claimed)

    def _find_overflowing_rows(self, problem: AnyProblem) -> Array:
        """(B,H,T), of a layer (B,T): rows whose sum of exponentials overflows, or is no normal
        number.
        """
        assert not isinstance(problem, RotaryProblem)  # no fault of attention stands for one
        if isinstance(problem, LayerProblem):
            return np.asarray(self._rows_beyond(inner_problem(problem), None).any(axis=1))
        return self._rows_beyond(problem, self.bar.subject.scale_width(problem))

    def _rows_beyond(self, problem: Problem, scale_width: int | None) -> Array:
        """(B,H,T)."""
        operands = prepare_operands(problem, self.bar.conventions, scale_width, None)
        logits = compute_truth(operands, np.float64).logits
        top = np.where(operands.visible_array(), logits, -np.inf).max(axis=-1, initial=-np.inf)
        # the sum of S exponentials must fit, too
        highest = np.log(float(self.format.max) / problem.sizes.S)
        # too small a sum is no normal number, and quotients with it lose their digits
        return np.asarray((top > highest) | (top < np.log(float(self.format.tiny))))


def _overflows(reader: Reader, format: np.finfo[Any]) -> bool:
    """Whether equal logits whose exponential is beyond a format give an answer that is not finite."""
    sight = _read_equal_logits(reader, 2.0 ** np.ceil(np.log2(np.log(float(format.max)))))
    return sight is not None and not np.isfinite(sight.seen_array).all()


def _read_equal_logits(reader: Reader, logit: float) -> SeenAnswer | None:
    """What the subject answers where all logits are the same number, to be a power of two or zero."""
    problem = reader.small_problem("causal" if reader.bar.subject.declaration.limits.causal_only
                                   else "")
    query, key = np.zeros_like(problem.query), np.zeros_like(problem.key)
    query[..., 0], key[..., 0] = logit, np.sqrt(reader.bar.subject.scale_width(problem))
    return reader.read_answer(problem.but(query=query, key=key))
