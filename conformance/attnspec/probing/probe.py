"""Asks a subject and its variants all questions, and compares them where a switch is flipped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from attnspec.core.conventions import UNDEFINED
from attnspec.core.keywords import load_parts
from attnspec.core.nouns import DType, Effort, Kind
from attnspec.core.plan import Plan
from attnspec.engine.summon import load_subject
from attnspec.numerics.expectation import expect, expect_layer
from attnspec.problems.make import make_layer, make_problem, model_width
from attnspec.problems.problem import Array, LayerProblem, Problem, Recipe, Sizes
from attnspec.questions import inputs, numbers, undeclared
from attnspec.questions.asker import AnyProblem, Asker, Failed, NotAsked, Question, Reply, When, reply_to, show_numbers
from attnspec.questions.inputs import grouped_problem, hide_last_key, hide_row, mask_drops
from attnspec.questions.numbers import LONG_LENGTHS, normal_problem
from attnspec.record.events import Found, SubjectProbed
from attnspec.subjects.subject import Subject
from attnspec.trials.evaluator import Evaluator

AGREE, DIFFER = "agree", "differ"


@dataclass(frozen=True, slots=True)
class SwitchFlip:
    """A problem on which a switch is flipped.

    settled_convention: the convention, and its form, that the answer rests on.  is_implied:
    whether others ask the same and more; a glance leaves it out.
    """

    name: str
    problem_text: str
    pose: Callable[[Asker], AnyProblem]
    settled_convention: tuple[str, str] = ("", "")
    is_implied: bool = False

    @property
    def question_text(self) -> str:
        """Returns the question."""
        return f"Does the variant give the same answer as the subject itself: {self.problem_text}?"


def _masked_problem(asker: Asker) -> Problem:
    problem = normal_problem(asker, 4, 4)
    return problem.but(mask=asker.as_mask(asker.fit_rows(_SPOTTED_MASK), problem))


def _biased_problem(asker: Asker) -> Problem:
    problem = normal_problem(asker, 4, 4)
    return problem.but(bias=asker.as_bias((np.arange(16).reshape(4, 4) % 5 - 2) / 2, problem))


def _grouped_normal_problem(asker: Asker) -> Problem:
    return make_problem(Recipe(grouped_problem(asker).sizes, ("normal",), "none", frozenset(),
                               seed=1), asker.dtype)


def _self_problem(asker: Asker, **features: bool) -> LayerProblem:
    """Makes a layer's own problem: one array is query, key and value."""
    if asker.subject.declaration.kind is not Kind.LAYER:
        raise NotAsked("it is not a layer")
    limits = asker.subject.declaration.limits
    sizes = Sizes(2, asker.heads, asker.heads, 4, 4, asker.width, asker.width)
    recipe = Recipe(sizes, ("normal",), "none", frozenset(), 1, M=model_width(sizes, limits),
                    inputs="one")
    problem = make_layer(recipe, asker.dtype, limits=limits)
    return problem.but(key=problem.query, value=problem.query, **features)


def _masked_self_problem(asker: Asker, visible: Array) -> LayerProblem:
    """Makes a layer's own problem with the mask (T,S) for every head, as the subject takes it."""
    problem = _self_problem(asker)
    shape = (2, asker.heads, 1, 1)
    return problem.but(mask=np.tile(asker.fit_rows(visible) ^ asker.drops, shape))


_SPOTTED_MASK = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]], bool)
_MASK_WITHOUT_ROWS = np.tile(np.array([[False], [False], [True], [True]]), (1, 4))

