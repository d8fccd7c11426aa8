"""Turns a spec into checks: all words, arguments, runs and faults are looked up beforehand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from attnspec.core.conventions import IF_CLAIMED
from attnspec.core.errors import FileLocation, SpecError
from attnspec.core.keyword import GRAD
from attnspec.core.keywords import load_parts
from attnspec.core.nouns import Kind
from attnspec.numerics.precision import Precision
from attnspec.problems.demand import Demand
from attnspec.problems.domain import GENERIC_KINDS, Domain, domain
from attnspec.problems.problem import RECIPE_FIELDS
from attnspec.spec.clause import Clause, Spec, Word
from attnspec.subjects.subject import Subject, why_no_form
from attnspec.trials.covering_cases import FIXED_KINDS
from attnspec.vocabulary.observables import DIFFERENTIATED
from attnspec.vocabulary.scene import AnyProblem, NoClaim, Posed
from attnspec.vocabulary.signature import Bound, Drawn, DrawnName, check_word, look_up
from attnspec.vocabulary.tables import (
    ATTENTION_RELATIONS,
    DRAWS,
    INSIDE,
    OF_ANY,
    OF_CHANCE,
    OF_ROTARY,
    OF_ROUNDINGS,
    PARTED,
    PARTING,
    READING,
    RELATIONS,
    TABLES,
    instrument_of,
)

ASKING_KEYWORDS: Mapping[object, str] = {"returned_weights": "return_weights", "lse": "return_lse",
                                         **dict.fromkeys(DIFFERENTIATED, GRAD)}
"""By what is observed, the keyword that asks for it."""


@dataclass(frozen=True, slots=True)
class BoundWord:
    """A word bound to its function."""

    function: Callable[..., Any]
    bound: Bound

    def __call__(self, subject: Any, draws: Mapping[str, int]) -> Any:  # noqa: ANN401  (a run or a scene: the word's own)
        """Calls the function with the drawn values put in."""
        values = self.bound.values
        if draws:
            values = {name: _fill_drawn(value, draws) for name, value in values.items()}
        return self.function(subject, **values)


def _fill_drawn(value: object, draws: Mapping[str, int]) -> object:
    """The value of an argument, its names of drawn values replaced by their numbers."""
    if isinstance(value, DrawnName):
        return draws[value]
    if isinstance(value, tuple):
        return tuple(_fill_drawn(entry, draws) for entry in value)
    return value


@dataclass(frozen=True)
class Check:
    """A clause ready to be tried."""

    clause: Clause
    domain: Domain
    runs: Mapping[str, tuple[BoundWord, ...]]
    then: tuple[BoundWord, ...]

    @cached_property
    def needs(self) -> frozenset[str]:
        """The keywords that a check cannot do without.

        They are those that it names, and those that its kind or what it observes implies.
        """
        quantities = {step.bound.values.get("observe") for step in self.then}
        asking = {ASKING_KEYWORDS[each] for each in quantities & ASKING_KEYWORDS.keys()}
        return self.clause.needs | self.domain.always | asking

    def demand(self, *, projects: bool) -> Demand:
        """What a check demands of sizes.

        projects: whether the subject is a layer.
        """
        quantities = {step.bound.values.get("observe") for step in self.then}
        cut_axes = {PARTED[step.bound.values.get("along", "heads")]
                    for steps in self.runs.values() for step in steps
                    if step.bound.name in PARTING}
        passes = 2 if quantities & DIFFERENTIATED.keys() else 1
        reads = bool(quantities & INSIDE) or any(step.bound.name in READING for step in self.then)
        return Demand(self.domain, reads=reads, cut_axes="".join(sorted(cut_axes)),
                      runs=max(1, len(self.runs)), passes=passes,
                      projects=projects or self.domain.is_layer,
                      flips=self.clause.flips or bool(self.clause.made_forms),
                      pool=self.clause.pool)

    def why_not_put(self, subject: Subject) -> str:
        """Why the clause cannot be put to the subject at all; empty if it can."""
        kind = subject.declaration.kind
        if self.domain.is_layer and kind is not Kind.LAYER:
            return "it is not a layer: it has no projections"
        if (self.domain.poses is Kind.ROTARY) is not (kind is Kind.ROTARY):
            is_rotary = kind is Kind.ROTARY
            words = "a rotary embedding, not attention" if is_rotary else "not a rotary embedding"
            return f"it is {words}"
        if self.clause.profile in IF_CLAIMED - {*subject.declaration.claims}:
            return f"it does not claim {self.clause.profile!r} (docs/serving.md)"
        if unsaid := _why_unsaid(self.clause.profile, subject):
            return unsaid
        if self.clause.made_forms - subject.made.keys():
            return why_no_form(subject.declaration) or "it is judged with --variants"
        return subject.lacks(self.needs)

    @property
    def instrument(self) -> str:
        """What the verdict rests on: a phrase for each kind of relation, with its error rate."""
        return "; ".join(dict.fromkeys(instrument_of(step.bound) for step in self.then))

    def draw_values(self, problem: AnyProblem, numbers: Mapping[str, int]) -> dict[str, int]:
        """The drawn values: each number picks from what its draw word offers for this problem."""
        return {name: _pick_value(DRAWS[word](problem), numbers.get(name, 0), word)
                for name, word in self.clause.draw.items()}

    def pose(self, problem: AnyProblem, draws: Mapping[str, int], key: str,
             conventions: Mapping[str, str],
             precision: Precision | None = None) -> dict[str, Posed[Any]]:
        """The runs of a case, posed to this precision.

        Raises NoClaim where a word makes no claim.
        """
        runs: dict[str, Posed[Any]] = {}
        for name, steps in self.runs.items():
            posed: Posed[Any] = Posed((problem,), conventions=conventions, precision=precision)
            for step in steps:
                posed = step(posed, draws)
            # two runs of one recipe with the same line of transforms pose the same problem
            words = ",".join(_format_word(word, draws) for word in self.clause.runs[name])
            runs[name] = replace(posed, key=f"{key}|{words}")
        return runs


def _format_word(word: Word, draws: Mapping[str, int]) -> str:
    """`permute_keys(shift=3)`, with drawn values put in."""
    arguments = []
    for name, value in word.args.items():
        number = draws.get(value, value) if isinstance(value, str) else value
        arguments.append(f"{name}={number}")
    return f"{word.name}({', '.join(arguments)})"


def _why_unsaid(profile: str, subject: Subject) -> str:
    """What a subject would have to declare for clauses of this profile; empty if it does."""
    words = set[str]().union(*subject.declaration.precision.values())
    for part in load_parts("limits"):
        reason: str = part.find_unsaid(profile, words)
        if reason:
            return reason
    return ""


def compile_spec(spec: Spec, *, faults: Collection[str] | None = None) -> dict[str, Check]:
    """Compiles every clause, by id.

    faults: the names that exist. Raises SpecError.
    """
    return {**_compile_once(spec, None if faults is None else frozenset(faults))}


@lru_cache(maxsize=2)
def _compile_once(spec: Spec, faults: frozenset[str] | None) -> Mapping[str, Check]:
    """The same, made once: a process may make many engines."""
    return {clause.id: _compile_clause(clause, faults) for clause in spec.clauses}


def _compile_clause(clause: Clause, faults: Collection[str] | None) -> Check:
    _check_faults(clause, faults)
    _check_draws(clause)
    problems = domain_of(clause.given, clause.place_of("given"))
    table = TABLES[problems.poses]
    runs = {name: tuple(_bind_word(word, table, "transform", clause) for word in words)
            for name, words in clause.runs.items()}
    for words in clause.runs.values():
        _check_order(words)
    then = tuple(_bind_word(word, RELATIONS, "relation", clause) for word in clause.then)
    _check_chance(clause.then, problems)
    if problems.is_layer:
        _check_layer(clause.then)
    _check_rotary(clause.then, problems)
    return Check(clause, problems, runs, then)


def domain_of(word: Word, where: FileLocation) -> Domain:
    """Reads which problems a word makes. Raises SpecError where its arguments mean nothing."""
    arguments = check_word(word, domain, "problem").values
    try:
        return domain(**arguments)  # type: ignore[arg-type]  # checked by the signature
    except SpecError as error:  # what goes wrong between arguments has no place of its own
        raise SpecError(str(error), where=where) from None


def _check_draws(clause: Clause) -> None:
    for name, word in clause.draw.items():
        look_up(word, DRAWS, "value to draw", clause.place_of("given"))
        if name in RECIPE_FIELDS:
            raise SpecError(
                f"a drawn value cannot be called {name!r}: a recipe has a field of that name.",
                where=clause.place_of("given"))


def _check_order(words: tuple[Word, ...]) -> None:
    """A transform that takes a problem apart comes last: the others change one problem."""
    for word in words[:-1]:
        if word.name in PARTING:
            raise SpecError(f"the transform {word.name!r} takes the problem apart and must be the last of its run.",
                            where=word.where)


def _check_layer(words: tuple[Word, ...]) -> None:
    """What is claimed of attention alone cannot be claimed of a layer with its projections."""
    for word in words:
        if word.name in ATTENTION_RELATIONS:
            raise SpecError(
                f"the relation {word.name!r} is about attention, but the problem is a layer.",
                where=word.where)
        if word.args.get("observe") in INSIDE:
            raise SpecError(f"a layer does not show {word.args['observe']!r}: "
                            "its values pass through a projection. Observe output or "
                            "returned_weights.", where=word.where)


def _check_rotary(words: tuple[Word, ...], problems: Domain) -> None:
    """A rotary embedding shows its output alone; claims about pairs are about it alone."""
    is_rotary = problems.poses is Kind.ROTARY
    for word in words:
        if not is_rotary and word.name in OF_ROTARY:
            raise SpecError(f"the relation {word.name!r} is about a rotary embedding, "
                            "but the problem is none. Its kind is 'rotary'.", where=word.where)
        if is_rotary and (word.name not in OF_ROTARY | OF_ANY
                          or word.args.get("observe", "output") != "output"):
            raise SpecError(
                f"a rotary embedding shows its output alone, of which {word.name!r} does not speak.", where=word.where)


def _check_chance(words: tuple[Word, ...], problems: Domain) -> None:
    """A law of chance needs problems that nobody searches, and roundings without structure."""
    for word in words:
        if word.name in OF_CHANCE and problems.kind not in FIXED_KINDS:
            raise SpecError(f"the relation {word.name!r} states a rate of false alarms, "
                            "which holds only if no worst "
                            f"case is searched for; problems of kind {problems.kind!r} are searched.", where=word.where)
        if word.name in OF_ROUNDINGS and problems.kind not in GENERIC_KINDS:
            raise SpecError(f"the relation {word.name!r} assumes independent rounding errors, "
                            "but problems of kind "
                            f"{problems.kind!r} have structure. Kinds without: "
                            f"{', '.join(sorted(GENERIC_KINDS))}.", where=word.where)


def _bind_word(word: Word, table: Mapping[str, Callable[..., Any]], kind: str,
               clause: Clause) -> BoundWord:
    poses = next((poses for poses, words in TABLES.items() if word.name in words), None)
    if kind == "transform" and poses and word.name not in table:
        raise SpecError(
            f"the transform {word.name!r} is for {PROBLEM_NAMES[poses]}. "
            "Give the clause a problem of such a kind.",
            where=word.where)
    function = look_up(word.name, table, kind, word.where)
    return BoundWord(function,
                     check_word(word, function, kind, drawn=clause.draw, runs=clause.runs))


PROBLEM_NAMES: Mapping[Kind, str] = {Kind.ATTENTION: "attention's problems",
                                     Kind.LAYER: "layers' problems",
                                     Kind.ROTARY: "rotary embeddings' problems"}
"""By the kind that a transform takes, what a message calls its problems."""


def _check_faults(clause: Clause, faults: Collection[str] | None) -> None:
    for name in clause.refuted_by:
        if faults is not None and name not in faults:
            raise SpecError.unknown("fault", name, faults, where=clause.place_of("refuted_by"))


def _pick_value(choices: Sequence[int], number: int, word: str) -> int:
    if not choices:
        raise NoClaim(f"there is no {word.replace('_', ' ')} to draw")
    return Drawn(choices[number % len(choices)])


