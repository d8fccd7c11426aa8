"""The cases of a block, drawn from its number alone, and one subject judged on them, in a worker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby

from attnspec.core.declaration import Declaration, Limits
from attnspec.core.nouns import DType, Effort, Level
from attnspec.core.plan import Plan
from attnspec.engine.summon import load_subject
from attnspec.faults.catalogue import CATALOGUE
from attnspec.numerics.expectation import Expectation
from attnspec.problems.choices import MOST_SMALL_LOGITS, Menu, shapes_for
from attnspec.problems.domain import Domain
from attnspec.problems.families import random_words
from attnspec.problems.problem import Recipe, count_logits
from attnspec.record.events import HISTOGRAM_BINS, BlockJudged
from attnspec.record.outcome import Measured, SubjectCard
from attnspec.spec.clause import Spec
from attnspec.subjects.subject import Subject, SubjectDied, SubjectRaised
from attnspec.trials.compile import Check, compile_spec
from attnspec.trials.covering_cases import FIXED_KINDS, fixed_recipes, seed_of
from attnspec.trials.evaluator import Archive, Evaluator, Memory
from attnspec.trials.judging import Tally
from attnspec.trials.trial import Trial
from attnspec.vocabulary.observables import verdict
from attnspec.vocabulary.scene import AnyProblem

from evaluation.false_alarms.bins import bin_of
from evaluation.false_alarms.rows import explaining_finding

LARGE_ONE_IN = 50
"""One case in so many is of any shape of the pool; the others are small, where a case costs a tenth."""

_BYTES, _HALF = 4, 16  # bytes in a word of the stream, and half of its bits: the range of drawn values


@dataclass(frozen=True, slots=True)
class CampaignBlock:
    """One block of a campaign: so many recipes of each domain at one dtype, drawn by the seed and the number."""

    dtype: DType
    number: int
    seed: int
    recipes: int

    def cases(self, check: Check, declaration: Declaration) -> tuple[Recipe, ...]:
        """The recipes that a clause is tried on; clauses of one domain get the same, but for their drawn values.

        Kinds that are not searched (laws of chance, documented examples) are tried once, block by block at another
        shape and with a seed of the block: so the rates of false alarms that they state are put to the test as well.
        """
        if check.domain.kind in FIXED_KINDS:
            fixed = fixed_recipes(check.domain, declaration.limits, Effort.DEFAULT, self._seed)
            return (fixed[self.number % len(fixed)],) if fixed else ()
        optional = tuple(sorted(check.domain.sometimes & declaration.keywords))
        draws = tuple(check.clause.draw)
        return tuple(replace(recipe, drawn=self._draw_integers(check.domain, index, draws))
                     for index, recipe in enumerate(_problems(self, check.domain, declaration.limits, optional)))

    @property
    def _seed(self) -> int:
        return int(random_words(self.seed, f"campaign {self.dtype.value} {self.number}", (1,))[0])

    def _draw_integers(self, domain: Domain, index: int, draws: tuple[str, ...]) -> Mapping[str, int]:
        label = self.label(domain) if draws else ""
        return {name: int(random_words(self.seed, f"{label} {index} {name}", (1,))[0] >> _HALF) for name in draws}

    def label(self, domain: Domain) -> str:
        """What tells the block's words for a domain from all others."""
        return f"campaign {self.dtype.value} {self.number} {seed_of(0, domain)}"


@lru_cache(maxsize=256)  # the clauses of a domain come one after the other, and so do subjects
def _problems(block: CampaignBlock, domain: Domain, limits: Limits, optional: tuple[str, ...]) -> tuple[Recipe, ...]:
    shapes = shapes_for(domain, limits, Effort.DEFAULT)
    small = tuple(sizes for sizes in shapes if count_logits(sizes) <= MOST_SMALL_LOGITS) or shapes
    menu, any_size = (Menu(domain, limits, offered, optional) for offered in (small, shapes))
    label, count = block.label(domain), block.recipes if shapes else 0
    rare = (random_words(block.seed, f"{label} {index} shape", (1,))[0] % LARGE_ONE_IN == 0 for index in range(count))
    return tuple(_recipe(any_size if is_any else menu, block.seed, f"{label} {index}")
                 for index, is_any in enumerate(rare))


