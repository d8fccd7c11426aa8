"""`lint` and `schema`: whether the spec, the manifests and the generated files are in order.

Clauses of one's own must detect the faults that they name and hold of sound formulations;
manifests and findings may name only what exists.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attnspec.cli.explain import collect_mistakes, find_badly_put
from attnspec.cli.options import IMPLEMENTATIONS, SPEC, SPEC_ADD
from attnspec.core.declaration import Harm
from attnspec.core.errors import (
    CANNOT_RUN,
    CONFORMS,
    AttnspecError,
    FileLocation,
    ManifestError,
    RecordError,
    SpecError,
    UsageError,
    hint,
    quote_value,
)
from attnspec.core.nouns import FAILURES, DType, Level, Verdict, is_bare
from attnspec.core.paths import folder, write_whole
from attnspec.core.plan import FAULT, SOUND
from attnspec.core.surroundings import kind_of
from attnspec.core.texts import escape_hidden, other_script
from attnspec.engine.expectations import check_deviations
from attnspec.faults.size_family import SEEDED
from attnspec.record import codec as record
from attnspec.record.events import Key
from attnspec.record.read import read_records
from attnspec.spec.clause import CASES, COMMAND, EFFORT, FILE, SEED, Clause, Spec, read_refutations, themes_of
from attnspec.spec.load import load_spec
from attnspec.spec.yaml_lines import shown_path
from attnspec.subjects.baseline import (
    BaselineEntry,
    parse_case,
    read_baseline,
    read_conventions,
    read_entries,
    read_tried,
)
from attnspec.subjects.findings import Finding, read_findings
from attnspec.subjects.manifest import Registered, library_folders
from attnspec.subjects.outline import guess_meant_target, no_such_function
from attnspec.subjects.registry import registered_subjects

if TYPE_CHECKING:
    from attnspec.trials.compile import Check


@click.command()
@click.option("--baseline", "baselines", multiple=True, metavar="PATH",
              type=click.Path(exists=True, path_type=Path),
              help="Also check this baseline, or a folder of them.")
@click.option("--audit", "audits", multiple=True, metavar="RECORD",
              type=click.Path(exists=True, path_type=Path),
              help="Also check that each serious finding has a failing clause in these records of an audit.")
@IMPLEMENTATIONS
@SPEC
@SPEC_ADD
def lint(
    baselines: tuple[Path, ...], audits: tuple[Path, ...], implementations: tuple[str, ...],
    spec: str,
    spec_add: tuple[str, ...],
) -> int:
    """Check the spec, every word in it, the manifests, the generated files, and baselines."""
    problems = list(_find_problems(implementations, spec, spec_add))
    if spec_add and not problems:  # a clause that means nothing detects nothing
        problems = list(check_own_clauses(load_spec(spec, spec_add)))
    if baselines and not problems:  # they speak of what stands in the spec and in the manifests
        problems = list(check_baselines(baselines, load_spec(spec, spec_add), implementations))
    if audits and not problems:
        problems = list(find_unshown_findings(audits, implementations))
    for problem in problems:
        click.echo(escape_hidden(str(problem)))
    click.echo(f"{len(problems)} to mend." if problems else "No problem found.")
    return CANNOT_RUN if problems else CONFORMS


def _find_problems(implementations: Sequence[str], spec: str,
                   spec_add: Sequence[str]) -> Iterator[AttnspecError]:
    law, found = read_law(spec, spec_add)
    yield from found
    if law:
        yield from check_law(law)
    # manifests speak of the shipped law, and a clause that cannot be read is not there for them to name
    yield from check_libraries(implementations, None if spec or found else law)
    if not spec:
        yield from collect_mistakes(check_schemas)[1]


def read_law(spec: str, spec_add: Sequence[str]) -> tuple[Spec | None, list[AttnspecError]]:
    """Reads the spec without the clauses that cannot be read; returns it with all mistakes."""
    wrong: list[AttnspecError] = []
    law, found = collect_mistakes(lambda: load_spec(spec, spec_add, tell=wrong.append))
    return law, [*found, *wrong]


def check_law(law: Spec) -> Iterator[AttnspecError]:
    """Yields mistakes in the words of clauses, and what the matrix of faults lacks."""
    yield from find_badly_put(law)
    yield from _unused_problems(law)
    yield from _find_untranslated_quotes(law)
    yield from collect_mistakes(lambda: _check_matrix(law))[1]


def _unused_problems(law: Spec) -> Iterator[AttnspecError]:
    """Yields the mistakes of named problems that no clause uses."""
    from attnspec.trials.compile import domain_of  # noqa: PLC0415  (weight: NumPy)

    used = {clause.given.name for clause in law.clauses}
    for name, word in law.problems.items():
        if name not in used:
            yield from collect_mistakes(partial(domain_of, word, word.where))[1]


def _find_untranslated_quotes(law: Spec) -> Iterator[SpecError]:
    """Yields quotes in another script that have no translation."""
    for clause in law.clauses:
        for citation in clause.because:
            if (letter := other_script(citation.quote)) and not citation.translation:
                yield SpecError(f"the quote of {citation.cite!r} under {clause.id!r} is not in English "
                                f"({letter!r}). Add 'translation' beside it: the quote in English.",
                                where=citation.where)


def _check_matrix(law: Spec) -> None:
    """Raise SpecError if the matrix names what does not exist, or lacks a fault."""
    from attnspec.faults.catalogue import CATALOGUE, FIXED  # noqa: PLC0415  (weight: NumPy)

    matrix, path = read_refutations(law), law.folder / FILE
    clauses = [clause.id for clause in law.clauses]
    faults = matrix.faults  # is collected at each access
    for noun, names, known in (("clause", matrix.convictions, clauses),
                               ("fault", faults, list(CATALOGUE))):
        if gone := sorted(set(names).difference(known)):
            raise SpecError(f"there is no {noun} {quote_value(gone[0])}. Write the file again: {COMMAND}.",
                            where=_first_line_naming(path, gone[0]))
    missing = [fault.name for fault in FIXED if fault.name not in faults]
    if matrix.convictions and missing:
        raise SpecError(f"no clause detects the fault {missing[0]!r}. Try the clauses on it: "
                        f"python -m evaluation refutations --fault {missing[0]} --write.",
                        where=FileLocation(shown_path(path), 1))


def _first_line_naming(path: Path, name: str) -> FileLocation:
    """The line of a JSON file in which a name first stands."""
    before, _, _ = path.read_text(encoding="utf-8").partition(json.dumps(name))
    return FileLocation(shown_path(path), before.count("\n") + 1)


def check_baselines(paths: Iterable[Path], law: Spec,
                    implementations: Sequence[str]) -> Iterator[AttnspecError]:
    """Yields the entries of lists of known failures that no run can meet."""
    subjects, clauses = registered_subjects(implementations), [clause.id for clause in law.clauses]
    for path in paths:
        for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
            readers = (partial(read_baseline, folders=implementations), read_conventions, read_tried)
            mistakes = [mistake for read in readers
                        for mistake in collect_mistakes(partial(read, file))[1]]
            yield from mistakes[:1] or _check_entries(read_entries(file), subjects, clauses)


def _check_entries(
    entries: Iterable[BaselineEntry], subjects: Mapping[str, Registered], clauses: Sequence[str],
) -> Iterator[AttnspecError]:
    seen: set[Key] = set()
    entries = tuple(entries)
    own = {entry.subject for entry in entries if is_bare(entry.subject)}
    for entry in entries:
        yield from collect_mistakes(partial(_check_entry, entry, subjects, clauses))[1]
        yield from collect_mistakes(partial(_check_own, entry, own))[1]
        if entry.key in seen:
            yield UsageError(f"{' '.join(entry.key)} is listed twice.", where=entry.where)
        seen.add(entry.key)


def _check_entry(entry: BaselineEntry, subjects: Mapping[str, Registered],
                 clauses: Sequence[str]) -> None:
    """Raise UsageError for a subject, clause, dtype or case that does not exist."""
    if entry.clause not in clauses:
        raise UsageError.unknown("clause", entry.clause, clauses, where=entry.where)
    subject = subjects.get(entry.subject)
    if subject is None and not is_bare(entry.subject):
        raise UsageError.unknown("subject", entry.subject, subjects, where=entry.where)
    if subject and DType(entry.dtype) not in subject.declaration.dtypes:
        raise UsageError(f"{entry.subject} does not take {entry.dtype}, so it cannot fail there.",
                         where=entry.where)
    if entry.case:
        parse_case(entry.case, entry.where)


def _check_own(entry: BaselineEntry, own: Iterable[str]) -> None:
    """Raise UsageError for an own function that does not exist, or is like another entry."""
    wrong = no_such_function(entry.subject) if is_bare(entry.subject) else None
    if wrong:
        raise UsageError(str(wrong), where=entry.where)
    if near := guess_meant_target(entry.subject, own):
        raise UsageError.unknown("subject", entry.subject, near, where=entry.where)


@click.command()
@click.option("--write", "task", flag_value="write", help="Write the generated files again.")
@click.option("--check", "task", flag_value="check", help="Fail if a generated file is stale.")
@click.option("--record", "task", flag_value="record",
              help="Print the schema of a record, not of the spec.")
def schema(task: str | None) -> None:
    """Print the JSON Schema of the spec; or write or check the generated schemas (spec and record)."""
    if task == "write":
        for path, text in _generated_files():
            write_whole(path, text, "schema")
            click.echo(f"wrote {path}")
    elif task == "check":
        check_schemas()
        click.echo("The schemas match the code.")
    else:
        click.echo(record.schema_text() if task == "record" else _spec_schema(), nl=False)


def check_schemas() -> None:
    """Raise RecordError for a generated file that is not what the code generates."""
    for path, text in _generated_files():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            where = FileLocation(shown_path(path))
            raise RecordError("is out of date. Write it again: attnspec schema --write.",
                              where=where)


def _generated_files() -> Iterator[tuple[Path, str]]:
    yield folder("spec") / "schema.json", _spec_schema()
    yield folder("reports") / "page" / "record.schema.json", record.schema_text()


def _spec_schema() -> str:
    from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy)
    from attnspec.vocabulary.tables import WORDS, schema_text  # noqa: PLC0415  (weight: NumPy)

    return schema_text(WORDS, CATALOGUE)


def check_own_clauses(law: Spec) -> Iterator[SpecError]:
    """Yields what is wrong with own clauses whose words are right."""
    own = [clause for clause in law.clauses if clause.where.file in law.added]
    checks = _checks(law) if own else {}
    yield from _find_false_promises(own, checks)
    yield from _find_undetected_faults(own, checks)


def _find_undetected_faults(own: Iterable[Clause],
                            checks: Mapping[str, Check]) -> Iterator[SpecError]:
    """Yields the faults that an own clause names and does not detect. Faults whose sizes a seed
    draws are not tried: the first cases do not show them.
    """
    from attnspec.faults.sizes.families import FAMILIES  # noqa: PLC0415  (weight: NumPy)

    pairs = [(clause, fault) for clause in own for fault in clause.refuted_by
             if fault.partition(SEEDED)[0] not in FAMILIES]
    for clause, fault in pairs:
        if why := _explain_no_conviction(checks, clause.id, fault):
            command = f"attnspec check 'fault/*' --spec-add {clause.where.file} --clause {clause.id}"
            yield SpecError(f"{clause.id!r} does not detect {fault!r}, which it names: {why}. "
                            f"Name one that it does: {command} tells.",
                            where=clause.place_of("refuted_by"))


def _find_false_promises(own: Iterable[Clause],
                         checks: Mapping[str, Check]) -> Iterator[SpecError]:
    """Yields the own `must` clauses that a sound formulation violates."""
    for clause in own:
        if clause.level is Level.MUST and (name := _find_accused_formulation(checks, clause.id)):
            sound = f"{SOUND}{name}"
            command = f"attnspec check {sound} --spec-add {clause.where.file} --clause {clause.id}"
            yield SpecError(f"{clause.id!r} is false: {sound}, whose answers are right by the definition, "
                            "violates it. Mend it, or say under `given` where it holds: "
                            f"{command} shows a case.", where=clause.where)


def _find_accused_formulation(checks: Mapping[str, Check], clause: str) -> str:
    """The first sound formulation that can be judged, if it violates the clause; else empty."""
    from attnspec.faults.sound import EVERY  # noqa: PLC0415  (weight: NumPy)
    from attnspec.faults.subject import own_subject  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.own_subjects import try_first_cases  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.sizes import Dealer  # noqa: PLC0415  (weight: NumPy)

    check, dtype = checks[clause], DType.FLOAT32
    for name in EVERY:
        subject = own_subject(SOUND + name)
        if not check.why_not_put(subject):
            dealer = Dealer(subject, lambda: checks, EFFORT, SEED)
            tally = try_first_cases(check, SOUND + name, dtype, dealer)
            return name if tally.failure is not None else ""
    return ""


def _checks(law: Spec) -> Mapping[str, Check]:
    from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.compile import compile_spec  # noqa: PLC0415  (weight: NumPy)

    return compile_spec(law, faults=CATALOGUE.keys())


def _explain_no_conviction(checks: Mapping[str, Check], clause: str, fault: str) -> str:
    """Why the clause does not detect the fault; empty if it does."""
    from attnspec.faults.catalogue import fault_named  # noqa: PLC0415  (weight: NumPy)
    from attnspec.faults.subject import own_subject  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.own_subjects import try_first_cases  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.sizes import Dealer  # noqa: PLC0415  (weight: NumPy)

    subject, check = own_subject(FAULT + fault), checks[clause]
    if lacking := check.why_not_put(subject):
        return f"it cannot be put to it ({lacking})"
    dealer = Dealer(subject, lambda: checks, EFFORT, SEED)
    dtypes = (dtype for dtype in DType if dtype not in fault_named(fault).equivalents)
    tallies = (try_first_cases(check, FAULT + fault, dtype, dealer) for dtype in dtypes)
    if any(tally.failure is not None for tally in tallies):
        return ""
    return f"its first {CASES} cases hold at every dtype"


_QUOTATION_MARKS = 2


def check_libraries(folders: Sequence[str], law: Spec | None, *,
                    library: str = "") -> Iterator[AttnspecError]:
    """Yields the mistakes of manifests and findings.

    A file that cannot be read has one mistake; of any other, every name that does not exist is
    one.  library: the only one to check; empty: all.  law: the spec that they speak of; None if it
    cannot be read, or is another one.
    """
    libraries, mistakes = collect_mistakes(lambda: tuple(library_folders(folders)))
    yield from mistakes
    for place in (each for each in libraries or () if library in ("", each.name)):
        subjects, mistakes = collect_mistakes(partial(registered_subjects, folders,
                                                      library=place.name))
        yield from mistakes
        findings, mistakes = collect_mistakes(lambda place=place: tuple(read_findings(place)))  # type: ignore[misc]  # bound at once
        yield from mistakes
        for subject in (subjects or {}).values():
            yield from _check_subject(subject, law)
        for finding in findings or ():
            yield from _check_finding(finding, subjects, law)


def _check_subject(subject: Registered, law: Spec | None) -> Iterator[AttnspecError]:
    """Yields mistakes in a precision class, and names of things that do not exist."""
    from attnspec.subjects.attributes import check_precision, check_width  # noqa: PLC0415  (weight: NumPy)

    declaration = subject.declaration
    _, mistakes = collect_mistakes(partial(check_precision, declaration, subject.where))
    yield from mistakes or collect_mistakes(partial(check_width, declaration, subject.where))[1]
    if law:
        clauses = [clause.id for clause in law.clauses]
        yield from collect_mistakes(partial(check_deviations, subject.id, declaration, clauses))[1]
        if subject.document and subject.document not in law.bibliography:
            yield ManifestError.unknown("source of the bibliography", subject.document,
                                        law.bibliography, where=subject.where)


def _check_finding(
    finding: Finding, subjects: Mapping[str, Registered] | None, law: Spec | None,
) -> Iterator[AttnspecError]:
    """Yields what a finding leaves out, and names in it of things that do not exist."""
    yield from _find_unsaid(finding)
    if subjects is not None:
        yield from _find_unmatched_patterns(finding, "subject", finding.subjects, subjects)
    ids = [clause.id for clause in law.clauses] if law else []
    if law:
        patterns = [*finding.clauses, *(clause for seen in finding.seen for clause in seen.clauses)]
        yield from _find_unmatched_patterns(finding, "clause", patterns, ids)
    for case in finding.replays:
        if subjects is not None:
            concerned = [name for name in subjects if finding.concerns(name)]
            if case.subject not in concerned:
                yield ManifestError.unknown("subject that the finding is about", case.subject,
                                            concerned, where=finding.where)
        if law and case.clause not in ids:
            yield ManifestError.unknown("clause", case.clause, ids, where=finding.where)
        yield from collect_mistakes(partial(_check_recipe, case.recipe, finding.where))[1]


def find_unshown_findings(records: Sequence[Path],
                          folders: Sequence[str]) -> Iterator[AttnspecError]:
    """Yields serious findings about subjects of these records that no failure shows.

    If a page says that a query sees later keys, a clause has to have seen it. Findings about
    certain processors are not asked for: a record does not say what its processor can do.
    """
    runs = [run for path in records for run in read_records(path)]
    cards = {known.card.id: known.card for run in runs for known in run.subjects}
    failures = [each for run in runs for each in run.outcomes
                if each.verdict in FAILURES or each.verdict is Verdict.EXPECTED]
    for finding in chain.from_iterable(map(read_findings, library_folders(folders))):
        if not (finding.harm and finding.harm.is_serious) or finding.processor:
            continue
        judged = next((card for card in cards.values()
                       if finding.concerns(card.id) and finding.is_of(card.version)
                       and finding.is_on(kind_of(card.lives_in.get("device", "")))), None)
        if judged and not any(map(finding.explains, failures)):
            yield ManifestError(f"the finding {finding.id!r} says: {finding.harm.says}; but no clause fails of "
                                f"it in {', '.join(map(str, records))}. Give it a case of its own, under "
                                f"'replays', and judge {judged.id} anew.", where=finding.where)


def _find_unsaid(finding: Finding) -> Iterator[AttnspecError]:
    """Complains of a finding that explains too much, or leaves out what it has to say."""
    name = f"the finding {finding.id!r}"
    if "*" in finding.clauses:
        yield ManifestError(f"{name} explains every clause ('*'), whatever was seen. Leave out 'clauses', and say "
                            "under 'seen' what a failure has to show.", where=finding.where)
    patterns = [each for each in finding.clauses if "*" in each and each != "*"]
    if patterns and not finding.seen:
        yield ManifestError(f"{name} explains {quote_value(patterns[0])}, whatever was seen. Name the clauses, or "
                            "say under 'seen' what a failure has to show.", where=finding.where)
    if finding.harm is None:
        yield ManifestError(f"{name} does not say what it does to a user. Add 'harm', one of "
                            f"{', '.join(each.value for each in Harm)}.", where=finding.where)
    if finding.harm is Harm.DOCUMENTED_CHOICE and finding.documented.count('"') < _QUOTATION_MARKS:
        yield ManifestError(f"{name} is a documented choice, and 'documented' has no words of the library. Quote "
                            'them in "…", and say where they are written.', where=finding.where)


def _check_recipe(recipe: str, where: FileLocation) -> None:
    """Raise UsageError, with file and line, for a text that is no recipe."""
    from attnspec.subjects.baseline import parse_case  # noqa: PLC0415  (weight: NumPy)

    parse_case(recipe, where)


def _find_unmatched_patterns(finding: Finding, noun: str, patterns: Sequence[str],
                             names: Collection[str]) -> Iterator[AttnspecError]:
    known = [*names, *themes_of(names)] if noun == "clause" else names
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            yield ManifestError(f"the finding {finding.id!r} names {quote_value(pattern)}, but there is no such "
                                f"{noun}.{hint(pattern, known, noun)}", where=finding.where)
