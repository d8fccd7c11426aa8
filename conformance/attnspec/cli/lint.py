"""`lint` and `schema`: what keeps the law, the manifests and the generated files in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from attnspec.cli.options import IMPLEMENTATIONS, SPEC, SPEC_ADD
from attnspec.core.characters import visible
from attnspec.core.conventions import PROFILES
from attnspec.core.errors import (
    CANNOT_RUN,
    CONFORMS,
    AttnspecError,
    ManifestError,
    Place,
    RecordError,
    SpecError,
    UsageError,
    hint,
)
from attnspec.core.files import write_whole
from attnspec.core.nouns import DType
from attnspec.core.paths import folder
from attnspec.record import schema as record
from attnspec.spec.clause import Spec
from attnspec.spec.load import load_spec
from attnspec.spec.refutations import COMMAND, FILE, read_refutations
from attnspec.spec.yaml_lines import shown
from attnspec.subjects.baseline import Entry, Key, parsed_case, read_baseline, read_entries
from attnspec.subjects.manifest import Registered
from attnspec.subjects.registry import registered

T = TypeVar("T")


@click.command()
@click.option("--baseline", "baselines", multiple=True, metavar="PATH", type=click.Path(exists=True, path_type=Path),
              help="A baseline to check, too, or a folder of them.")
@IMPLEMENTATIONS
@SPEC
@SPEC_ADD
def lint(
    baselines: tuple[Path, ...], implementations: tuple[str, ...], spec: str, spec_add: tuple[str, ...],
) -> int:
    """Check the spec, every word in it, the manifests, the generated files, and baselines."""
    problems = list(_problems(implementations, spec, spec_add))
    if baselines and not problems:  # they speak of what stands in the spec and in the manifests
        problems = list(_of_baselines(baselines, load_spec(spec, spec_add), implementations))
    for problem in problems:
        click.echo(visible(str(problem)))
    click.echo(f"{len(problems)} to mend." if problems else "Nothing to mend.")
    return CANNOT_RUN if problems else CONFORMS


def _problems(implementations: Sequence[str], spec: str, spec_add: Sequence[str]) -> Iterator[AttnspecError]:
    wrong: list[AttnspecError] = []
    law, found = _tried(lambda: load_spec(spec, spec_add, tell=wrong.append))
    yield from (*found, *wrong)
    if law:
        yield from _badly_put(law)
        yield from _tried(lambda: _check_matrix(law))[1]
    subjects, found = _tried(lambda: tuple(registered(implementations).values()))
    yield from found
    if law and subjects and not wrong:  # a clause that cannot be read is not there for manifests to name
        yield from (problem for subject in subjects for problem in _strangers(subject, law))
    if not spec:
        yield from _tried(check_schemas)[1]


def _tried(look: Callable[[], T]) -> tuple[T | None, list[AttnspecError]]:
    try:
        return look(), []
    except AttnspecError as problem:
        return None, [problem]


def _badly_put(law: Spec) -> Iterator[AttnspecError]:
    """One mistake of each clause whose words mean nothing; of the others, what makes them claim less than it seems."""
    from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.compile import compile_spec  # noqa: PLC0415  (weight: NumPy)
    from attnspec.vocabulary.empty_claims import empty_claims  # noqa: PLC0415  (weight: NumPy)

    for clause in law.clauses:
        _, found = _tried(partial(compile_spec, replace(law, clauses=(clause,)), faults=CATALOGUE.keys()))
        yield from found or empty_claims(clause)


def _check_matrix(law: Spec) -> None:
    """Raise SpecError for a clause or fault of the matrix that does not exist, and for a fault that it lacks."""
    from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy)

    found, where = read_refutations(law), Place(shown(law.folder / FILE))
    clauses = [clause.id for clause in law.clauses]
    for noun, named, known in (("clause", found.convictions, clauses), ("fault", found.faults, list(CATALOGUE))):
        if gone := sorted(set(named).difference(known)):
            raise SpecError(f"there is no {noun} {gone[0]!r}. Make the file anew: {COMMAND}.", where=where)
    if found.convictions and (missing := [name for name in CATALOGUE if name not in found.faults]):
        raise SpecError(f"no clause convicts the fault {missing[0]!r}. Put it to the clauses: attnspec refutations "
                        f"--fault {missing[0]} --write.", where=where)


def _strangers(subject: Registered, law: Spec) -> Iterator[ManifestError]:
    """Profiles that are claimed and clauses that are deviated from, but do not exist."""
    clauses = [clause.id for clause in law.clauses]
    named = [("profile", name, list(PROFILES)) for name in subject.declaration.claims]
    named += [("clause", deviation.clause, clauses) for deviation in subject.declaration.deviations]
    for noun, name, known in named:
        if name not in known:
            yield ManifestError(f"{name!r} is not a known {noun}.{hint(name, known, noun)}", where=subject.where)


def _of_baselines(paths: Iterable[Path], law: Spec, implementations: Sequence[str]) -> Iterator[AttnspecError]:
    """Entries that no run can meet."""
    subjects, clauses = registered(implementations), [clause.id for clause in law.clauses]
    for path in paths:
        for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
            _, found = _tried(partial(read_baseline, file, implementations))
            yield from found or _of_entries(read_entries(file), subjects, clauses)


def _of_entries(
    entries: Iterable[Entry], subjects: Mapping[str, Registered], clauses: Sequence[str],
) -> Iterator[AttnspecError]:
    seen: set[Key] = set()
    for entry in entries:
        yield from _tried(partial(_check_entry, entry, subjects, clauses))[1]
        if entry.key in seen:
            yield UsageError(f"{' '.join(entry.key)} is listed twice.", where=entry.where)
        seen.add(entry.key)


def _check_entry(entry: Entry, subjects: Mapping[str, Registered], clauses: Sequence[str]) -> None:
    """Raise UsageError for a subject, a clause, a dtype or a case that is none."""
    if entry.clause not in clauses:
        raise UsageError.unknown("clause", entry.clause, clauses, where=entry.where)
    if ":" not in entry.subject and entry.subject not in subjects:
        raise UsageError.unknown("subject", entry.subject, subjects, where=entry.where)
    if entry.subject in subjects and DType(entry.dtype) not in subjects[entry.subject].declaration.dtypes:
        raise UsageError(f"{entry.subject} does not take {entry.dtype}, so it cannot fail there.", where=entry.where)
    if entry.case:
        parsed_case(entry.case, entry.where)


@click.command()
@click.option("--write", "task", flag_value="write", help="Write the generated files anew.")
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
        click.echo("The schemas are those of the code.")
    else:
        click.echo(record.schema_text() if task == "record" else _spec_schema(), nl=False)


def check_schemas() -> None:
    """Raise RecordError for a generated file that is not what the code makes."""
    for path, text in _generated():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            where = Place(shown(path))
            raise RecordError("is not what the code makes. Write it anew: attnspec schema --write.", where=where)


def _generated() -> Iterator[tuple[Path, str]]:
    yield folder("spec") / "schema.json", _spec_schema()
    yield folder("reports") / "page" / "record.schema.json", record.schema_text()


def _spec_schema() -> str:
    from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy)
    from attnspec.vocabulary.schema import schema_text  # noqa: PLC0415  (weight: see below)
    from attnspec.vocabulary.tables import WORDS  # noqa: PLC0415  (weight: NumPy)

    return schema_text(WORDS, CATALOGUE)
