"""Finds the stage of a mistake that no fault of the catalogue explains: stage after stage is read
off the subject's answers.

With values that are the identity the output shows the weights; with a query of zeros all logits
are equal; entries are small whole numbers, so that dot products are exact. What is read is held to
the bound of numerics/, nothing else.

Whether large numbers make an answer wrong is tried last: small whole numbers that are answered
rightly are multiplied by powers of two until they are answered wrongly, or those of the failing
case are divided until they are answered rightly. The turn between the two is looked for by halves.
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
"""Between a number that is answered rightly and twice as much, the turn is found to 3 %."""

LEAST_LOGIT = 1.0
"""With logits below it all weights are nearly the same, and few mistakes show."""

LEAST_VALUE = float(np.finfo(np.float32).tiny)
"""Smaller values lose their digits one by one: what fails there is rounding."""


@dataclass(frozen=True, slots=True)
class Magnitude:
    """A number of a problem that can be scaled.

    least: the smallest that can show anything.  read_magnitude: the number of a problem.
    multiply: the problem with the number times a factor.
    """

    name: str
    stage: str
    least: float
    read_magnitude: Callable[[Problem], float]
    multiply: Callable[[Problem, float], Problem]


def _largest_logit(problem: Problem) -> float:
    """The largest q·k·scale, whether or not its key is visible."""
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
    """The magnitude from which on answers are wrong, as a sentence; "" if there is none.

    is_right: whether a problem is answered rightly; None where that cannot be said.  small: a
    problem that is answered rightly.
    """
    with np.errstate(all="ignore"):
        return next(_find_turns(is_right, small, failing), "")


def _find_turns(is_right: Callable[[Problem], bool | None], small: Problem,
                failing: Problem) -> Iterator[str]:
    for magnitude in MAGNITUDES:
        # small numbers first: they are right by now, so that nothing else can make them wrong
        turn = (_double_until_wrong(is_right, magnitude, small, magnitude.read_magnitude(failing))
                or _halve_until_right(is_right, magnitude, failing))
        if turn and turn[0] >= magnitude.least:
            holds, fails = turn
            yield (f"{MAGNITUDE_CAUSE}{magnitude.name} is {fails:.3g} or more, "
                   f"and right where it is {holds:.3g} ({magnitude.stage})")
    for name in VALUED.keys() & failing.keywords | ({"scale"} & failing.keywords):
        yield from _find_keyword_turn(is_right, name, failing)


def _double_until_wrong(is_right: Callable[[Problem], bool | None], magnitude: Magnitude,
                        small: Problem, most: float) -> tuple[float, float] | None:
    """The largest magnitude that is answered rightly, and the least that is not.

    small: a problem that is answered rightly at first.
    """
    if magnitude.read_magnitude(small) == 0 or not is_right(small):
        return None
    factor = 1.0
    # numbers far larger than those of the failing case are no reason for its failure
    while factor <= 2.0**MOST_DOUBLINGS and magnitude.read_magnitude(small) * factor <= 2 * most:
        if is_right(magnitude.multiply(small, 2 * factor)) is False:
            return _bisect_magnitude(is_right, magnitude, small, (factor, 2 * factor))
        factor *= 2
    return None


def _halve_until_right(is_right: Callable[[Problem], bool | None], magnitude: Magnitude,
                       failing: Problem) -> tuple[float, float] | None:
    """The same, from a problem that is answered wrongly."""
    if magnitude.read_magnitude(failing) == 0 or is_right(failing) is not False:
        return None
    factor = 1.0
    # below its least, a magnitude shows nothing, so that all would seem right
    while (magnitude.read_magnitude(failing) * factor / 2 >= magnitude.least
           and factor > 2.0**-MOST_DOUBLINGS):
        if is_right(magnitude.multiply(failing, factor / 2)):
            return _bisect_magnitude(is_right, magnitude, failing, (factor / 2, factor))
        factor /= 2
    return None


def _bisect_magnitude(is_right: Callable[[Problem], bool | None], magnitude: Magnitude,
                      problem: Problem, bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = bounds
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if is_right(magnitude.multiply(problem, middle)):
            low = middle
        else:
            high = middle
    return magnitude.read_magnitude(problem) * low, magnitude.read_magnitude(problem) * high


def _find_keyword_turn(is_right: Callable[[Problem], bool | None], name: str,
                       failing: Problem) -> Iterator[str]:
    """Whether the answer is right with twice or half of a keyword's number, and wrong with it."""
    value = getattr(failing, name)
    if (not isinstance(value, float) or value == OFF[name] or value <= 0
        or is_right(failing) is not False):
        return
    # a softcap may be too small or too large for the function
    for factor, side in ((2.0, "or less"), (0.5, "or more")):
        other = value
        for _ in range(MOST_DOUBLINGS // 4):
            other *= factor
            if is_right(failing.but(**{name: other})):
                yield (f"the answer is wrong where {name} is {other / factor:.3g} {side}, "
                       f"and right where it is {other:.3g} ({name})")
                return


def _keywords_acting_on(*acts: Acts) -> tuple[str, ...]:
    """The keywords that change one of these; of two that go together, the one with values."""
    return tuple(name for name in acting_on(*acts) if name in VALUED or name not in BESIDE)


LEAVABLE_KEYWORDS = _keywords_acting_on(Acts.VISIBILITY, Acts.LOGITS)
_HIDING_KEYWORDS = (("", "mask"),
                    *((name, KEYWORDS[name].called or name)
                      for name in _keywords_acting_on(Acts.VISIBILITY)))
_SAMPLE_VALUES = {name: KEYWORDS[name].sample for name in VALUED}

READ_WIDTH = 16
"""T = S = D = Dv of the problems that are read, which kernels with tied widths take, too."""

NOTHING_SHOWS = (
    "no small test input shows it: mask, logits, scale, softmax, bias, values and heads are right "
    "on small whole numbers with D = Dv and Hkv = H, so it takes something else of this case")
BACKWARD_IS_WRONG = "the backward pass is wrong; the forward pass is right on small test inputs"

MASK_IS_INVERTED = ("the mask is read the wrong way round: True means that a query may attend "
                    "(`mask_inverted`)")
OUTPUT_IS_MIXED = "the weights are right, but the output is not weights @ value (values, merge)"
SPOILT_BEGINNING = "the answer is "
"""How the sentence begins that names keywords without which the case is answered rightly."""

LARGEST_SCALED_CASE = 2**16
"""Multiply-adds of a case beyond which its magnitudes are not tried: each takes some 20 calls."""

NONE_TAKEN = "no small test input could be tried, since the function raises {}"
SOME_TAKEN = "no small test input that could be tried shows it; on others the function raises {}"


@dataclass(frozen=True, slots=True, eq=False)
class SeenAnswer:
    """An answer of the subject, with what the definition says about it."""

    seen_array: Array
    expectation: Expectation

    @property
    def is_right(self) -> bool:
        """Whether every entry that is claimed lies within the subject's allowance."""
        with np.errstate(invalid="ignore"):
            gap = np.abs(self.seen_array - self.expectation.output)
            is_near = gap <= self.expectation.output_allowance
        return bool((is_near | ~self.expectation.claimed[..., None]).all())


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """Puts small problems to a subject.

    endings: how each call ended: "", or the exception in a line.
    """

    bar: ComparisonStandard
    dtype: DType
    endings: list[str] = field(default_factory=list)

    def small_problem(self, keywords: str = "", **changes: object) -> Problem:
        """A problem of small whole numbers, with the keywords that are named."""
        names = set(keywords.split())
        features = frozenset(names | {BESIDE[name] for name in names & BESIDE.keys()})
        mask = "random" if "mask" in features else "none"
        recipe = Recipe(_reading_sizes(self.bar.subject.declaration.limits), ("integers",), mask,
                        features, 1, scale=0.25, values=_SAMPLE_VALUES)
        return make_problem(recipe, self.dtype).but(**changes)

    @property
    def flat_problem(self) -> Problem:
        """A problem of small whole numbers whose query is zeros, so that all logits are equal."""
        problem = self.small_problem()
        return problem.but(query=np.zeros_like(problem.query))

    def read_answer(self, problem: Problem) -> SeenAnswer | None:
        """The subject's answer; None where it refuses the problem, or gives no answer."""
        subject = self.bar.subject
        if subject.refuses(problem):
            return None
        step = log_call(subject, problem)
        self.endings.append(step.exception_text)
        if step.ending is not Ending.ANSWERED:
            return None
        expectation = expect(problem, self.bar.precision, conventions=self.bar.conventions,
                          scale_width=subject.scale_width(problem))
        return SeenAnswer(step.answer_given.output.astype(wide_float(self.dtype)), expectation)

    def read_weights(self, keywords: str = "", *, is_flat: bool = False) -> SeenAnswer | None:
        """The weights in effect.  is_flat: with a query of zeros."""
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
    """The first stage that reads wrong, in a sentence.

    Where none does, the magnitude, or the keywords, that a failing problem cannot do without.
    """
    reader = Reader(bar, dtype)
    with np.errstate(all="ignore"):
        for read in READ_OUTS:
            for sentence in read(reader):
                return sentence
        nowhere = _describe_nothing_found(reader.endings)
        problems = [each for each in failing if isinstance(each, Problem)]
        if nowhere == NOTHING_SHOWS and (magnitude := _blamed_magnitude(reader, problems)):
            return magnitude
        for problem in problems:
            for sentence in _describe_needed_keywords(reader, problem):
                return sentence
        return nowhere


def _blamed_magnitude(reader: Reader, failing: Sequence[Problem]) -> str:
    """The magnitude from which on answers are wrong; empty where none is to blame."""
    def is_right(problem: Problem) -> bool | None:
        reading = reader.read_answer(problem)
        return reading.is_right if reading else None

    for problem in failing:
        is_cheap = problem.query.size * problem.key.shape[2] <= LARGEST_SCALED_CASE
        if is_cheap and (sentence := blamed_magnitude(is_right, reader.small_problem(), problem)):
            return sentence
    return ""


def _describe_nothing_found(endings: Sequence[str]) -> str:
    """What is said where nothing was found; it differs where the function raised."""
    exceptions = [each for each in endings if each]
    if not exceptions:
        return NOTHING_SHOWS
    words = NONE_TAKEN if len(exceptions) == len(endings) else SOME_TAKEN
    return words.format(exceptions[0])


def _describe_needed_keywords(reader: Reader, problem: Problem) -> Iterator[str]:
    """The keywords without which a wrongly answered problem is answered rightly."""
    reading = reader.read_answer(problem)
    if not reading or reading.is_right:
        return
    # one keyword at a time: the mistake is in what makes it right to leave it out
    answers = dict[str, SeenAnswer | None]()
    for name in LEAVABLE_KEYWORDS:
        if name in problem.keywords:
            absent = {each: OFF[each] for each in (name, BESIDE.get(name, name))}
            answers[name] = reader.read_answer(problem.but(**absent))
    # the same keys and values, none of them handed over as past
    if past := problem.keywords & set(CACHED):
        answers[min(past)] = reader.read_answer(join_past(problem))
    culprits = " or ".join(_narrow_keyword(reader, problem, name)
                           for name, answer in answers.items() if answer and answer.is_right)
    if culprits:
        is_finite = np.isfinite(reading.seen_array[reading.expectation.claimed]).all()
        what = "wrong" if is_finite else "not finite"
        yield f"{SPOILT_BEGINNING}{what} here, and right once {culprits} is left out"


def _narrow_keyword(reader: Reader, problem: Problem, name: str) -> str:
    """The keyword; `a softcap ≤ 0` if it is, and a positive one is answered rightly."""
    value = getattr(problem, name)
    if not isinstance(value, float) or value > 0:
        return name
    positive = reader.read_answer(problem.but(**{name: abs(value) or 1.0}))
    return f"a {name} ≤ 0" if positive and positive.is_right else name


def _read_repeated_call(reader: Reader) -> Iterator[str]:
    """Whether the same call gets the same answer twice."""
    one, two = (reader.read_answer(reader.small_problem()) for _ in range(2))
    if one and two:
        gap = np.abs(one.seen_array - two.seen_array)
        if (gap > 2 * one.expectation.output_allowance).any():
            yield ("the same call gives another answer the second time (memory of earlier calls, "
                   "or chance)")


def _read_mean(reader: Reader) -> Iterator[str]:
    """Whether the output is the mean of the values where all logits are equal.

    Where the weights read right and the mean does not, columns are mixed up: what is read off
    single columns later would blame another stage.
    """
    weights, mean = reader.read_weights(is_flat=True), reader.read_answer(reader.flat_problem)
    if weights and mean and weights.is_right and not mean.is_right:
        yield OUTPUT_IS_MIXED


def _read_inverted_mask(reader: Reader) -> Iterator[str]:
    """Whether exactly the keys are seen that the mask hides.

    Rows that would see none may hold anything.
    """
    reading = reader.read_weights("mask", is_flat=True)
    if reading and not reading.is_right:
        visible = reading.expectation.visible & reading.expectation.claimed[..., None]
        # a row that sees all keys, or none, looks alike either way round
        rows = visible.any(axis=-1) & ~visible.all(axis=-1)
        if rows.any() and ((reading.seen_array != 0) == ~visible)[rows].all():
            yield MASK_IS_INVERTED


def _read_hidden_keys(reader: Reader) -> Iterator[str]:
    """Whether only visible keys are seen: with equal logits each weighs one over their number."""
    for keyword, what in _HIDING_KEYWORDS:
        reading = reader.read_weights(keyword, is_flat=True)
        if reading and not reading.is_right:
            is_claimed, visible = reading.expectation.claimed[..., None], reading.expectation.visible
            if (is_claimed & ~visible & (reading.seen_array != 0)).any():
                yield f"a query attends to keys that the {what} excludes ({what})"
            # with equal logits no visible key can have a weight of exactly 0
            elif (is_claimed & visible & (reading.seen_array == 0)).any():
                place = f" under the {what}" if keyword else ""
                yield f"a query does not attend to keys that it may see{place} (mask)"


def _read_weight_sums(reader: Reader) -> Iterator[str]:
    """Whether rows of weights sum to one, and equal logits weigh the same."""
    # equal logits first: there a wrong softmax cannot be a wrong logit
    for is_flat in (True, False):
        reading = reader.read_weights(is_flat=is_flat)
        if reading is None:
            continue
        total, is_claimed = reading.seen_array.sum(axis=-1), reading.expectation.claimed
        if (is_claimed & ~(np.abs(total - 1) <= reading.expectation.row_sum_allowance)).any():
            worst = total[is_claimed][np.abs(total[is_claimed] - 1).argmax()]
            yield f"rows of weights sum to {worst:.7g}, not to 1 (softmax)"
        elif is_flat and not reading.is_right:
            yield "equal logits get different weights (softmax)"


def _read_logit_slope(reader: Reader) -> Iterator[str]:
    """Whether the logits seen are the true ones, or a multiple of them."""
    # the default scale and one that is given are two lines of code
    for keyword, what in (("", "scale"), ("scale", "explicit scale")):
        reading = reader.read_weights(keyword)
        if reading and not reading.is_right:
            yield _compare_logits(reading, "the logits", what)


def _read_bias_terms(reader: Reader) -> Iterator[str]:
    """The same with a query of zeros, which leaves the bias alone."""
    reading = reader.read_weights("bias", is_flat=True)
    if reading and not reading.is_right:
        yield _compare_logits(reading, "the bias terms of the logits", "bias")


def _compare_logits(reading: SeenAnswer, what: str, stage: str) -> str:
    """The factor by which the logits are wrong; else the stage that spoils them."""
    expectation = reading.expectation
    true, allowance = expectation.logits, expectation.logits_allowance
    seen_logits = relative_logits(reading.seen_array, true)
    counts = (expectation.claimed[..., None] & expectation.visible & np.isfinite(allowance)
              & np.isfinite(seen_logits))
    if not (counts & (true != 0)).any():
        blamed_stage = "logits" if stage.endswith("scale") else stage
        return f"{what} cannot be computed from the weights ({blamed_stage})"
    # least squares through the origin: a wrong scale is one factor
    slope = float((seen_logits * true)[counts].sum() / (true * true)[counts].sum())
    rest = np.abs(seen_logits - slope * true)[counts] <= (allowance * max(1.0, abs(slope)))[counts]
    if rest.all():
        return f"{what} are wrong by the factor {slope:.4g} ({stage})"
    if stage == "bias":
        return "the bias terms of the logits are wrong, and not by one factor (bias)"
    if _is_function_of_logits(seen_logits, true, allowance, counts):
        return "the weights depend on the logits alone, but are not their softmax (softmax)"
    return "the logits are wrong, and not by one factor (logits)"


def _is_function_of_logits(seen_logits: Array, true: Array, allowance: Array, counts: Array) -> bool:
    """Whether, in a row of (B,H,T,S), equal true logits have equal weights within rounding."""
    # whole numbers make logits that are equal exactly
    same = (true[..., :, None] == true[..., None, :]) & counts[..., :, None] & counts[..., None, :]
    is_near = (np.abs(seen_logits[..., :, None] - seen_logits[..., None, :])
            <= allowance[..., :, None] + allowance[..., None, :])
    return bool((is_near | ~same).all())


def _read_permuted_heads(reader: Reader) -> Iterator[str]:
    """Whether heads come out in another order, each right in itself."""
    reading = reader.read_answer(reader.small_problem())
    if reading and not reading.is_right:
        # a head that is right in another's place was merged wrongly
        order = [_find_shown_head(reading, head) for head in range(reading.seen_array.shape[1])]
        if all(owner >= 0 for owner in order):
            yield f"the heads come out in the order {', '.join(map(str, order))} (merge)"


def _read_mixed_values(reader: Reader) -> Iterator[str]:
    """Whether the output is wrong though the weights, read before, are right."""
    reading = reader.read_answer(reader.small_problem())
    if reading and not reading.is_right:
        yield OUTPUT_IS_MIXED


def _find_shown_head(reading: SeenAnswer, head: int) -> int:
    """The head whose true output stands in this head's place; -1 for none."""
    truth, slack = reading.expectation.output, reading.expectation.output_allowance
    fits = [bool((np.abs(reading.seen_array[:, head] - truth[:, other]) <= slack[:, other]).all())
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
"""The name of the fault in the catalogue."""

EXP_FORMATS = (np.float16, np.float32, np.float64)
"""Formats in which exp may be taken, the narrowest first. bfloat16 has the range of float32."""


@dataclass(frozen=True, slots=True, eq=False)
class RawExponentials:
    """A subject that takes exp of the raw logits in this format."""

    bar: ComparisonStandard
    format: np.finfo[Any]

    @classmethod
    def measure_subject(cls, bar: ComparisonStandard, dtype: DType) -> RawExponentials | None:
        """Puts equal logits beyond the range of one format after the other to the subject.

        None if all are answered with finite numbers, or logits of zero are not answered rightly.
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
        """How many calls are answered wrongly.

        0 if one is wrong in a row whose exponentials fit the format.
        """
        calls = 0
        with np.errstate(all="ignore"):
            for step in log:
                if step.ending is not Ending.ANSWERED:
                    continue
                wrong_rows = self._wrong_rows(step)
                if not wrong_rows.any():
                    continue
                if (wrong_rows & ~self._find_overflowing_rows(step.problem)).any():
                    return 0
                calls += 1
        return calls

    def _wrong_rows(self, step: LoggedCall) -> Array:
        """(B,H,T), of a layer (B,T): rows of the output that are not right."""
        expectation = self.bar.expectation_for(step.problem, self.bar.precision)
        gap = np.abs(step.answer_given.output.astype(wide_float(step.problem.dtype))
                     - expectation.output)
        is_right = (gap <= expectation.output_allowance).all(axis=-1)
        return np.asarray(~is_right & expectation.output_claimed)

    def _find_overflowing_rows(self, problem: AnyProblem) -> Array:
        """(B,H,T), of a layer (B,T): rows whose sum of exponentials overflows or is subnormal."""
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
    """Whether the answer is not finite where the logits' exponential exceeds the format."""
    reading = _read_equal_logits(reader, 2.0 ** np.ceil(np.log2(np.log(float(format.max)))))
    return reading is not None and not np.isfinite(reading.seen_array).all()


def _read_equal_logits(reader: Reader, logit: float) -> SeenAnswer | None:
    """The answer where all logits are one number, a power of two or zero."""
    is_causal = reader.bar.subject.declaration.limits.causal_only
    problem = reader.small_problem("causal" if is_causal else "")
    query, key = np.zeros_like(problem.query), np.zeros_like(problem.key)
    query[..., 0], key[..., 0] = logit, np.sqrt(reader.bar.subject.scale_width(problem))
    return reader.read_answer(problem.but(query=query, key=key))
