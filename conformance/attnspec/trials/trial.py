"""A trial of one clause, subject and dtype: it draws cases, judges, and shrinks failures."""

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
"""So many further openings may be tried at a glance for each case without a claim."""

GLANCE_ATTEMPTS = 24
"""The number of attempts to shrink a failing case at a glance."""

EXPLAINED_ATTEMPTS = 12
"""The same at any effort for a case that is explained: its sizes are small already."""

NO_SIZE = "no size that is drawn at this effort has what the clause asks for under `given`"
NOTHING_CLAIMED = "no case of these sizes could be judged"


@dataclass(frozen=True, slots=True)
class Trial(CaseJudge):
    """A clause, a subject on its evaluator, and how hard to look.

    cases: how many; 0: as the effort says. A trial that does not shrink ends at its first failure.
    max_cases: end after so many of the very same cases; 0 sets no end.
    max_work: end where the cases have cost so much.
    failed_before: a case that failed at another dtype, already shrunk; at a glance, or where it is
    explained, it stands for the one that failed if it fails here too.
    raised_before: what the subject has raised under other clauses; at a glance that is not shrunk
    again.
    small_sizes: those to which failing cases of other clauses were shrunk.
    shapes: the clause's sizes in this run; without them, those of a run of it alone.
    named_sizes: those that a user names, which are tried whatever they cost.
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
        """Tries all cases; a failure is the tally's, on its smallest case."""
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
        recipes = self._fixed_recipes
        if not recipes:
            self._search(tally)
            return
        if self.sample and self.check.domain.kind == "features":
            recipes, tally.sample = recipes[:self.sample], self.sample
        for recipe in recipes:
            if self._is_long_enough(tally):
                break
            self._try_case(recipe, tally)

    def _search(self, tally: Tally) -> None:
        """Tries the openings, then further cases that Hypothesis draws, unless there is a sample.

        A failing opening is shrunk. A glance passes over openings about which nothing can be
        claimed, up to SPARE_OPENINGS of them for each case.
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

        examples: list[Choices] = []
        try:
            draw_cases(self._margin_of(menu, tally, examples), menu, self.seed, count)
        except (Violated, SubjectRaised):
            self._shrink(menu, examples[-1], tally)

    @property
    def _openings(self) -> int:
        """How many openings there are: half of the counted cases, or all of them at a glance."""
        if not self.cases:
            return EFFORTS[self.effort].openings
        if self.is_glance:
            return self.cases
        return (self.cases + 1) // 2

    def _further_count(self, tally: Tally) -> int:
        """How many cases Hypothesis draws: as many as openings, if these claimed nothing."""
        if self.is_glance or self.sample or tally.is_cut_short:
            return 0
        count = self.cases - self._openings if self.cases else EFFORTS[self.effort].drawn
        return count if tally.cases else max(count, self._openings)

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
            except (Violated, SubjectRaised) as failure:
                is_known = (isinstance(failure, SubjectRaised)
                            and failure.gist in self.raised_before)
                if not (self.is_glance and is_known):
                    trial._shrink(menu, choices, tally)
                return False
        return True

    def _is_long_enough(self, tally: Tally) -> bool:
        """Whether a case was judged, and compilers have used this clause's share of time."""
        compiling = self.evaluator.compiling
        tally.is_cut_short |= bool(compiling and tally.cases
                                   and compiling.seconds_spent >= self.compiling_ends)
        return tally.is_cut_short

    def _deal_openings(self, menu: Menu) -> Iterator[Choices]:
        """The cases that the trial begins with; after a sample, those that may replace one without
        a claim.

        Where a compiler may run for each size, a sample has the sizes that all clauses share.
        """
        count, sample = self._openings, tuple[Choices, ...]()
        if self.is_glance:
            count *= 1 + SPARE_OPENINGS
        if self.sample:
            declaration = self.evaluator.subject.declaration
            is_shared = self.is_sparing or (self.check.clause.flips
                                            and declaration.has_compiled_variant)
            openings = self.sample if is_shared else count
            sample = sample_openings(menu, self.seed, openings, self.sample)
        yield from sample
        yield from (choices for choices in deal_openings(menu, self.seed, count)
                    if choices not in sample)

    def _hold_on_paths(self, menu: Menu, tally: Tally) -> bool:
        """Whether a case of each keyword holds, if some variant left its own path."""
        if not any(each.left_count for each in self._paths.values()):
            return True
        keywords = self.evaluator.subject.declaration.keywords & self.check.domain.sometimes
        return not any(self._without_compilers._fails_on(recipe, tally)
                       for recipe in gentle_cases(menu, self.seed, keywords))

    @property
    def _paths(self) -> Mapping[str, Paths]:
        """By variant, which calls took its path; nothing for a clause that asks no variants."""
        if not self.check.clause.flips:
            return {}
        return {name: variant.paths for name, variant in self.evaluator.variants().items()}

    def _hold_as_asked(self, tally: Tally) -> bool:
        """Whether the clause holds at all sizes that the user names."""
        return all(replace(self, max_call_seconds=math.inf)._hold_at(request, tally)
                   for request in self.named_sizes)

    def _hold_at(self, request: RequestedSizes, tally: Tally) -> bool:
        lengths = spell_lengths(request.sizes.by_axis)
        tally.named_sizes[lengths] = request.why_not or NOTHING_CLAIMED
        if request.why_not:
            return True
        menu = menu_at(self.check, self.evaluator.subject, request.sizes)
        for choices in cases_at(menu, self.seed):
            try:
                if self._try_case(menu.recipe(*choices), tally) is not None:
                    tally.named_sizes[lengths] = ""
            except (Violated, SubjectRaised):
                tally.named_sizes[lengths] = ""
                small, small_choices = shrink_to_handy(self.judge_recipe, menu, choices, tally,
                                                       PATIENCE_AT_ASKED)
                work = self._work_of_recipe(small.recipe(*small_choices))
                if work <= EFFORTS[self.effort].shrinking:
                    self._simplify(small, small_choices, tally)
                return False
        return True

    def _work_of_recipe(self, recipe: Recipe) -> int:
        return self.check.demand(projects=False).work(recipe.sizes)

    @property
    def _without_compilers(self) -> Trial:
        """The same trial, for cases that are not put to variants that compile."""
        return replace(self, compiles=False)

    def _shrink(self, menu: Menu, choices: Choices, tally: Tally) -> None:
        """Looks for the smallest case that fails; at a glance briefly, but among the shapes of
        effort quick.

        Sizes first: Hypothesis then simplifies keywords, families and entries of a small problem.
        """
        if self._earlier_case_stands(tally):
            return
        if not self.is_glance:
            menu, choices = shrink_to_handy(self.judge_recipe, menu, choices, tally,
                                            small=self.small_sizes)
        elif quick := self._menu_for(Effort.QUICK):
            shapes = sorted({*menu.shapes, *quick.shapes}, key=count_logits)
            wider = replace(menu, shapes=tuple(shapes))
            menu, choices = wider, choices_in_wider_menu(menu, choices, wider)
        self._simplify(menu, choices, tally)

    def _earlier_case_stands(self, tally: Tally) -> bool:
        """Whether the case that failed at another dtype stands for this one.

        It fails here, too, and what it shows is explained, or nobody looks for causes.
        """
        if self.failed_before is None:
            return False
        if not self.is_glance and not self.is_explained(self, self.failed_before):
            return False
        return self._fails_on(self.failed_before, tally)

    def _simplify(self, menu: Menu, choices: Choices, tally: Tally) -> None:
        """Lets Hypothesis simplify a failing case."""
        from attnspec.trials.searching import shrink_case  # noqa: PLC0415  (weight, as above)

        attempts = self._attempts_for(menu.recipe(*choices))
        most = tally.tried_count + attempts if attempts else self.max_cases
        trial = replace(self, max_cases=most, max_work=tally.work + EFFORTS[self.effort].shrinking)
        shrink_case(trial._margin_of(menu, tally, []), menu, self.seed, choices)

    def _attempts_for(self, failing: Recipe) -> int:
        """How many attempts shrink this case; 0 sets no end."""
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
        refusals = "; ".join(f"{name}: {words}" for name, words in subject.refused_words.items())
        return f"the function refuses the inputs that this clause needs ({refusals})"

    def _margin_of(self, menu: Menu, tally: Tally,
                   examples: list[Choices]) -> Callable[[Choices], float | None]:
        """The function that Hypothesis searches; it notes the choices in `examples`."""
        def margin_of(choices: Choices) -> float | None:
            examples.append(choices)
            return self._try_case(menu.recipe(*choices), tally)

        return margin_of

    def _try_case(self, recipe: Recipe, tally: Tally) -> float | None:
        """Judges one more case, unless the trial is at its end."""
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
"""Upper limits for making a failing case small: other sizes, multiply-adds and seconds."""