SWITCH_FLIPS: tuple[SwitchFlip, ...] = (
    SwitchFlip("plain", "T = S = 4", lambda asker: normal_problem(asker, 4, 4), is_implied=True),
    SwitchFlip("long", "T = S = 45", lambda asker: normal_problem(asker, *LONG_LENGTHS)),
    SwitchFlip("one_key", "T = S = 1", lambda asker: normal_problem(asker, 1, 1)),
    SwitchFlip("longer_keys", "T = 2, S = 5", lambda asker: normal_problem(asker, 2, 5),
               is_implied=True),
    SwitchFlip("longer_queries", "T = 5, S = 2", lambda asker: normal_problem(asker, 5, 2),
               is_implied=True),
    SwitchFlip("causal", "causal, T = S",
               lambda asker: normal_problem(asker, 4, 4).but(causal=True), is_implied=True),
    SwitchFlip("causal_longer_keys", "causal, T = 2, S = 5",
               lambda asker: normal_problem(asker, 2, 5).but(causal=True),
               ("causal_alignment", "")),
    SwitchFlip("causal_longer_queries", "causal, T = 5, S = 2",
               lambda asker: normal_problem(asker, 5, 2).but(causal=True),
               ("causal_alignment", "")),
    SwitchFlip("mask", "a mask", _masked_problem),
    SwitchFlip("mask_causal", "a mask and the causal flag",
               lambda asker: _masked_problem(asker).but(causal=True), ("mask_with_causal", "")),
    SwitchFlip("mask_hidden_row", "a mask that hides a row",
               lambda asker: hide_row(asker, normal_problem(asker, 4, 4), "mask"),
               ("hidden_row", "mask")),
    SwitchFlip("bias", "a bias", _biased_problem),
    SwitchFlip("bias_hiding", "a bias of -inf",
               lambda asker: hide_last_key(asker, normal_problem(asker, 4, 4), "bias")),
    SwitchFlip("bias_causal", "a bias and the causal flag",
               lambda asker: _biased_problem(asker).but(causal=True), ("mask_with_causal", "")),
    SwitchFlip("bias_hidden_row", "a bias of -inf that hides a row",
               lambda asker: hide_row(asker, normal_problem(asker, 4, 4), "bias"),
               ("hidden_row", "bias")),
    SwitchFlip("scale", "a scale of 0.5",
               lambda asker: normal_problem(asker, 4, 4).but(scale=0.5)),
    SwitchFlip("grouped", "two key/value heads for four query heads", _grouped_normal_problem,
               ("grouped_heads", "")),
    SwitchFlip("weights", "weights are asked for",
               lambda asker: normal_problem(asker, 4, 4).but(return_weights=True)),
    SwitchFlip("self", "one input for query, key and value", _self_problem, is_implied=True),
    SwitchFlip("self_causal", "one input, causal",
               lambda asker: _self_problem(asker, causal=True)),
    SwitchFlip("self_mask", "one input, a mask",
               lambda asker: _masked_self_problem(asker, _SPOTTED_MASK)),
    SwitchFlip("self_hidden_row", "one input, a mask that hides a row",
               lambda asker: _masked_self_problem(asker, _MASK_WITHOUT_ROWS),
               ("hidden_row", "mask")),
)


class VariantPair:
    """A subject and a variant at one dtype, each with its own precision class and conventions."""

    def __init__(self, base: Asker, variant: Asker) -> None:
        self._given = base, variant

    @cached_property
    def _judged_sides(self) -> list[tuple[Asker, Evaluator]]:
        """Returns both with what each is held to; asking that waits for a question."""
        return [(asker.with_mask_polarity(drops=mask_drops(asker)),
                 Evaluator(asker.subject, asker.dtype))
                for asker in self._given]

    def compare_flipped(self, flip: SwitchFlip) -> Reply:
        """Compares both answers. Raises NotAsked where one is not asked."""
        problem = flip.pose(self._judged_sides[0][0])
        base, variant = (_output_or_reply(asker, problem) for asker, _ in self._judged_sides)
        if isinstance(base, Reply) or isinstance(variant, Reply):
            same = isinstance(base, Reply) and isinstance(variant, Reply)
            told = f"{_describe_side(base)}, and the variant {_describe_side(variant)}"
            return Reply(AGREE if same else DIFFER, told, self._flip_claim(flip))
        differs = self._differ_beyond_bounds(base, variant, problem)
        return replace(_first_difference(base, variant, differs), claimed=self._flip_claim(flip))

    def _flip_claim(self, flip: SwitchFlip) -> str:
        """Claims agreement, unless the two declare different conventions, or none."""
        name, form = flip.settled_convention
        declared = [asker.subject.declaration.conventions for asker, _ in self._judged_sides]
        said = {each.get(f"{name}.{form}", each.get(name, UNDEFINED)) for each in declared}
        return AGREE if not name or (len(said) == 1 and UNDEFINED not in said) else ""

    def _differ_beyond_bounds(self, base: Array, variant: Array, problem: AnyProblem) -> Array:
        """Says where outputs, (B,H,T,Dv) or (B,T,M), differ by more than allowed."""
        allowed = [_output_slack(evaluator, problem, drops=asker.drops)
                   for asker, evaluator in self._judged_sides]
        with np.errstate(all="ignore"):
            near = np.abs(base - variant) <= sum(slack for slack, _ in allowed)
            near |= (base == variant) | (np.isnan(base) & np.isnan(variant))
        return np.asarray(~near & allowed[0][1] & allowed[1][1])


