"""Keeps a baseline: the failures that a gate knew when it was set up, so that only new ones stop a
run.

The first run writes it (`attnspec check mine:attend --baseline known.yaml`); later it changes only
on request. It also keeps which conventions a subject followed: a convention that is not declared
is probed anew in each run, so only the list shows that it changed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from attnspec.core.conventions import CONVENTIONS
from attnspec.core.declaration import Declaration, Deviation
from attnspec.core.errors import FileLocation, UsageError
from attnspec.core.nouns import FAILURES, DType, Effort, Level, Novelty, Verdict, does_gate_run, is_bare
from attnspec.core.paths import write_whole
from attnspec.core.plan import is_left_out
from attnspec.record.events import Key
from attnspec.record.outcome import Outcome
from attnspec.spec.yaml_lines import Fields, load_yaml, shown_path
from attnspec.subjects.findings import Finding, findings_of

if TYPE_CHECKING:
    from attnspec.problems.problem import Recipe


_MADE_FIELDS = ("attnspec", "spec", "effort", "seed", "strict", "tried")
_TRIED_FIELDS = ("subjects", "dtypes", "clauses")
DIGEST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a run was made under.  attnspec: its version.  spec: the first digits of the digest of
    all clauses.  is_strict: whether recommendations gated too.
    """

    attnspec: str
    spec: str
    effort: Effort
    seed: int
    is_strict: bool = False

    def differences(self, before: Conditions) -> str:
        """Says what beside the subject may explain a difference; empty for nothing."""
        told = []
        if self.attnspec != before.attnspec:
            told.append(f"attnspec was {before.attnspec} then")
        if self.spec != before.spec:
            told.append("the clauses have changed since")
        if self.seed != before.seed:
            told.append(f"the seed was {before.seed} then")
        return " and ".join(told)


TriedConditions = Mapping[Key, Conditions]
"""By subject, clause and dtype, the conditions under which the clause was put."""


def read_conditions(fields: Fields) -> TriedConditions:
    """Reads what a baseline lists under `made`. Raises UsageError with file and line."""
    found: dict[Key, Conditions] = {}
    for made in fields.read_each("made", "what the list was made under", optional=True):
        made.refuse_other_keys(_MADE_FIELDS)
        conditions = Conditions(made.text("attnspec"), made.text("spec"),
                                made.choice("effort", Effort),
                                made.integer("seed"), made.flag("strict", default=False))
        for tried in made.read_each("tried", "what was tried"):
            found.update(dict.fromkeys(_list_keys(tried), conditions))
    return found


def _list_keys(tried: Fields) -> Iterator[Key]:
    tried.refuse_other_keys(_TRIED_FIELDS)
    for subject in tried.texts("subjects"):
        for dtype in tried.choices("dtypes", DType, kind="dtype"):
            for clause in tried.text("clauses").split():
                yield subject, clause, dtype.value


def conditions_after(before: TriedConditions, outcomes: Iterable[Outcome],
                     now: Conditions | None) -> list[dict[str, object]]:
    """Returns the entries to write: what was put now, and what was put before and is not put now.
    now: the conditions of the outcomes; None where they are not known, as for an old record.
    """
    put = [(each.subject, each.clause, each.dtype.value) for each in outcomes if _is_put(each)]
    after = {key: conditions for key, conditions in before.items() if now or key not in set(put)}
    if now:
        after.update(dict.fromkeys(put, now))
    groups: dict[Conditions, set[Key]] = defaultdict(set)
    for key, conditions in after.items():
        groups[conditions].add(key)
    order = sorted(groups, key=lambda each: (each.attnspec, each.spec, each.effort.value,
                                             each.seed, each.is_strict))
    return [_conditions_as_yaml(conditions, groups[conditions]) for conditions in order]


def _is_put(outcome: Outcome) -> bool:
    """Says whether a clause was put; so was one that the subject makes inapplicable."""
    if outcome.verdict is Verdict.NOT_RUN:
        return False
    return not (outcome.verdict is Verdict.INAPPLICABLE and is_left_out(outcome.reason))


def _conditions_as_yaml(conditions: Conditions, keys: Iterable[Key]) -> dict[str, object]:
    strict = {"strict": True} if conditions.is_strict else {}
    return {"attnspec": conditions.attnspec, "spec": conditions.spec,
            "effort": conditions.effort.value,
            "seed": conditions.seed, **strict, "tried": list(_group_clauses(keys))}