PATIENCE_AT_ASKED = 2e10, 60.0
"""The same at sizes that a user names: such a case may be a hundred times as dear."""

HANDY_LENGTH = 4
"""The lengths and widths that a failing case is given first, if it fails with them."""


def shrink_sizes(judge_recipe: Callable[[Recipe], Tally], tally: Tally, domain: Domain,
                 limits: Limits) -> Recipe | None:
    """The last failing case at the smallest sizes where it fails alike; None if it is smallest."""
    failing = tally.failing_recipe
    if failing is None or not isinstance(tally.failure, (Violated, SubjectRaised)):
        return None
    resizer = Resizer(judge_recipe, failing, domain, limits, MAX_OTHER_SIZES, MAX_SHRINK_WORK,
                      MAX_SHRINK_SECONDS, type(tally.failure))
    smallest = resizer.find_smallest()
    if smallest != failing.sizes:
        return resizer.failing_recipes.get(smallest)
    return None


def shrink_to_handy(judge_recipe: Callable[[Recipe], Tally], menu: Menu, choices: Choices,
                    tally: Tally,
                    patience: tuple[float, float] = (MAX_SHRINK_WORK, MAX_SHRINK_SECONDS), *,
                    small: Sequence[Sizes] = ()) -> tuple[Menu, Choices]:
    """The choices of a failing case at small sizes, in a menu with no others.

    Unchanged if it does not fail there.  patience: multiply-adds and seconds that it may cost.
    small: sizes at which other clauses fail; if it fails there, too, no smaller ones are looked
    for. Not the very smallest: with a few more entries it is easier to see which keywords and
    values it takes.
    """
    if not isinstance(tally.failure, (Violated, SubjectRaised)):
        return menu, choices
    resizer = Resizer(judge_recipe, menu.recipe(*choices), menu.domain, menu.limits,
                      MAX_OTHER_SIZES, *patience, type(tally.failure), HANDY_LENGTH)
    sizes = next(filter(resizer.fails, small), None) or resizer.find_smallest()
    if sizes not in resizer.failing_recipes:
        return menu, choices
    entries, *draws = choices
    # the first byte chooses the shape, the last ones are the seed
    seed = resizer.failing_recipes[sizes].seed.to_bytes(SEED_BYTES, "big")
    return replace(menu, shapes=(sizes,)), (bytes([0, *entries[1:-SEED_BYTES], *seed]), *draws)


