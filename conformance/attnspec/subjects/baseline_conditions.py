"""The part of a baseline that keeps what it was made under, so that a regression is told from what nobody looked for.

A clause that was put to a subject when the list was made is listed, or it did not fail. One that is newer, or that the
run left out, may have failed then as it fails now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from attnspec.core.nouns import DType, Effort, Level, Novelty, Verdict
from attnspec.core.plan import is_left_out
from attnspec.record.events import Key
from attnspec.record.outcome import Outcome
from attnspec.spec.fields import Fields

_MADE = ("attnspec", "spec", "effort", "seed", "strict", "tried")
_TRIED = ("subjects", "dtypes", "clauses")
DIGITS = 12
"""So many digits of the spec's digest are kept."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a run was made under.

    attnspec: its version.  spec: the first digits of the digest of all clauses.  is_strict: recommendations gated, too.
    """

    attnspec: str
    spec: str
    effort: Effort
    seed: int
    is_strict: bool = False

    def differences(self, before: Conditions) -> str:
        """What may be behind a difference beside the subject: `the clauses have changed since`; empty for nothing."""
        told = []
        if self.attnspec != before.attnspec:
            told.append(f"attnspec was {before.attnspec} then")
        if self.spec != before.spec:
            told.append("the clauses have changed since")
        if self.seed != before.seed:
            told.append(f"the seed was {before.seed} then")
        return " and ".join(told)


TriedConditions = Mapping[Key, Conditions]
"""By subject, clause and dtype: under what a clause was put when the list was made."""


def read_conditions(fields: Fields) -> TriedConditions:
    """What a baseline lists under `made`; nothing in a file of before. Raises UsageError with file and line."""
    found: dict[Key, Conditions] = {}
    for made in fields.read_each("made", "what the list was made under", optional=True):
        made.refuse_other_keys(_MADE)
        conditions = Conditions(made.text("attnspec"), made.text("spec"), made.choice("effort", Effort),
                                made.integer("seed"), made.flag("strict", default=False))
        for tried in made.read_each("tried", "what was tried"):
            found.update(dict.fromkeys(_keys(tried), conditions))
    return found


def _keys(tried: Fields) -> Iterator[Key]:
    tried.refuse_other_keys(_TRIED)
    for subject in tried.texts("subjects"):
        for dtype in tried.choices("dtypes", DType, kind="dtype"):
            yield from ((subject, clause, dtype.value) for clause in tried.text("clauses").split())


def conditions_after(before: TriedConditions, outcomes: Iterable[Outcome],
                     now: Conditions | None) -> list[dict[str, object]]:
    """The entries that a baseline is written with: what was put now, and what was put before and is not put now.

    now: what the outcomes were found under; None where nobody knows, as of an old record.
    """
    put = [(each.subject, each.clause, each.dtype.value) for each in outcomes if _is_put(each)]
    after = {key: conditions for key, conditions in before.items() if now or key not in set(put)}
    if now:
        after.update(dict.fromkeys(put, now))
    groups: dict[Conditions, set[Key]] = defaultdict(set)
    for key, conditions in after.items():
        groups[conditions].add(key)
    order = sorted(groups, key=lambda each: (each.attnspec, each.spec, each.effort.value, each.seed, each.is_strict))
    return [_conditions_as_yaml(conditions, groups[conditions]) for conditions in order]


def _is_put(outcome: Outcome) -> bool:
    """Whether the clause was put to the subject. One that does not apply was: that it applies now is the subject's."""
    if outcome.verdict is Verdict.NOT_RUN:
        return False
    return not (outcome.verdict is Verdict.INAPPLICABLE and is_left_out(outcome.reason))


def _conditions_as_yaml(conditions: Conditions, keys: Iterable[Key]) -> dict[str, object]:
    strict = {"strict": True} if conditions.is_strict else {}
    return {"attnspec": conditions.attnspec, "spec": conditions.spec, "effort": conditions.effort.value,
            "seed": conditions.seed, **strict, "tried": list(_groups(keys))}


def _groups(keys: Iterable[Key]) -> Iterator[dict[str, object]]:
    """The clauses that were put at the same dtypes to the same subjects, together."""
    dtypes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for subject, clause, dtype in keys:
        dtypes[subject, clause].add(dtype)
    order = [dtype.value for dtype in DType]
    clauses: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (subject, clause), names in sorted(dtypes.items()):
        clauses[subject, tuple(sorted(names, key=order.index))].append(clause)
    subjects: dict[tuple[tuple[str, ...], str], list[str]] = defaultdict(list)
    for (subject, at), put in clauses.items():
        subjects[at, " ".join(put)].append(subject)
    for (at, text), whom in sorted(subjects.items(), key=lambda each: (each[1], each[0])):
        yield {"subjects": whom, "dtypes": list(at), "clauses": text}


def novelty_of(failure: Outcome, tried: TriedConditions, now: Conditions) -> tuple[Novelty, str]:
    """How a failure that is not listed stands to what the list was made under, with the rest of a sentence about it.

    Of a subject that the list was not made for, and of a list of before, nobody knows: it is new, and gates.
    """
    if not any(subject == failure.subject for subject, _, _ in tried):
        return Novelty.NEW, ""
    before = tried.get((failure.subject, failure.clause, failure.dtype.value))
    if before is None:
        is_newer = not any(clause == failure.clause for _, clause, _ in tried) and now.spec not in {
            each.spec for each in tried.values()}
        return Novelty.UNTRIED, "the clause is newer than the list" if is_newer else (
            "it was not tried when the list was made")
    if failure.level is Level.SHOULD and now.is_strict and not before.is_strict:
        return Novelty.UNTRIED, "recommendations were not held against it when the list was made"
    if _rank(now.effort) > _rank(before.effort):
        return Novelty.DEEPER, f"the list was made at effort {before.effort.value}"
    besides = now.differences(before)
    return Novelty.REGRESSION, f"it did not fail when the list was made{f' ({besides})' if besides else ''}"


def _rank(effort: Effort) -> int:
    return list(Effort).index(effort)