def _group_clauses(keys: Iterable[Key]) -> Iterator[dict[str, object]]:
    """Groups the clauses that were put at the same dtypes to the same subjects."""
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
    """Compares an unlisted failure with the list's conditions, and says the rest of a sentence
    about it. Without such a subject, or for an old list, it is new, and gates.
    """
    if not any(subject == failure.subject for subject, _, _ in tried):
        return Novelty.NEW, ""
    before = tried.get((failure.subject, failure.clause, failure.dtype.value))
    if before is None:
        is_same_spec = now.spec in {each.spec for each in tried.values()}
        if is_same_spec or any(clause == failure.clause for _, clause, _ in tried):
            return Novelty.UNTRIED, "it was not tried when the list was made"
        return Novelty.UNTRIED, "the clause is newer than the list"
    if failure.level is Level.SHOULD and now.is_strict and not before.is_strict:
        return Novelty.UNTRIED, "recommendations were not held against it when the list was made"
    efforts = list(Effort)
    if efforts.index(now.effort) > efforts.index(before.effort):
        return Novelty.DEEPER, f"the list was made at effort {before.effort.value}"
    besides = now.differences(before)
    since = f" ({besides})" if besides else ""
    return Novelty.REGRESSION, f"it did not fail when the list was made{since}"


_CONVENTION_FIELDS = ("subject", "convention", "answer", "dtypes")
_CONVENTION_FORMS = {"hidden_row": ("mask", "bias", "key_lengths")}
_CONVENTION_NAMES = (*CONVENTIONS,
                     *(f"{name}.{form}" for name, forms in _CONVENTION_FORMS.items()
                       for form in forms))
ConventionKey = tuple[str, str, str]  # subject, dtype, convention


@dataclass(frozen=True, slots=True)
class KnownConvention:
    """The answer that a subject gave at these dtypes.  name: `hidden_row`, or a form of it."""

    subject: str
    name: str
    answer: str
    dtypes: tuple[DType, ...]


def _convention_entry(fields: Fields) -> KnownConvention:
    fields.refuse_other_keys(_CONVENTION_FIELDS)
    name = fields.one_of("convention", _CONVENTION_NAMES)
    answer = fields.one_of("answer", CONVENTIONS[_whole_convention(name)].answers,
                           kind=f"answer to {name}")
    return KnownConvention(fields.text("subject"), name, answer,
                           fields.choices("dtypes", DType, kind="dtype"))


def index_conventions(known: Iterable[KnownConvention]) -> Mapping[ConventionKey, str]:
    """Returns the answers by subject, dtype and convention."""
    return {(each.subject, dtype.value, each.name): each.answer
            for each in known for dtype in each.dtypes}


def changed_convention(outcome: Outcome, known: Mapping[ConventionKey, str]) -> tuple[str, str]:
    """Returns the first convention whose known answer changed, and a sentence; else two ""."""
    found = {each.name: each.answer for each in outcome.probed}
    at = outcome.subject, outcome.dtype.value
    for name in dict.fromkeys(form for each in found for form in (each, *_list_forms(each))):
        was = _find_answer(name, {key[2]: known[key] for key in known if key[:2] == at})
        is_now = _find_answer(name, found)
        if was and was != is_now:
            return name, f"convention {name} was {was}, is {is_now}"
    return "", ""


def _list_forms(name: str) -> Sequence[str]:
    return [f"{name}.{form}" for form in _CONVENTION_FORMS.get(name, ())]


def _whole_convention(name: str) -> str:
    return name.partition(".")[0]


def _find_answer(name: str, answers: Mapping[str, str]) -> str:
    """Returns the answer of a form, or that of its whole convention, or ""."""
    return answers.get(name, answers.get(_whole_convention(name), ""))


def conventions_after(known: Iterable[KnownConvention],
                      outcomes: Iterable[Outcome]) -> list[dict[str, object]]:
    """Returns the entries to write: what was probed now, and what was known of the rest."""
    told = {(each.subject, each.dtype.value, convention.name): convention.answer
            for each in outcomes for convention in each.probed}
    is_probed = {(subject, dtype, _whole_convention(name)) for subject, dtype, name in told}
    kept = {key: answer for key, answer in index_conventions(known).items()
            if (*key[:2], _whole_convention(key[2])) not in is_probed}
    return list(_list_entries({**kept, **told}))


def _list_entries(answers: Mapping[ConventionKey, str]) -> Iterator[dict[str, object]]:
    """Yields an entry for each subject, convention and answer, in a stable order."""
    grouped: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for (subject, dtype, name), answer in answers.items():
        grouped[subject, name, answer].append(dtype)
    order = [dtype.value for dtype in DType]
    for (subject, name, answer), dtypes in sorted(grouped.items()):
        yield {"subject": subject, "convention": name, "answer": answer,
               "dtypes": sorted(dtypes, key=order.index)}


