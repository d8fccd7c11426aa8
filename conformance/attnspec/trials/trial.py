"""A trial puts one clause to one subject at one dtype: it draws cases, judges, and shrinks."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attnspec.core.declaration import Limits
from attnspec.core.effort import EFFORTS
from attnspec.core.keywords import CACHED, COUNTS, VALUED
from attnspec.core.nouns import Effort, Verdict
from attnspec.core.sizes import spell_lengths
from attnspec.problems.choices import SEED_BYTES, Menu, menu_of
from attnspec.problems.domain import Domain
from attnspec.problems.keyword_arrays import count_past, keyword_array
from attnspec.problems.problem import Recipe, Sizes, count_logits
from attnspec.record.outcome import Evidence, Outcome, ProbedConvention
from attnspec.subjects.refusals import limits_without_refusals
from attnspec.subjects.subject import SubjectDied, SubjectRaised
from attnspec.trials.compile import Check
from attnspec.trials.covering_cases import Choices, choices_in_wider_menu, deal_openings, sample_openings
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import CaseJudge, Failure, Tally, TrialEnded, Violated
from attnspec.trials.paths import Paths, gentle_cases, readings_of
from attnspec.trials.sizes import COMPILED_OPENINGS, RequestedSizes, Resizer, cases_at, menu_at
from attnspec.vocabulary.scene import NO_VARIANT

SPARE_OPENINGS = 6
"""How many openings more a glance may try for each case, where nothing was claimed."""

GLANCE_ATTEMPTS = 24
"""By how many cases a failing one is shrunk at a glance."""

EXPLAINED_ATTEMPTS = 12
"""The same at any effort, of a case that is explained: its sizes are small already."""

NO_SIZE = "no size that is drawn at this effort has what the clause asks for under `given`"
NOTHING_CLAIMED = "no case of these sizes could be judged"


@dataclass(frozen=True, slots=True)
class Trial(CaseJudge):
    """A clause, a subject on its evaluator, and how hard to look: as many cases as the effort
    says, or `cases`.

    A trial that does not shrink ends at its first failure.
    max_cases: end after so many of the very same cases; 0 sets no end.  max_work: end where the
    cases have cost so much.  failed_before: a case that failed at another dtype, already shrunk;
    at a glance, or where it is explained, it stands for the one that failed if it fails here too.
    raised_before: what the subject has raised under other clauses; at a glance that is not shrunk
    again.  small_sizes: those to which failing cases of other clauses were shrunk.
    shapes: the sizes that the clause was dealt in its run; None: those that it would be dealt
    alone.  named_sizes: those that a user names, which are tried whatever they cost.
    sample: so many of the openings stand for all cases; 0: all are tried.
    tell_failure: it is told the case that fails first, before a smaller one is looked for.
    compiling_ends: how many seconds compilers may have taken in all for it to go on.
    is_explained: whether what is known of the subject explains what a case shows: then it is
    shrunk by few attempts.
    """

    cases: int = 0
    shrinks: bool = True
    max_cases: int = 0
    failed_before: Recipe | None = None
    raised_before: frozenset[str] = frozenset()
    shapes: tuple[Sizes, ...] | None = None
    max_work: float = math.inf
    named_sizes: tuple[RequestedSizes, ...] = ()
    sample: int = 0
    compiling_ends: float = math.inf
    tell_failure: Callable[[Failure, Recipe], None] = lambda _failure, _recipe: None
    small_sizes: tuple[Sizes, ...] = ()
    is_explained: Callable[[Trial, Recipe], bool] = lambda *_: False

    def hold(self) -> Tally:
        """Tries all cases; what failed is the tally's failure, on its smallest case."""
        tally = Tally()
        with contextlib.suppress(Violated, SubjectRaised, SubjectDied, TrialEnded):
            self._hold_cases(tally)
            return tally
        with contextlib.suppress(TrialEnded):
            if self.shrinks and not (self.is_glance or self.is_sparing):
                self._make_small(tally)
        return tally

    def _make_small(self, tally: Tally) -> None:
        if recipe := shrink_sizes(self.judge_recipe, tally, self.check.domain, self._limits):
            self._fails_on(recipe, tally)

    def _hold_cases(self, tally: Tally) -> None:
        fixed = self._fixed_recipes
        if self.sample and self.check.domain.kind == "features":
            fixed, tally.sample = fixed[: self.sample], self.sample
        if fixed:
            for recipe in fixed:
                if self._is_long_enough(tally):
                    break
                self._try_case(recipe, tally)
        else:
            self._search(tally)

    def _search(self, tally: Tally) -> None:
        """Openings come first. One that fails is shrunk; else Hypothesis draws the others, but not
        beside a sample.

        A glance passes over openings of which nothing can be claimed, up to SPARE of them a case.
        """
        menu = self._menu_for(self.effort)
        if menu is None or (self.check.clause.flips and not self.evaluator.variants()):
            tally.outside_reasons[self._no_shape() if menu is None else NO_VARIANT] = 1
            return
        tally.sample = self.sample
        holds = (self._hold_openings(menu, tally) and self._hold_on_paths(menu, tally)
                 and self._hold_as_asked(tally))
        if holds and (further := self._further_count(tally)):
            self._without_compilers._draw_further(menu, tally, further)
        tally.readings.update(dict.fromkeys(readings_of(self._paths)))

    def _draw_further(self, menu: Menu, tally: Tally, count: int) -> None:
        from attnspec.trials.searching import draw_cases  # noqa: PLC0415  (weight: Hypothesis, where nothing is drawn)

        drawn: list[Choices] = []
        try:
            draw_cases(self._margin_of(menu, tally, drawn), menu, self.seed, count)
        except (Violated, SubjectRaised):
            self._shrink(menu, drawn[-1], tally)

    @property
    def _openings(self) -> int:
        """How many openings there are: half of the counted cases, at a glance all of them."""
        if not self.cases:
            return EFFORTS[self.effort].openings
        if self.is_glance:
            return self.cases
        return (self.cases + 1) // 2

    def _further_count(self, tally: Tally) -> int:
        """How many cases Hypothesis draws: as many as openings, if these claimed nothing."""
        if self.is_glance or self.sample or tally.is_cut_short:
            return 0
        drawn = self.cases - self._openings if self.cases else EFFORTS[self.effort].drawn
        if tally.cases:
            return drawn
        return max(drawn, self._openings)

    def _hold_openings(self, menu: Menu, tally: Tally) -> bool:
        """Whether all openings hold."""
        sparing = self._without_compilers
        enough = self.sample or (self._openings if self.is_glance else math.inf)
        for number, choices in enumerate(self._deal_openings(menu)):
            if tally.cases >= enough or self._is_long_enough(tally):
                return True
            trial = self if number < COMPILED_OPENINGS else sparing
            try:
                trial._try_case(menu.recipe(*choices), tally)
            except (Violated, SubjectRaised) as failed:
                if not (self.is_glance and isinstance(failed, SubjectRaised)
                        and failed.gist in self.raised_before):
                    trial._shrink(menu, choices, tally)
                return False
        return True

    def _is_long_enough(self, tally: Tally) -> bool:
        """Whether a case was judged, and compilers have taken what is this clause's."""
        compiling = self.evaluator.compiling
        tally.is_cut_short |= bool(compiling and tally.cases
                                   and compiling.seconds_spent >= self.compiling_ends)
        return tally.is_cut_short

    def _deal_openings(self, menu: Menu) -> Iterator[Choices]:
        """The cases that it opens with; after a sample those that take the place of what makes no
        claim.

        Where a compiler may run for each size, a sample has the sizes that all clauses share.
        """
        count = self._openings * (1 + SPARE_OPENINGS if self.is_glance else 1)
        declared = self.evaluator.subject.declaration
        is_shared = self.is_sparing or (self.check.clause.flips and declared.has_compiled_variant)
        opened = self.sample if is_shared else count
        sample = sample_openings(menu, self.seed, opened, self.sample) if self.sample else ()
        yield from sample
        yield from (choices for choices in deal_openings(menu, self.seed, count)
                    if choices not in sample)

    def _hold_on_paths(self, menu: Menu, tally: Tally) -> bool:
        """Whether it holds in a case of each keyword for each variant that left its own path."""
        if not any(each.left_count for each in self._paths.values()):
            return True
        keywords = self.evaluator.subject.declaration.keywords & self.check.domain.sometimes
        return not any(self._without_compilers._fails_on(recipe, tally)
                       for recipe in gentle_cases(menu, self.seed, keywords))

    @property
    def _paths(self) -> Mapping[str, Paths]:
        """By variant, which calls took its path; none of a clause that asks no variants."""
        if not self.check.clause.flips:
            return {}
        return {name: variant.paths for name, variant in self.evaluator.variants().items()}

    def _hold_as_asked(self, tally: Tally) -> bool:
        """Whether it holds at all sizes that the user names."""
        return all(replace(self, max_call_seconds=math.inf)._hold_at(asked, tally)
                   for asked in self.named_sizes)

    def _hold_at(self, asked: RequestedSizes, tally: Tally) -> bool:
        at = spell_lengths(asked.sizes.by_axis)
        tally.named_sizes[at] = asked.why_not or NOTHING_CLAIMED
        if asked.why_not:
            return True
        menu = menu_at(self.check, self.evaluator.subject, asked.sizes)
        for choices in cases_at(menu, self.seed):
            try:
                if self._try_case(menu.recipe(*choices), tally) is not None:
                    tally.named_sizes[at] = ""
            except (Violated, SubjectRaised):
                tally.named_sizes[at] = ""
                handy, chosen = shrink_to_handy(self.judge_recipe, menu, choices, tally,
                                                PATIENCE_AT_ASKED)
                if self._work_of_recipe(handy.recipe(*chosen)) <= EFFORTS[self.effort].shrinking:
                    self._simplify(handy, chosen, tally)
                return False
        return True

    def _work_of_recipe(self, recipe: Recipe) -> int:
        return self.check.demand(projects=False).work(recipe.sizes)

    @property
    def _without_compilers(self) -> Trial:
        """The same trial for a case that is not put to variants that compile."""
        return replace(self, compiles=False)

    def _shrink(self, menu: Menu, choices: Choices, tally: Tally) -> None:
        """Look for the smallest case that fails; at a glance not for long, though among the shapes
        of effort quick.

        Sizes first: Hypothesis then simplifies keywords, families and entries of a small problem.
        """
        if self._earlier_case_stands(tally):
            return
        if not self.is_glance:
            menu, choices = shrink_to_handy(self.judge_recipe, menu, choices, tally,
                                            small=self.small_sizes)
        else:
            small = self._menu_for(Effort.QUICK)
            shapes = {*menu.shapes, *(small.shapes if small else ())}
            wider = menu
            if small:
                wider = replace(menu, shapes=tuple(sorted(shapes, key=count_logits)))
            menu, choices = wider, choices_in_wider_menu(menu, choices, wider)
        self._simplify(menu, choices, tally)

    def _earlier_case_stands(self, tally: Tally) -> bool:
        """Whether the case that failed at another dtype stands for the one that failed here: it
        fails here, too, and what it shows is explained, or nobody looks for causes.
        """
        if self.failed_before is None:
            return False
        if not self.is_glance and not self.is_explained(self, self.failed_before):
            return False
        return self._fails_on(self.failed_before, tally)

    def _simplify(self, menu: Menu, choices: Choices, tally: Tally) -> None:
        """Have Hypothesis make a failing case simpler."""
        from attnspec.trials.searching import shrink_case  # noqa: PLC0415  (weight, as above)

        attempts = self._attempts_for(menu.recipe(*choices))
        most = tally.tried_count + attempts if attempts else self.max_cases
        trial = replace(self, max_cases=most, max_work=tally.work + EFFORTS[self.effort].shrinking)
        shrink_case(trial._margin_of(menu, tally, []), menu, self.seed, choices)

    def _attempts_for(self, failing: Recipe) -> int:
        """By how many further cases this one is shrunk; 0 sets no end."""
        if self.is_glance or self.is_sparing:
            return GLANCE_ATTEMPTS
        if self.is_explained(self, failing):
            return EXPLAINED_ATTEMPTS
        return 0

    def _fails_on(self, recipe: Recipe, tally: Tally) -> bool:
        try:
            self._try_case(recipe, tally)
        except (Violated, SubjectRaised):
            return True
        return False

    @property
    def is_sparing(self) -> bool:
        """Whether each case runs a compiler: attnspec makes the form of the subject itself."""
        return bool(self.check.clause.made_forms)

    @property
    def is_compiling_spent(self) -> bool:
        """Whether compilers took all their time: each further call may be of a new shape."""
        compiling = self.evaluator.compiling
        return compiling is not None and compiling.is_spent

    @property
    def is_glance(self) -> bool:
        """Whether few cases are tried, and failing ones shrunk by few attempts."""
        return self.effort is Effort.GLANCE

    def _menu_for(self, effort: Effort, limits: Limits | None = None) -> Menu | None:
        keywords = self.evaluator.subject.declaration.keywords
        shapes = self.shapes if effort is self.effort and limits is None else None
        return menu_of(self.check.domain, keywords, limits or self._limits, effort,
                       tuple(self.check.clause.draw), shapes=shapes)

    def _no_shape(self) -> str:
        """Why no problem of the clause can be put: the subject's words, or its declared limits."""
        subject = self.evaluator.subject
        if self._menu_for(self.effort, Limits()) is None:
            return NO_SIZE
        if self._menu_for(self.effort, limits_without_refusals(subject)) is None:
            return "the subject's declared limits exclude every shape that this clause needs"
        told = "; ".join(f"{name}: {words}" for name, words in subject.refused_words.items())
        return f"the function refuses the inputs that this clause needs ({told})"

    def _margin_of(self, menu: Menu, tally: Tally,
                   drawn: list[Choices]) -> Callable[[Choices], float | None]:
        """The function that Hypothesis searches; it notes in `drawn` what it is given."""
        def margin_of(choices: Choices) -> float | None:
            drawn.append(choices)
            return self._try_case(menu.recipe(*choices), tally)

        return margin_of

    def _try_case(self, recipe: Recipe, tally: Tally) -> float | None:
        """Judge one more case, unless nothing more is to be tried."""
        if (self.max_cases and tally.tried_count >= self.max_cases) or tally.work >= self.max_work:
            raise TrialEnded
        tally.tried_count += 1
        tally.work += self._work_of_recipe(recipe)
        is_first = tally.failure is None
        try:
            return self.judge(recipe, tally)
        # each death costs a process, a hang its deadline: no smaller case is looked for
        except SubjectDied:
            raise TrialEnded from None
        except (Violated, SubjectRaised) as failure:
            if is_first:
                # as it was put, without keywords that it refuses there
                self.tell_failure(failure, tally.failing_recipe or recipe)
            if self.shrinks:
                raise
            raise TrialEnded from None