UNFINISHED_NOTE = "(it was interrupted before a smaller case and a cause were looked for)"
"""What is said of the case that failed first."""

MAX_NUMBERS = 8
"""At most so many lengths are written out."""


def describe_case(trial: Trial, recipe: Recipe) -> str:
    """Sizes, dtype and keywords of a case, what it drew, and how its entries are made."""
    words = f"{recipe.sizes} {trial.evaluator.dtype.value}"
    for name in sorted(recipe.features):
        words += f" {name}{_format_pattern(name, recipe)}"
    if "mask" in recipe.features:
        words += f", mask {recipe.mask}"
    for name, number in trial.scene(recipe).drawn.items():
        words += f", {name}={number}"
    return f"{words}, entries {' and '.join(recipe.families)}"


def unfinished_evidence(trial: Trial, failure: Failure, recipe: Recipe) -> Evidence:
    """The evidence of a failure as it was found, about which nothing more is known."""
    evidence = Evidence(f"{failure} {UNFINISHED_NOTE}", describe_case(trial, recipe), recipe.text)
    if isinstance(failure, Violated):
        return replace(evidence, measured=failure.measured)
    if isinstance(failure, SubjectRaised):
        return replace(evidence, traceback=failure.traceback)
    return evidence


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
    """The outcome with what was found of the clause's conventions, if the subject declares none.

    Of the forms of a convention, only answers that differ from the whole's are added.
    """
    conventions, probed = conventions_of(check), list[ProbedConvention]()
    if not conventions or outcome.verdict not in _PROBED_VERDICTS:
        return replace(outcome, probed=())
    answers = evaluator.conventions
    for whole in conventions:
        if whole not in answers or whole in evaluator.subject.declaration.conventions:
            continue
        probed += [ProbedConvention(name, answer) for name, answer in answers.items()
                   if name == whole
                   or (name.startswith(f"{whole}.") and answer != answers[whole])]
    return replace(outcome, probed=tuple(probed))