_ENTRY_FIELDS = ("subject", "clause", "dtype", "verdict", "how", "case", "finding", "reason",
                 "processor")
_FILE_HEAD = """\
# The failures that were known when this gate was set up. Written by attnspec. A failure that is listed here is
# expected. The gate fails if a clause fails that did not fail then, and if a listed failure is another one now.
# `conventions` has the answers of a probe where nothing is declared; the gate fails if one changes. `made` has what was
# tried then: what was not, stops nobody. Change the file with --update-baseline, and review the difference.
"""
Findings = Callable[[str], tuple[Finding, ...]]  # of the library of a subject or a finding, by its id


@dataclass(frozen=True, slots=True)
class BaselineEntry:
    """One known failure, as the file has it.

    how: as `Outcome.failure_kind`; empty: in any way.  case: the recipe of a case on which it
    fails.  finding: the id of the finding that explains it.  reason: what was seen, or what
    somebody wrote; empty where a finding tells it.  processor: what the processor has to have for
    it to be expected, such as `avx512_fp16`.
    """

    subject: str
    clause: str
    dtype: str
    verdict: str
    how: str = ""
    case: str = ""
    finding: str = ""
    reason: str = ""
    processor: str = ""
    where: FileLocation = field(default=FileLocation(""), compare=False)

    @property
    def key(self) -> Key:
        """Returns the subject, clause and dtype of an entry."""
        return self.subject, self.clause, self.dtype

    @property
    def is_here(self) -> bool:
        """Says whether a failure is expected on this machine."""
        return not self.processor or self.processor in processor_features()

    def deviation(self, findings: Findings) -> Deviation:
        """Returns a deviation. Raises UsageError for a finding that does not explain it."""
        reason = self._find_explanation(findings).says if self.finding else self.reason or "known"
        return Deviation(self.clause, self.verdict, reason, "", "", (DType(self.dtype),),
                         self.where, self.where.file, self.how, self.case, self.finding)

    def _find_explanation(self, findings: Findings) -> Finding:
        known = {each.id: each for each in findings(self.finding)}
        if self.finding not in known:
            raise UsageError.unknown("finding", self.finding, known, where=self.where)
        finding = known[self.finding]
        if not finding.speaks_of(*self.key):
            raise UsageError(f"{finding.id} does not speak of {' '.join(self.key)}: see "
                             f"{finding.where}. Name the finding that does, or none.",
                             where=self.where)
        return finding


def read_entries(path: Path) -> tuple[BaselineEntry, ...]:
    """Reads the failures that a baseline lists. Raises UsageError with file and line."""
    listed = _read_fields(path).read_each("known", "a known failure", optional=True)
    return tuple(map(_read_entry, listed))


def read_conventions(path: Path) -> tuple[KnownConvention, ...]:
    """Reads the conventions that a baseline lists. Raises UsageError with file and line."""
    listed = _read_fields(path).read_each("conventions", "a known convention", optional=True)
    return tuple(map(_convention_entry, listed))


def read_tried(path: Path) -> TriedConditions:
    """Reads what a baseline was made under. Raises UsageError with file and line."""
    return read_conditions(_read_fields(path))


def _read_fields(path: Path) -> Fields:
    if not path.exists():
        raise UsageError("there is no such file. attnspec check TARGET --baseline FILE makes one.",
                         where=FileLocation(shown_path(path)))
    fields = Fields(load_yaml(path, error=UsageError), "a baseline", UsageError)
    fields.refuse_other_keys(("known", "conventions", "made"))
    return fields


def _read_entry(fields: Fields) -> BaselineEntry:
    fields.refuse_other_keys(_ENTRY_FIELDS)
    verdict = fields.one_of("verdict", sorted(each.value for each in FAILURES),
                            kind="verdict of a failure")
    return BaselineEntry(
        fields.text("subject"), fields.text("clause"),
        fields.choice("dtype", DType, kind="dtype").value, verdict,
        **{name: fields.text(name, "") for name in _ENTRY_FIELDS[4:]}, where=fields.place("clause"))


def read_baseline(path: Path,
                  folders: Sequence[Path | str] = ()) -> Mapping[str, tuple[Deviation, ...]]:
    """Reads this machine's known failures, by subject. Raises UsageError with file and line."""
    known: dict[str, list[Deviation]] = defaultdict(list)
    findings = _read_all_findings(folders)
    for entry in filter(lambda each: each.is_here, read_entries(path)):
        known[entry.subject].append(entry.deviation(findings))
    return {subject: tuple(listed) for subject, listed in known.items()}