# A failing case made small


MAX_OTHER_SIZES, MAX_SHRINK_WORK, MAX_SHRINK_SECONDS = 40, 1e9, 10.0
"""So many other sizes, multiply-adds and seconds are spent on making a failing case small."""

PATIENCE_AT_ASKED = 2e10, 60.0
"""The same at sizes that a user names: such a case may be a hundred times as dear."""

HANDY_LENGTH = 4
"""The lengths and widths that a failing case is given first, if it fails with them."""


def shrink_sizes(put: Callable[[Recipe], Tally], tally: Tally, domain: Domain,
                 limits: Limits) -> Recipe | None:
    """The last failing case at the smallest sizes where it fails alike; None if it is smallest."""
    failing = tally.failing_recipe
    if failing is None or not isinstance(tally.failure, (Violated, SubjectRaised)):
        return None
    resizer = Resizer(put, failing, domain, limits, MAX_OTHER_SIZES, MAX_SHRINK_WORK,
                      MAX_SHRINK_SECONDS, type(tally.failure))
    smallest = resizer.find_smallest()
    if smallest != failing.sizes:
        return resizer.failing_recipes.get(smallest)
    return None


def shrink_to_handy(put: Callable[[Recipe], Tally], menu: Menu, choices: Choices, tally: Tally,
                    patience: tuple[float, float] = (MAX_SHRINK_WORK, MAX_SHRINK_SECONDS), *,
                    small: Sequence[Sizes] = ()) -> tuple[Menu, Choices]:
    """The choices of a case that failed, at small sizes, of a menu that offers no others; as it is
    where it does not fail there. patience: multiply-adds and seconds that it may cost.  small:
    sizes at which other clauses fail; if it fails there, too, no smaller ones are looked for.

    Not the very smallest: with a few more entries it is easier to see which keywords and values it
    takes.
    """
    if not isinstance(tally.failure, (Violated, SubjectRaised)):
        return menu, choices
    resizer = Resizer(put, menu.recipe(*choices), menu.domain, menu.limits, MAX_OTHER_SIZES,
                      *patience, type(tally.failure), HANDY_LENGTH)
    sizes = next(filter(resizer.fails, small), None) or resizer.find_smallest()
    if sizes not in resizer.failing_recipes:
        return menu, choices
    entries, *drawn = choices
    # the first byte chooses the shape, the last ones are the seed
    seed = resizer.failing_recipes[sizes].seed.to_bytes(SEED_BYTES, "big")
    return replace(menu, shapes=(sizes,)), (bytes([0, *entries[1:-SEED_BYTES], *seed]), *drawn)


