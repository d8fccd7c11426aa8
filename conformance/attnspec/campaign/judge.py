"""One subject on one block of cases, before the very relations that gate a check."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from attnspec.campaign.draw import Block
from attnspec.campaign.known import known
from attnspec.court.bench import SubjectBench
from attnspec.court.compile import Check
from attnspec.court.openings import seed_of
from attnspec.court.tally import Tally
from attnspec.court.trial import Trial
from attnspec.ground.nouns import Effort, Level
from attnspec.problems.recipe import Recipe
from attnspec.record.campaign import BINS, BlockJudged, bin_of
from attnspec.record.outcome import Measured
from attnspec.subjects.subject import Subject, SubjectRaised
from attnspec.vocabulary.measure import verdict

ACCUSED = 5
"""How many violations of a block are kept as lines to replay."""


@dataclass(slots=True)
class Score:
    """What a block has come to so far."""

    cases: int = 0
    slices: int = 0
    no_claims: int = 0
    violations: int = 0
    histogram: list[int] = field(default_factory=lambda: [0] * BINS)
    worst: Measured | None = None
    clause: str = ""
    recipe: str = ""
    accused: list[str] = field(default_factory=list)
    known: Counter[str] = field(default_factory=Counter)
    problems: set[str] = field(default_factory=set)

    def add(self, trial: Trial, recipe: Recipe) -> None:
        """Judge one case and count it."""
        tally = trial.put(recipe)
        self.problems.add(replace(recipe, drawn={}).text)
        finding = known(trial.bench.subject.id, tally.failing) if tally.failing else None
        if finding:
            self.known[finding.name] += 1
        elif tally.cases:
            self._count(trial, recipe, tally)
        else:
            self.no_claims += 1

    def _count(self, trial: Trial, recipe: Recipe, tally: Tally) -> None:
        self.cases += 1
        self.slices += recipe.sizes.B * recipe.sizes.H
        worst = _raised(tally.failure) if isinstance(tally.failure, SubjectRaised) else tally.worst
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


def _raised(failure: SubjectRaised) -> Measured:
    return verdict("answers", str(failure), broken=True)


def line_to_replay(trial: Trial, recipe: Recipe) -> str:
    """What `attnspec replay` takes."""
    return f"{trial.bench.subject.id} {trial.check.clause.id} {trial.bench.dtype.value} {recipe.text}"


def judge_block(block: Block, bench: SubjectBench, checks: Mapping[str, Check],
                breadcrumb: Callable[[str], None] = lambda _: None) -> BlockJudged:
    """Every clause of level must against one subject on the block's cases."""
    began, score = time.perf_counter(), Score()
    for trial, recipe in _hearings(block, bench, checks, breadcrumb):
        score.add(trial, recipe)
    return BlockJudged(
        bench.subject.id, block.dtype, block.number, score.cases, score.slices, score.no_claims, score.violations,
        tuple(score.histogram), score.worst, score.clause, score.recipe, tuple(score.accused),
        seconds=round(time.perf_counter() - began, 3), known=dict(score.known), problems=len(score.problems))


def _hearings(block: Block, bench: SubjectBench, checks: Mapping[str, Check],
              breadcrumb: Callable[[str], None]) -> Iterator[tuple[Trial, Recipe]]:
    """Recipe by recipe, the clauses of one domain together: the bench then remembers what they share."""
    put = [check for check in checks.values() if is_put(check, bench.subject)]
    for _, group in groupby(sorted(put, key=lambda check: seed_of(0, check.domain)), key=lambda check: check.domain):
        trials = [Trial(check, bench, Effort.DEFAULT, block.seed, breadcrumb) for check in group]
        cases = [block.cases(trial.check, bench.subject.declaration) for trial in trials]
        for column in zip(*cases, strict=True):
            yield from zip(trials, column, strict=True)


def is_put(check: Check, subject: Subject) -> bool:
    """Whether a clause is one of those that gate, and can be put to the subject at all."""
    return check.clause.level is Level.MUST and not check.lacking(subject)