def _output_or_reply(asker: Asker, problem: AnyProblem) -> Array | Reply:
    """Returns the output, (B,H,T,Dv) or (B,T,M), or the reply of a call that fails."""
    try:
        return asker.ask_output(problem)
    except Failed as failed:
        return failed.reply


def _describe_side(answer: Array | Reply) -> str:
    """Describes a reply, or an output (B,H,T,Dv) or (B,T,M), in words."""
    if isinstance(answer, Reply):
        return f"{answer.answer} ({answer.detail})"
    return f"gives {show_numbers(answer)}"


def _first_difference(base: Array, variant: Array, apart: Array) -> Reply:
    """Returns the first entry of (B,H,T,Dv) or (B,T,M) that differs, and both numbers."""
    if not apart.any():
        return Reply(AGREE)
    place = tuple(int(index) for index in np.argwhere(apart)[0])
    axes = "bhtd" if apart.ndim == 4 else "btm"
    where = ", ".join(f"{axis}={index}" for axis, index in zip(axes, place, strict=True))
    return Reply(DIFFER,
                 f"at {where}: {base[place]:.6g}, and in the variant {variant[place]:.6g}; "
                         f"{int(apart.sum())} of {apart.size} entries differ")


def _output_slack(evaluator: Evaluator, problem: AnyProblem, *,
                  drops: bool) -> tuple[Array, Array]:
    """Returns how far an honest subject may be off, (B,H,T,Dv) or (B,T,M), and the rows where that
    is claimed. A row that sees nothing holds zeros, NaN or a mean, so the roundings of a mean
    bound it.
    """
    meant = problem if problem.mask is None else problem.but(mask=problem.mask ^ drops)
    if isinstance(meant, LayerProblem):
        expected = expect_layer(meant, evaluator.precision, conventions=evaluator.conventions)
        empty = np.asarray(expected.empty.any(axis=1))
    else:
        expected = expect(meant, evaluator.precision, conventions=evaluator.conventions,
                          parts=frozenset({"output"}),
                          scale_width=evaluator.subject.scale_width(meant))
        empty = np.asarray(expected.empty)
    of_mean = (meant.sizes.S + 2) * evaluator.unit() * _largest_output(meant)
    slack = np.where(empty[..., None], of_mean, expected.output_allowance)
    return np.asarray(slack, np.float64), np.asarray(expected.output_claimed | empty)[..., None]


def _largest_output(problem: AnyProblem) -> float:
    """Bounds the output by the values, and by a layer's projections of them."""
    largest = float(np.abs(problem.value.astype(np.float64)).max(initial=0.0))
    if isinstance(problem, LayerProblem):
        for name in ("value", "out"):
            weight, bias = (problem.params.get(f"{kind}_{name}") for kind in "wb")
            if weight is not None:
                largest *= float(np.abs(weight.astype(np.float64)).sum(axis=0).max())
            if bias is not None:
                largest += float(np.abs(bias.astype(np.float64)).max())
    return largest


def _questions_of_aspects(table: str) -> tuple[Question, ...]:
    """The questions that the aspects have in their tables of this name."""
    return tuple(question for part in load_parts("words")
                 for question in getattr(part, table, ()))


PLAIN_QUESTIONS: tuple[Question, ...] = (
    numbers.DETERMINISM_QUESTION, *numbers.SCALE_QUESTIONS, *inputs.HEAD_QUESTIONS,
    *numbers.WEIGHT_QUESTIONS,
    *numbers.NUMBER_QUESTIONS, *numbers.DEVICE_QUESTIONS, *undeclared.RANGE_QUESTIONS,
    *_questions_of_aspects("QUESTIONS"), inputs.MASK_POLARITY)
ROTARY_QUESTIONS = _questions_of_aspects("ROTARY_QUESTIONS")
"""The questions that are put to rotary embeddings alone."""
MASKED_QUESTIONS: tuple[Question, ...] = (
    *_questions_of_aspects("MASKED_QUESTIONS"), *numbers.PURITY_QUESTIONS,
    *numbers.BIT_QUESTIONS,
    *numbers.GRADIENT_QUESTIONS)