UNFINISHED_NOTE = "(it was interrupted before a smaller case and a cause were looked for)"
"""What is said of the case that failed first."""

MAX_NUMBERS = 8
"""So many lengths are written out."""


def describe_case(trial: Trial, recipe: Recipe) -> str:
    """Sizes, dtype and keywords of a case, what it drew, and how its entries are made."""
    drawn = "".join(f", {name}={number}" for name, number in trial.scene(recipe).drawn.items())
    used = "".join(f" {name}{_format_pattern(name, recipe)}" for name in sorted(recipe.features))
    mask = f", mask {recipe.mask}" if "mask" in recipe.features else ""
    return f"{recipe.sizes} {trial.evaluator.dtype.value}{used}{mask}{drawn}, entries {' and '.join(recipe.families)}"


def unfinished_evidence(trial: Trial, failure: Failure, recipe: Recipe) -> Evidence:
    """The evidence of a failure as it was found, of which nothing more is known."""
    measured = failure.measured if isinstance(failure, Violated) else None
    sentence = measured.sentence if measured else str(failure)
    return Evidence(f"{sentence} {UNFINISHED_NOTE}", describe_case(trial, recipe), recipe.text,
                    measured,
                    traceback=failure.traceback if isinstance(failure, SubjectRaised) else "")