def _read_all_findings(folders: Sequence[Path | str]) -> Findings:
    of = cache(partial(findings_of, folders=folders))
    return lambda name: () if is_bare(name) else of(name.partition("/")[0])


def parse_case(case: str, where: FileLocation) -> Recipe:
    """Parses the recipe that an entry records. Raises UsageError with file and line."""
    from attnspec.problems.problem import Recipe  # noqa: PLC0415  (weight: NumPy)

    try:
        return Recipe.parse(case)
    except UsageError as problem:
        raise UsageError(f"'case': {problem}", where=where) from None


def with_baseline(declaration: Declaration, known: Iterable[Deviation]) -> Declaration:
    """Adds a baseline's deviations to those of the manifest, which come first."""
    listed = {(each.clause, dtype) for each in declaration.deviations
              for dtype in each.dtypes or declaration.dtypes}
    more = tuple(each for each in known if (each.clause, each.dtypes[0]) not in listed)
    return replace(declaration, deviations=(*declaration.deviations, *more))


def write_baseline(
    path: Path, outcomes: Iterable[Outcome], *, strict: bool, folders: Sequence[Path | str] = (),
    conditions: Conditions | None = None,
) -> tuple[BaselineEntry, ...]:
    """Writes the failures that gate, the conventions that were probed, and what was tried.

    conditions: those of the outcomes, if they are known. Returns the failures that the file then
    lists.

    The order keeps differences small. An entry that stays keeps its finding or its reason; a new
    one gets the finding that speaks of it, if there is only one. What was not judged, or is
    expected on other processors, stays as it is. The outcomes may themselves be compared with this
    very file.
    """
    outcomes, is_there = tuple(outcomes), path.is_file()
    before = {entry.key: entry for entry in read_entries(path)} if is_there else {}
    judged = {(each.subject, each.clause, each.dtype.value): each for each in outcomes}
    findings = _read_all_findings(folders)
    found = {key: _make_entry(failed, before.get(key), findings) for key, outcome in judged.items()
             if (failed := _find_listed_failure(outcome, is_listed=key in before, strict=strict))}
    known = [entry for key, entry in before.items() if key not in found and (
        key not in judged or judged[key].verdict is Verdict.EXPECTED or not entry.is_here)]
    known += found.values()
    known.sort(key=lambda entry: entry.key)
    listed = [{name: getattr(entry, name) for name in _ENTRY_FIELDS if getattr(entry, name)}
              for entry in known]
    conventions = conventions_after(read_conventions(path) if is_there else (), outcomes)
    made = conditions_after(read_tried(path) if is_there else {}, outcomes, conditions)
    further = {"conventions": conventions, "made": made}
    whole = {"known": listed, **{name: entries for name, entries in further.items() if entries}}
    text = yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, width=110)
    write_whole(path, f"{_FILE_HEAD}{text}", "baseline")
    return tuple(known)


def _find_listed_failure(outcome: Outcome, *, is_listed: bool, strict: bool) -> Outcome | None:
    """Returns the failure to list, as if nothing were known; a manifest's own is not listed."""
    change = outcome.change
    if outcome.verdict is Verdict.UNEXPECTED and change and (is_listed or change.convention):
        outcome = replace(outcome, verdict=change.verdict)
    if outcome.verdict not in FAILURES:
        return None
    gates = does_gate_run(outcome.verdict, outcome.level, strict=strict)
    return outcome if gates else None


def _make_entry(outcome: Outcome, before: BaselineEntry | None,
                findings: Findings) -> BaselineEntry:
    evidence = outcome.evidence
    entry = BaselineEntry(outcome.subject, outcome.clause, outcome.dtype.value,
                          outcome.verdict.value, outcome.failure_kind,
                          evidence.recipe if evidence else "",
                          processor=before.processor if before and before.is_here else "")
    unexplained = replace(outcome, finding="")
    speaking = [each.id for each in findings(outcome.subject) if each.explains(unexplained)]
    if before and before.finding in speaking:
        return replace(entry, finding=before.finding)
    if len(speaking) == 1:
        return replace(entry, finding=speaking[0])
    if before and before.reason and before.how in ("", entry.how):
        return replace(entry, reason=before.reason)
    return replace(entry, reason=evidence.sentence if evidence else outcome.reason)


# What this machine's processor can do


_PROCESSOR_FILE = Path("/proc/cpuinfo")


@cache
def processor_features(told: Path = _PROCESSOR_FILE) -> frozenset[str]:
    """Returns Linux's names of what the processor can do, such as `avx512_fp16`."""
    try:
        text = told.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()