RISKY_QUESTIONS: tuple[Question, ...] = (
    *_questions_of_aspects("RISKY_QUESTIONS"), *inputs.SIZE_QUESTIONS, *inputs.MISMATCH_QUESTIONS)
"""The questions of which native code may die: of masks first, the least tried last."""
ALL_QUESTIONS = (*PLAIN_QUESTIONS, *MASKED_QUESTIONS, *RISKY_QUESTIONS)


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A question about to be put.  is_chance: whether chance answers, so nothing is claimed."""

    name: str
    question_text: str
    ask: Callable[[], Reply]
    claim: str = ""
    is_chance: bool = False

    def ask_question(self) -> Found | None:
        """Returns what is found; None where the question cannot be put to the subject."""
        reply = reply_to(self.ask)
        if reply is None:
            return None
        claimed = "" if self.is_chance else reply.claimed or self.claim
        return Found(self.name, self.question_text, reply.answer, reply.detail, claimed)


def probe_subject(subject: Subject, dtype: DType, *, base: Subject | None = None,
                  whole: bool = True, brief: bool = False) -> Iterator[PendingQuestion]:
    """Yields all questions of a subject at a dtype that it supports.  base: the subject whose
    variant this is, which is compared.  whole: whether to ask all questions, not only those for
    every dtype.  brief: whether to ask a variant only for differences.
    """
    asker = Asker(subject, dtype)
    if subject.declaration.kind is Kind.ROTARY:
        yield from (_pend_question(question, asker) for question in ROTARY_QUESTIONS if whole
                    or question.when is When.EVERY_DTYPE)
        return
    if brief and base is not None:
        yield from _pend_flips(base, asker.with_mask_polarity(drops=inputs.mask_drops(asker)),
                               brief=True)
        return
    if not whole:
        yield from (_pend_question(question, asker) for question in ALL_QUESTIONS
                    if question.when is When.EVERY_DTYPE)
        return
    first, *plain = PLAIN_QUESTIONS
    yield _pend_question(first, asker)
    # once the question is over: whoever dies of a call has done so
    is_chance = not numbers.is_steady(asker)
    yield from (replace(_pend_question(question, asker), is_chance=is_chance)
                for question in plain)
    asker = asker.with_mask_polarity(drops=inputs.mask_drops(asker))  # likewise, of a mask
    more = [*(_pend_question(question, asker) for question in MASKED_QUESTIONS),
            *_pend_flips(base, asker),
            *(_pend_question(question, asker) for question in RISKY_QUESTIONS)]
    yield from (replace(step, is_chance=is_chance) for step in more)


def _pend_flips(base: Subject | None, asker: Asker, *,
                brief: bool = False) -> Iterator[PendingQuestion]:
    if base is not None:
        pair = VariantPair(Asker(base, asker.dtype), asker)
        flips = [flip for flip in SWITCH_FLIPS if not (brief and flip.is_implied)]
        yield from (PendingQuestion(f"switch.{flip.name}", flip.question_text,
                                    partial(pair.compare_flipped, flip))
                    for flip in flips)


def _pend_question(question: Question, asker: Asker) -> PendingQuestion:
    claim = question.claim(asker.subject.declaration)
    return PendingQuestion(question.name, question.asks, lambda: question.ask(asker), claim)


class ProbeWorker:
    """Loads subjects, keeps them, and probes them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._subjects: dict[str, Subject] = {}

    def subject(self, target: str) -> Subject:
        """Returns the subject of this name. Raises AttnspecError where it cannot be had."""
        if target not in self._subjects:
            self._subjects[target] = load_subject(target, self._plan)
        return self._subjects[target]

    def probe(self, target: str, variant: str, dtype: DType, *, whole: bool) -> SubjectProbed:
        """Probes a subject or variant at a dtype that it supports.  whole: asks everything."""
        began = time.perf_counter()
        base = self.subject(target)
        subject = base.variant(variant) if variant else base
        found: list[Found] = []
        if dtype in subject.declaration.dtypes:
            is_brief = self._plan.effort is Effort.GLANCE
            for step in probe_subject(subject, dtype, base=base if variant else None, whole=whole,
                                      brief=is_brief):
                found += filter(None, [step.ask_question()])
        seconds = round(time.perf_counter() - began, 3)
        return SubjectProbed(target, variant, dtype, tuple(found), seconds)