def _format_pattern(keyword: str, recipe: Recipe) -> str:
    """How a pattern makes a value: `=spread`, `=ragged (3, 1)`, `=half (P=2 of S)`."""
    pattern = recipe.value(keyword) if keyword in VALUED else None
    if not isinstance(pattern, str):
        return ""
    if keyword in CACHED:
        return f"={pattern} (P={count_past(pattern, recipe.sizes)} of S)"
    if keyword not in COUNTS:
        return f"={pattern}"
    numbers = [str(number)
               for number in keyword_array(keyword, pattern, recipe.seed, recipe.sizes)]
    return f"={pattern} ({', '.join(numbers[:MAX_NUMBERS])}{', …' * (len(numbers) > MAX_NUMBERS)})"


CONVENTION_RELATION = "convention_is"
"""The relation that says which convention was found, which is all that there is to say."""

# the others may have ended the probe
_PROBED_VERDICTS = frozenset({Verdict.HELD, Verdict.VIOLATED, Verdict.NO_CLAIM})


def conventions_of(check: Check) -> list[str]:
    """The conventions whose answers the clause recommends."""
    return [str(word.args["convention"]) for word in check.clause.then
            if word.name == CONVENTION_RELATION]


def add_probed(outcome: Outcome, check: Check, evaluator: Evaluator) -> Outcome:
    """The outcome with what was found of the clause's conventions, where the subject declares
    none; of a form of one only what is not as of the whole.
    """
    asked = conventions_of(check) if outcome.verdict in _PROBED_VERDICTS else []
    found, declared = evaluator.conventions if asked else {}, evaluator.subject.declaration.conventions
    probed = [ProbedConvention(name, answer) for whole in asked if whole in found
              and whole not in declared for name, answer in found.items() if name == whole
              or (name.startswith(f"{whole}.") and answer != found[whole])]
    return replace(outcome, probed=tuple(probed))