def _recipe(menu: Menu, seed: int, label: str) -> Recipe:
    return menu.recipe(random_words(seed, label, (-(-menu.length // _BYTES),)).tobytes()[:menu.length])


ACCUSED = 5
"""How many violations of a block are kept as lines to replay."""


@dataclass(slots=True)
class BlockScore:
    """Counts what the cases of a block have come to so far."""

    cases: int = 0
    slices: int = 0
    no_claims: int = 0
    violations: int = 0
    histogram: list[int] = field(default_factory=lambda: [0] * HISTOGRAM_BINS)
    worst: Measured | None = None
    clause: str = ""
    recipe: str = ""
    accused: list[str] = field(default_factory=list)
    known: Counter[str] = field(default_factory=Counter)
    problems: set[str] = field(default_factory=set)

    def add(self, trial: Trial, recipe: Recipe) -> None:
        """Judge one case and count it."""
        tally = trial.judge_recipe(recipe)
        self.problems.add(replace(recipe, drawn={}).text)
        raised = str(tally.failure) if isinstance(tally.failure, SubjectRaised) else ""
        finding = (explaining_finding(trial.evaluator.subject.id, tally.failing_recipe,
                                      raised) if tally.failing_recipe else None)
        if finding:
            self.known[finding.id] += 1
        elif tally.cases:
            self._count(trial, recipe, tally)
        else:
            self.no_claims += 1

    def _count(self, trial: Trial, recipe: Recipe, tally: Tally) -> None:
        self.cases += 1
        self.slices += recipe.sizes.B * recipe.sizes.H
        worst = (_measured_exception(tally.failure) if isinstance(tally.failure,
                                                                  SubjectRaised | SubjectDied) else tally.worst)
        assert worst is not None  # a case counts where something was claimed
        self.histogram[bin_of(worst.margin)] += 1
        if self.worst is None or not worst.margin <= self.worst.margin:
            self.worst, self.clause, self.recipe = worst, trial.check.clause.id, recipe.text
        if tally.failure:
            self._accuse(line_to_replay(trial, recipe))

    def _accuse(self, line: str) -> None:
        self.violations += 1
        if len(self.accused) < ACCUSED:
            self.accused.append(line)


def _measured_exception(failure: SubjectRaised | SubjectDied) -> Measured:
    return verdict("answers", str(failure), broken=True)


def line_to_replay(trial: Trial, recipe: Recipe) -> str:
    """What `attnspec replay` takes."""
    return f"{trial.evaluator.subject.id} {trial.check.clause.id} {trial.evaluator.dtype.value} {recipe.text}"


def judge_block(block: CampaignBlock, evaluator: Evaluator, checks: Mapping[str, Check],
                breadcrumb: Callable[[str], None] = lambda _: None) -> BlockJudged:
    """Every clause of level must against one subject on the block's cases."""
    began, score = time.perf_counter(), BlockScore()
    for trial, recipe in _subject_runs(block, evaluator, checks, breadcrumb):
        score.add(trial, recipe)
    return BlockJudged(
        evaluator.subject.id, block.dtype, block.number, score.cases, score.slices, score.no_claims, score.violations,
        tuple(score.histogram), score.worst, score.clause, score.recipe, tuple(score.accused),
        seconds=round(time.perf_counter() - began, 3), known=dict(score.known), problems=len(score.problems))


def _subject_runs(block: CampaignBlock, evaluator: Evaluator, checks: Mapping[str, Check],
              breadcrumb: Callable[[str], None]) -> Iterator[tuple[Trial, Recipe]]:
    """Recipe by recipe, the clauses of one domain together: the evaluator then remembers what they share."""
    put = [check for check in checks.values() if is_put(check, evaluator.subject)]
    for _, group in groupby(sorted(put, key=lambda check: seed_of(0, check.domain)), key=lambda check: check.domain):
        trials = [Trial(check, evaluator, Effort.DEFAULT, block.seed, breadcrumb) for check in group]
        cases = [block.cases(trial.check, evaluator.subject.declaration) for trial in trials]
        for column in zip(*cases, strict=True):
            yield from zip(trials, column, strict=True)


def is_put(check: Check, subject: Subject) -> bool:
    """Whether a clause is one of those that gate, and can be put to the subject at all."""
    return check.clause.level is Level.MUST and not check.why_not_put(subject)


MOST = 4096
"""Problems and expectations that are kept: those of one block."""


class BlockWorker:
    """Judges blocks, and remembers subjects, their conventions, and what is right about the block at hand."""

    def __init__(self, plan: Plan, spec: Spec, recipes: int, breadcrumb: Callable[[str], None]) -> None:
        self._plan, self._spec, self._recipes, self._breadcrumb = plan, spec, recipes, breadcrumb
        self._subjects: dict[str, Subject] = {}
        self._conventions: dict[tuple[str, DType], Mapping[str, str]] = {}
        self._block: CampaignBlock | None = None
        self._problems: dict[Limits | None, Memory[AnyProblem]] = {}
        self._shared_by, self._expectations = "", Memory[Expectation](MOST)

    @cached_property
    def _checks(self) -> Mapping[str, Check]:
        return compile_spec(self._spec, faults=CATALOGUE.keys())

    def card(self, target: str) -> SubjectCard:
        """What a report says of a subject. Raises AttnspecError where it cannot be had."""
        return self._subject(target).card({}, {})

    def judge(self, target: str, dtype: DType, number: int) -> BlockJudged:
        """One block. Raises AttnspecError where the subject cannot be had."""
        block, subject = CampaignBlock(dtype, number, self._plan.seed, self._recipes), self._subject(target)
        subject.callee.begin_item()
        judged = judge_block(block, self._evaluator(subject, block), self._checks, self._breadcrumb)
        subject.callee.forget()
        return judged

    def _subject(self, target: str) -> Subject:
        if target not in self._subjects:
            self._subjects[target] = load_subject(target, self._plan)
        return self._subjects[target]

    def _evaluator(self, subject: Subject, block: CampaignBlock) -> Evaluator:
        plain = Evaluator(subject, block.dtype, self._conventions.get((subject.id, block.dtype)))
        self._conventions[subject.id, block.dtype] = plain.conventions
        return Evaluator(subject, block.dtype, plain.conventions, archive=self._shared_archive(plain, block))

    def _shared_archive(self, evaluator: Evaluator, block: CampaignBlock) -> Archive:
        """Problems, for the whole block; what the definition says of them, for neighbours whom it tells the same."""
        if block != self._block:
            self._block, self._problems = block, {}
        shared_by = f"{block} {evaluator.shared_by}"
        if shared_by != self._shared_by:
            self._shared_by, self._expectations = shared_by, Memory(MOST)
        return Archive(self._problems.setdefault(evaluator.limits, Memory(MOST)), self._expectations)
