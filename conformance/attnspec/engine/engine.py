"""Gives the verdicts on a plan's items. Importing it loads no framework."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from attnspec.core.conventions import PROFILES
from attnspec.core.declaration import Declaration, Deviation
from attnspec.core.errors import TargetError, UsageError, near_misses
from attnspec.core.forms import forms_asked
from attnspec.core.nouns import FAILURES, DType, Effort, Novelty, does_gate_run, is_bare
from attnspec.core.paths import VERSION
from attnspec.core.plan import FAULT, Item, Plan, is_fault
from attnspec.core.surroundings import kind_of
from attnspec.engine.expectations import (
    check_deviations,
    check_known,
    is_hurried,
    mark_as_new,
    match_ids,
    no_clause,
    no_dtype,
    with_choice,
    with_convention,
    with_deviations,
)
from attnspec.faults.witnesses import clauses_for, declaration_of_target
from attnspec.record.outcome import KnownFinding, Outcome, SubjectCard
from attnspec.spec.clause import (
    ALL,
    Clause,
    Contract,
    Refutations,
    Spec,
    contract_clauses,
    contract_id,
    is_due,
    is_put_at,
    read_contract,
    read_refutations,
    word_of,
)
from attnspec.spec.load import load_spec
from attnspec.subjects.baseline import (
    DIGEST_DIGITS,
    Conditions,
    ConventionKey,
    TriedConditions,
    index_conventions,
    novelty_of,
    read_baseline,
    read_conventions,
    read_tried,
    with_baseline,
)
from attnspec.subjects.manifest import Registered
from attnspec.subjects.outline import guess_meant_target, imports_of
from attnspec.subjects.registry import findings_about, process_of, registered_subjects

if TYPE_CHECKING:
    from attnspec.engine.subject_run import SubjectRun
    from attnspec.trials.compile import Check
    from attnspec.trials.evaluator import Archives

MAX_SUBJECTS = 4
"""How many subjects an engine remembers: what JAX compiles for one takes hundreds of megabytes."""


class Engine:
    """Tries the items of a plan.

    breadcrumb: is told each recipe before the subject sees it.  archives: the problems and
    expectations that subjects share; None: each has its own.
    """

    def __init__(self, plan: Plan, *, breadcrumb: Callable[[str], None] = lambda _: None,
                 archives: Archives | None = None) -> None:
        self.plan = plan
        self._archives = archives
        self.tell: Callable[[Outcome], None] = lambda _: None
        """Is told an outcome that fails before its smallest case and a cause are found."""
        self.breadcrumb = breadcrumb
        self._spec_of_plan: Spec = load_spec(plan.spec, plan.spec_add)
        of_clauses = (word for word in map(word_of, plan.clauses) if word not in ("", ALL, "*"))
        self.contract: Contract = read_contract(" ".join((plan.must_take, *of_clauses)))
        self._subject_runs: dict[str, SubjectRun] = {}
        # by target, why it cannot be had: it is not tried item by item
        self._missing_targets: dict[str, TargetError] = {}
        self._manifests: dict[str, Mapping[str, Registered]] = {}
        self._known_findings: dict[str, tuple[KnownFinding, ...]] = {}
        self._known_deviations: dict[str, tuple[Deviation, ...]] = {}

    @cached_property
    def spec(self) -> Spec:
        """The spec, with the clauses that the contract makes."""
        return replace(self._spec_of_plan,
                       clauses=(*self._spec_of_plan.clauses, *self._contract_clauses))

    @cached_property
    def _contract_clauses(self) -> tuple[Clause, ...]:
        return contract_clauses(self.contract, is_whole=contract_id(ALL) in self.plan.clauses)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """The clauses that the plan asks for. Raises UsageError for a name that fits none."""
        clauses, profiles = self._spec_of_plan.clauses, self.plan.narrowing
        names = tuple(name for name in self.plan.clauses if not word_of(name))
        ids = match_ids(names, [clause.id for clause in clauses])
        check_known("profile", tuple(sorted(self.plan.asked_for)), PROFILES)
        return tuple(clause for clause in clauses
                     if (clause.id in ids or not self.plan.clauses)
                     and (clause.profile in profiles or not profiles))

    def _variant_clauses(self, target: str) -> frozenset[str]:
        """The clauses for a target on variants that attnspec makes itself."""
        registered = self._find_registered(target)
        forms = forms_asked(self.plan, registered.declaration.made if registered else ())
        return frozenset(clause.id for clause in self._spec_of_plan.clauses
                         if clause.made_forms & forms)

    @cached_property
    def _baseline(self) -> Mapping[str, tuple[Deviation, ...]]:
        if self.plan.baseline:
            return read_baseline(Path(self.plan.baseline), self.plan.implementations)
        return {}

    @cached_property
    def _known_conventions(self) -> Mapping[ConventionKey, str]:
        if self.plan.baseline:
            return index_conventions(read_conventions(Path(self.plan.baseline)))
        return {}

    @cached_property
    def _tried_conditions(self) -> TriedConditions:
        if self.plan.baseline:
            return read_tried(Path(self.plan.baseline))
        return {}

    def _find_registered(self, target: str) -> Registered | None:
        """What the target's manifest says, if any. Mistakes in other manifests do not matter."""
        library = "" if is_bare(target) else target.partition("/")[0]
        if not library:
            return None
        if library not in self._manifests:
            self._manifests[library] = registered_subjects(self.plan.implementations,
                                                           library=library)
        return self._manifests[library].get(target)

    def _findings(self, target: str) -> tuple[KnownFinding, ...]:
        """The known findings on a registered subject; none for any other."""
        registered = self._find_registered(target)
        if registered is None:
            return ()
        if target not in self._known_findings:
            self._known_findings[target] = findings_about(
                target, registered.library, self.plan.implementations, kind_of(self.plan.device))
        return self._known_findings[target]

    def _deviations(self, target: str) -> tuple[Deviation, ...]:
        """The known failures of a subject: those of its manifest, and those of the baseline."""
        if target not in self._known_deviations:
            found = self._find_registered(target)
            declaration = with_baseline(found.declaration if found else Declaration(),
                                        self._baseline.get(target, ()))
            self._known_deviations[target] = declaration.deviations
        return self._known_deviations[target]

    def items(self) -> tuple[Item, ...]:
        """What is on trial, in an order that depends on the plan alone: by target, dtype and
        clause.

        Raises UsageError, ManifestError for a known deviation that no verdict can meet, and
        SpecError for a word that means nothing in clauses that are not the shipped ones (those are
        known to compile).
        """
        if self.plan.spec or self.plan.spec_add:
            _ = self.checks
        self._check_deviations()
        items = tuple(self._walk_items())
        if not items and self.plan.dtypes:
            raise no_dtype(self.plan,
                           {target: self._find_registered(target) for target in self.plan.targets})
        return items

    def _walk_items(self) -> Iterator[Item]:
        for target in self.plan.targets:
            yield from self.items_of(target)

    def items_of(self, target: str) -> Sequence[Item]:
        """What one target is put to, by dtype and clause."""
        dtypes, taken, items = self._dtypes_asked(target), self._taken_dtypes(target), list[Item]()
        clauses = self._clauses_put_to(target)
        for dtype in dtypes:
            items += [Item(target, clause.id, dtype.value) for clause in clauses
                      if not taken or clause.id in self.plan.clauses
                      or is_due(clause, dtype, self.plan.effort, taken)]
        for dtype in dict.fromkeys((*dtypes, *self.contract.dtypes)):
            items += [Item(target, clause.id, dtype.value) for clause in self._contract_clauses
                      if is_put_at(clause.id, dtype)]
        return items

    def _taken_dtypes(self, target: str) -> tuple[DType, ...]:
        """The dtypes that a target takes, its first among them.

        None where only the function can say, once it is loaded: then every clause may be due.
        """
        if is_bare(target):
            return ()
        dtypes = self._dtypes_asked(target)
        if self.plan.effort is Effort.GLANCE and is_fault(target):
            of_fault = declaration_of_target(target, {}).dtypes
            return tuple(dtype for dtype in dtypes if dtype in of_fault)
        return dtypes

    def compiles(self, target: str) -> bool:
        """Whether some variant of a target compiles, by its manifest or by the plan."""
        registered = self._find_registered(target)
        is_declared = registered is not None and registered.declaration.has_compiled_variant
        return is_declared or bool(self._variant_clauses(target))

    def hurries(self, target: str) -> bool:
        """Whether a target is known to compile for each shape, and has little time for that."""
        if registered := self._find_registered(target):
            is_compiled = registered.declaration.is_compiled
        else:
            is_compiled = is_bare(target) and (self.plan.lift == "jax"
                                               or "jax" in imports_of(target))
        return is_compiled and is_hurried(self.plan)

    def seconds_compiling(self, target: str) -> float:
        """The seconds a compiler has taken so far for a subject. Loads nothing."""
        if target in self._subject_runs:
            return self._subject_runs[target].seconds_compiling
        return 0.0

    def _clauses_put_to(self, target: str) -> tuple[Clause, ...]:
        """The clauses that a target is put to: a fault, to those that witness it."""
        if self.plan.clauses or self.plan.narrowing or not is_fault(target):
            ids, ids_of_variants = {clause.id
                                    for clause in self.clauses}, self._variant_clauses(target)
            if self.plan.variants:
                ids |= ids_of_variants
            return tuple(clause for clause in self._spec_of_plan.clauses if clause.id in ids
                         and (clause.id in ids_of_variants or not clause.made_forms))
        names = clauses_for(self._spec_of_plan, self._refutations, target.removeprefix(FAULT))
        return tuple(clause for clause in self.clauses if clause.id in names)

    @cached_property
    def _refutations(self) -> Refutations:
        return read_refutations(self._spec_of_plan)

    def _check_deviations(self) -> None:
        """Raises an error for a deviation of no clause. `--spec` may lack shipped clauses."""
        clauses = [clause.id for clause in self._spec_of_plan.clauses]
        # a mistake there is told before anything is run
        _ = self._known_conventions, self._tried_conditions
        for target in self.plan.targets:
            if not self.plan.spec and (registered := self._find_registered(target)):
                check_deviations(target, registered.declaration, clauses)
            for each in self._baseline.get(target, ()):
                if each.clause not in clauses and not word_of(each.clause):
                    raise UsageError.unknown("clause", each.clause, clauses, where=each.where)
        self._check_names()

    def _check_names(self) -> None:
        """Raises UsageError where the baseline misspells the name of what is judged."""
        for subject, deviations in self._baseline.items():
            is_id = not is_bare(subject) and subject not in self.plan.targets
            if is_id and not self._find_registered(subject):
                ids = [target for target in self.plan.targets if not is_bare(target)]
                candidates = near_misses(subject, ids)
            else:
                candidates = guess_meant_target(subject, self.plan.targets)
            if candidates:
                raise UsageError.unknown("subject", subject, candidates, where=deviations[0].where)

    def _dtypes_asked(self, target: str) -> tuple[DType, ...]:
        registered = self._find_registered(target)
        dtypes = registered.declaration.dtypes if registered else tuple(DType)
        return tuple(dtype for dtype in dtypes
                     if not self.plan.dtypes or dtype in self.plan.dtypes)

    @cached_property
    def checks(self) -> Mapping[str, Check]:
        """Every clause compiled. Raises SpecError at the first word that means nothing."""
        from attnspec.trials.compile import compile_spec  # noqa: PLC0415  (weight: numpy)

        return compile_spec(self._spec_of_plan, faults=self._faults)

    @property
    def _faults(self) -> Collection[str] | None:
        """The faults that clauses of a user's own may name; None if there are no such clauses."""
        if not self.plan.spec and not self.plan.spec_add:
            return None
        from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: every fault)

        return CATALOGUE.keys()

    def _subject_run(self, target: str) -> SubjectRun:
        if target in self._missing_targets:
            raise TargetError(str(self._missing_targets[target]))
        if target not in self._subject_runs:
            self._forget_earlier_subjects()
            self._begin_process(target)
            from attnspec.engine.subject_run import SubjectRun  # noqa: PLC0415  (weight: numpy)
            from attnspec.engine.summon import load_subject  # noqa: PLC0415  (weight: numpy)

            try:
                subject = load_subject(target, self.plan)
            except TargetError as problem:
                self._missing_targets[target] = problem
                raise
            declaration = with_baseline(subject.declaration, self._baseline.get(target, ()))
            subject = replace(subject, declaration=declaration)
            self._subject_runs[target] = SubjectRun(subject, self.plan, self.breadcrumb,
                                                    lambda: self.checks, lambda: self._refutations)
            self._subject_runs[target].archives = self._archives
            self._subject_runs[target].tell = lambda outcome: self.tell(
                self.compare_with_known(outcome))
        return self._subject_runs[target]

    def _begin_process(self, target: str) -> None:
        """Starts the subject's process while what judges it is imported here."""
        from attnspec.subjects.target import begin_target  # noqa: PLC0415  (weight: numpy)

        registered = self._find_registered(target)
        is_there = is_bare(target) or (registered and not registered.why_missing)
        if is_there and target not in self.plan.in_process:
            surroundings = self.plan.surroundings(process_of(target, self.plan.implementations))
            begin_target(target, surroundings, registered, map(Path, self.plan.implementations))

    def _forget_earlier_subjects(self) -> None:
        """Forgets earlier subjects, and what their libraries compiled for them."""
        if len(self._subject_runs) < MAX_SUBJECTS:
            return
        for subject_run in self._subject_runs.values():
            subject_run.subject.callee.forget()
        self._subject_runs.clear()

    def forget(self, target: str) -> None:
        """Forgets a subject, and why it cannot be had."""
        self._subject_runs.pop(target, None)
        self._missing_targets.pop(target, None)

    def fetch(self, target: str) -> None:
        """Loads what the target names. Raises TargetError or ManifestError if it cannot be had."""
        self._subject_run(target)

    def card(self, target: str) -> SubjectCard:
        """What a report says about a subject. Raises TargetError or ManifestError."""
        return self._subject_run(target).card

    def find_refused(self, target: str) -> Mapping[str, str]:
        """What a subject is known to refuse, in its words. Raises as `card` does."""
        return self._subject_run(target).subject.refused_words

    def applies(self, item: Item) -> bool:
        """Whether the subject takes what an item needs. Raises TargetError or ManifestError."""
        subject_run = self._subject_run(item.target)
        if word_of(item.clause):
            return True
        return subject_run.applies(self._check(item.clause), DType(item.dtype))

    def try_item(self, item: Item) -> Outcome:
        """The verdict on one item. Raises AttnspecError where the subject cannot be had."""
        subject_run = self._subject_run(item.target)
        subject_run.subject.callee.begin_item()
        if word := word_of(item.clause):
            from attnspec.engine.subject_run import try_word  # noqa: PLC0415  (weight: numpy)

            return self.compare_with_known(try_word(subject_run.subject, self.contract, word,
                                                    DType(item.dtype)))
        check, dtype = self._check(item.clause), DType(item.dtype)
        outcome = subject_run.with_incidents(subject_run.try_clause(check, dtype))
        # of what is spared, nothing was tried that could differ
        if subject_run.spares(check, dtype):
            return outcome
        return self.compare_with_known(outcome)

    def compare_with_known(self, outcome: Outcome) -> Outcome:
        """The outcome in the light of its subject's known failures. Loads nothing."""
        registered = self._find_registered(outcome.subject)
        version = registered.library.version if registered else ""
        outcome = with_deviations(outcome, self._deviations(outcome.subject), version)
        outcome = with_choice(outcome, self._findings(outcome.subject))
        outcome = with_convention(outcome, self._known_conventions)
        does_gate = does_gate_run(outcome.verdict, outcome.level, strict=self.plan.strict)
        if self.plan.baseline and outcome.verdict in FAILURES and does_gate:
            return mark_as_new(outcome, *self._novelty(outcome))
        return outcome

    def _novelty(self, failure: Outcome) -> tuple[Novelty, str]:
        """How an unlisted failure differs from the baseline; contracts ask every run anew."""
        if word_of(failure.clause):
            return Novelty.NEW, ""
        return novelty_of(failure, self._tried_conditions, self.conditions)

    @property
    def conditions(self) -> Conditions:
        """The conditions under which the plan's outcomes are found."""
        return Conditions(VERSION, self._spec_of_plan.digest[:DIGEST_DIGITS], self.plan.effort,
                          self.plan.seed, self.plan.strict)

    def replay(self, item: Item, recipe: str) -> Outcome:
        """The verdict on one case of an item, from its recipe."""
        subject_run = self._subject_run(item.target)
        subject_run.subject.callee.begin_item()
        if word := word_of(item.clause):
            from attnspec.engine.subject_run import try_recipe  # noqa: PLC0415  (weight: numpy)
            from attnspec.problems.problem import Recipe  # noqa: PLC0415  (weight: numpy)

            return try_recipe(subject_run.subject, word, DType(item.dtype), Recipe.parse(recipe))
        return subject_run.replay(self._check(item.clause), DType(item.dtype), recipe)

    def _check(self, clause: str) -> Check:
        if clause not in self.checks:
            raise no_clause(clause, tuple(self.checks))
        return self.checks[clause]
