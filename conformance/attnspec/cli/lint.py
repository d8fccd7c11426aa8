"""`lint` and `schema`: what keeps the law, the manifests and the generated files in order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from attnspec.cli.lint_libraries import of_libraries, unshown
from attnspec.cli.mistakes import badly_put, tried
from attnspec.cli.options import IMPLEMENTATIONS, SPEC, SPEC_ADD
from attnspec.cli.own_faults import of_own_clauses
from attnspec.core.characters import other_script, visible
from attnspec.core.errors import (
    CANNOT_RUN,
    CONFORMS,
    AttnspecError,
    FileLocation,
    RecordError,
    SpecError,
    UsageError,
    quoted,
)
from attnspec.core.files import write_whole
from attnspec.core.nouns import DType
from attnspec.core.paths import folder
from attnspec.core.targets import is_bare
from attnspec.record import schema as record
from attnspec.record.events import Key
from attnspec.spec.clause import Spec
from attnspec.spec.load import load_spec
from attnspec.spec.refutations import COMMAND, FILE, read_refutations
from attnspec.spec.yaml_lines import shown
from attnspec.subjects.baseline import Entry, parsed_case, read_baseline, read_conventions, read_entries, read_tried
from attnspec.subjects.manifest import Registered
from attnspec.subjects.outline import meant, no_such_function
from attnspec.subjects.registry import registered


@click.command()
@click.option("--baseline", "baselines", multiple=True, metavar="PATH", type=click.Path(exists=True, path_type=Path),
              help="Also check this baseline, or a folder of them.")
@click.option("--audit", "audits", multiple=True, metavar="RECORD", type=click.Path(exists=True, path_type=Path),
              help="Also check that each serious finding has a failing clause in these records of an audit.")
@IMPLEMENTATIONS
@SPEC
@SPEC_ADD
def lint(
    baselines: tuple[Path, ...], audits: tuple[Path, ...], implementations: tuple[str, ...], spec: str,
    spec_add: tuple[str, ...],
) -> int:
    """Check the spec, every word in it, the manifests, the generated files, and baselines."""
    problems = list(_problems(implementations, spec, spec_add))
    if spec_add and not problems:  # a clause that means nothing detects nothing
        problems = list(of_own_clauses(load_spec(spec, spec_add)))
    if baselines and not problems:  # they speak of what stands in the spec and in the manifests
        problems = list(of_baselines(baselines, load_spec(spec, spec_add), implementations))
    if audits and not problems:
        problems = list(unshown(audits, implementations))
    for problem in problems:
        click.echo(visible(str(problem)))
    click.echo(f"{len(problems)} to mend." if problems else "No problem found.")
    return CANNOT_RUN if problems else CONFORMS


def _problems(implementations: Sequence[str], spec: str, spec_add: Sequence[str]) -> Iterator[AttnspecError]:
    law, found = read_law(spec, spec_add)
    yield from found
    if law:
        yield from of_law(law)
    # manifests speak of the shipped law, and a clause that cannot be read is not there for them to name
    yield from of_libraries(implementations, None if spec or found else law)
    if not spec:
        yield from tried(check_schemas)[1]


def read_law(spec: str, spec_add: Sequence[str]) -> tuple[Spec | None, list[AttnspecError]]:
    """The law without the clauses that cannot be read, if the rest can, and all that is wrong."""
    wrong: list[AttnspecError] = []
    law, found = tried(lambda: load_spec(spec, spec_add, tell=wrong.append))
    return law, [*found, *wrong]


def of_law(law: Spec) -> Iterator[AttnspecError]:
    """Clauses whose words mean nothing or claim less than it seems, and what the matrix of faults lacks."""
    yield from badly_put(law)
    yield from _unused_problems(law)
    yield from _untranslated(law)
    yield from tried(lambda: _check_matrix(law))[1]


def _unused_problems(law: Spec) -> Iterator[AttnspecError]:
    """Named problems that mean nothing; those that clauses start from are compiled with the clauses."""
    from attnspec.trials.compile import domain_of  # noqa: PLC0415  (weight: NumPy)

    used = {clause.given.name for clause in law.clauses}
    for name, word in law.problems.items():
        if name not in used:
            yield from tried(partial(domain_of, word, word.where))[1]


def _untranslated(law: Spec) -> Iterator[SpecError]:
    """Quotes that most readers cannot read, and that say nothing in English beside."""
    for clause in law.clauses:
        for citation in clause.because:
            if (letter := other_script(citation.quote)) and not citation.translation:
                yield SpecError(f"the quote of {citation.cite!r} under {clause.id!r} is not in English ({letter!r}). "
                                "Add 'translation' beside it: the quote in English.", where=citation.where)


def _check_matrix(law: Spec) -> None:
    """Raise SpecError for a clause or fault of the matrix that does not exist, and for a fault that it lacks."""
    from attnspec.faults.catalogue import CATALOGUE, FIXED  # noqa: PLC0415  (weight: NumPy)

    found, where = read_refutations(law), FileLocation(shown(law.folder / FILE), 1)
    clauses = [clause.id for clause in law.clauses]
    faults = found.faults  # gathered anew whenever it is asked for
    for noun, named, known in (("clause", found.convictions, clauses), ("fault", faults, list(CATALOGUE))):
        if gone := sorted(set(named).difference(known)):
            raise SpecError(f"there is no {noun} {quoted(gone[0])}. Write the file again: {COMMAND}.",
                            where=_named_at(law.folder / FILE, gone[0]))
    if found.convictions and (missing := [fault.name for fault in FIXED if fault.name not in faults]):
        raise SpecError(f"no clause detects the fault {missing[0]!r}. Try the clauses on it: python -m evaluation "
                        f"refutations --fault {missing[0]} --write.", where=where)


def _named_at(path: Path, name: str) -> FileLocation:
    """The line of a JSON file where a name stands first."""
    before, _, _ = path.read_text(encoding="utf-8").partition(json.dumps(name))
    return FileLocation(shown(path), before.count("\n") + 1)


def of_baselines(paths: Iterable[Path], law: Spec, implementations: Sequence[str]) -> Iterator[AttnspecError]:
    """Entries that no run can meet."""
    subjects, clauses = registered(implementations), [clause.id for clause in law.clauses]
    for path in paths:
        for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
            found = [wrong for read in (partial(read_baseline, folders=implementations), read_conventions, read_tried)
                     for wrong in tried(partial(read, file))[1]]
            yield from found[:1] or _of_entries(read_entries(file), subjects, clauses)


def _of_entries(
    entries: Iterable[Entry], subjects: Mapping[str, Registered], clauses: Sequence[str],
) -> Iterator[AttnspecError]:
    seen: set[Key] = set()
    entries = tuple(entries)
    own = {entry.subject for entry in entries if is_bare(entry.subject)}
    for entry in entries:
        yield from tried(partial(_check_entry, entry, subjects, clauses))[1]
        yield from tried(partial(_check_own, entry, own))[1]
        if entry.key in seen:
            yield UsageError(f"{' '.join(entry.key)} is listed twice.", where=entry.where)
        seen.add(entry.key)


def _check_entry(entry: Entry, subjects: Mapping[str, Registered], clauses: Sequence[str]) -> None:
    """Raise UsageError for a subject, a clause, a dtype or a case that is none."""
    if entry.clause not in clauses:
        raise UsageError.unknown("clause", entry.clause, clauses, where=entry.where)
    if not is_bare(entry.subject) and entry.subject not in subjects:
        raise UsageError.unknown("subject", entry.subject, subjects, where=entry.where)
    if entry.subject in subjects and DType(entry.dtype) not in subjects[entry.subject].declaration.dtypes:
        raise UsageError(f"{entry.subject} does not take {entry.dtype}, so it cannot fail there.", where=entry.where)
    if entry.case:
        parsed_case(entry.case, entry.where)


def _check_own(entry: Entry, own: Iterable[str]) -> None:
    """Raise UsageError for a function that its file lacks, or that is nowhere and near to another that is listed."""
    wrong = no_such_function(entry.subject) if is_bare(entry.subject) else None
    if wrong:
        raise UsageError(str(wrong), where=entry.where)
    if near := meant(entry.subject, own):
        raise UsageError.unknown("subject", entry.subject, near, where=entry.where)


@click.command()
@click.option("--write", "task", flag_value="write", help="Write the generated files again.")
@click.option("--check", "task", flag_value="check", help="Fail if a generated file is stale.")
@click.option("--record", "task", flag_value="record", help="Print the schema of a record, not of the spec.")
def schema(task: str | None) -> None:
    """Print the JSON Schema of the spec; or write or check the generated schemas (spec and record)."""
    if task == "write":
        for path, text in _generated():
            write_whole(path, text, "schema")
            click.echo(f"wrote {path}")
    elif task == "check":
        check_schemas()
        click.echo("The schemas match the code.")
    else:
        click.echo(record.schema_text() if task == "record" else _spec_schema(), nl=False)


def check_schemas() -> None:
    """Raise RecordError for a generated file that is not what the code makes."""
    for path, text in _generated():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            where = FileLocation(shown(path))
            raise RecordError("is out of date. Write it again: attnspec schema --write.", where=where)


def _generated() -> Iterator[tuple[Path, str]]:
    yield folder("spec") / "schema.json", _spec_schema()
    yield folder("reports") / "page" / "record.schema.json", record.schema_text()


def _spec_schema() -> str:
    from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy)
    from attnspec.vocabulary.schema import schema_text  # noqa: PLC0415  (weight: see below)
    from attnspec.vocabulary.tables import WORDS  # noqa: PLC0415  (weight: NumPy)

    return schema_text(WORDS, CATALOGUE)
