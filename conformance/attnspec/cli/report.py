"""The commands about records: `report` makes a page of them, and `combine` joins them.

A page may compare them with an earlier record (`--against`) or a folder of them (`--history`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attnspec.cli.baseline import conditions_of, why_no_baseline
from attnspec.cli.options import keep_apart
from attnspec.cli.outputs import BADGE, JUNIT, write_badge, write_junit
from attnspec.core import paths
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, FileLocation, UsageError
from attnspec.core.keyword import GRADIENTS_PROFILE
from attnspec.core.surroundings import kind_of
from attnspec.core.texts import count_noun
from attnspec.record.events import Event, RunFinished, SubjectKnown
from attnspec.record.outcome import SubjectCard
from attnspec.record.read import PACKED_SUFFIXES, RunRecord, read_records, unpacked_name
from attnspec.record.write import combine_records
from attnspec.runner.jobs import count_verdicts, exit_code
from attnspec.subjects.baseline import write_baseline
from attnspec.subjects.findings import known_findings
from attnspec.subjects.manifest import read_manifest

if TYPE_CHECKING:
    from attnspec.report.comparison import History, KnownGroup, RunComparison


@click.command("combine")
@click.argument("records", nargs=-1, required=True, metavar="RECORD...",
                type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path, dir_okay=False),
              metavar="OUT",
              help="The file for the joined record.")
@click.option("--findings", "is_retold", is_flag=True,
              help="Take findings and notes from findings.yaml and the manifests as they are now, not from the "
                   "record. Where the record does not say where backward passes round, take that from the manifests.")
@click.option("--finished", "is_whole", is_flag=True,
              help="Of a run that was interrupted, take the subjects that it has finished: the others can be "
                   "judged by a second run (--without).")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), metavar="PAGE",
              help="Also write an HTML page.")
def combine_(records: tuple[Path, ...], out: Path, html: Path | None, *, is_retold: bool,
             is_whole: bool) -> int:
    """Join records of different environments, made with the same spec, into one.

    Exit codes: that of the whole run where its shards were joined, else 0; 2 if the records cannot
    be joined.
    """
    keep_apart({"--out": out}, records)
    keep_apart({"--html": html}, [*records, out])
    read = {path: read_records(path) for path in records}
    if html:
        from attnspec.report.sections import check_shown  # noqa: PLC0415  (weight: Jinja2)

        check_shown([run for runs in read.values() for run in runs],
                    way=f"Leave out --html; then, in a checkout: python -m evaluation report {out}")
    combine_records(records, out, retold=with_findings if is_retold else None,
                    ended=footer_of if is_whole else None)
    for path, runs in read.items():
        tell_interrupted(path, runs)
    joined = read_records(out)
    items = sum(run.finished_count for run in joined)
    click.echo(f"record: {out} ({len(joined)} runs, {items} items)")
    if html:
        from attnspec.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

        write_page(joined, html)
        click.echo(f"page: {html}")
    return _explained_exit_code([run for run in joined if run.header.shard])


def _explained_exit_code(shards: Sequence[RunRecord]) -> int:
    """The exit code of the run that these shards divide, which it prints; 0 without shards."""
    if not shards:
        return CONFORMS
    codes = {run.footer.exit_code if run.footer else CANNOT_RUN for run in shards}
    code = next(each for each in (VIOLATED, CANNOT_RUN, CONFORMS) if each in codes)
    if outcomes := [outcome for run in shards for outcome in run.outcomes]:
        # what a shard has not judged may not apply to its subjects: that says nothing of the others
        code = exit_code(outcomes, strict=any(run.header.strict for run in shards),
                         interrupted=any(run.is_interrupted for run in shards))
    click.echo(f"{count_noun(len(shards), 'shard')} of one run, which ends with exit code {code}")
    return code


def footer_of(record: RunRecord) -> RunFinished:
    """Makes the footer of a run that ends with these outcomes."""
    ends = datetime.fromisoformat(record.header.started) + timedelta(seconds=seconds_of(record))
    code = exit_code(record.outcomes, strict=record.header.strict, interrupted=False)
    return RunFinished(ends.isoformat(timespec="seconds"), seconds_of(record),
                       count_verdicts(record.outcomes), code)


def seconds_of(record: RunRecord) -> float:
    """How long a run took: the seconds of its items, divided by its workers."""
    workers = int(record.header.environment.get("workers", 1))
    return sum(outcome.seconds for outcome in record.outcomes) / workers


def with_findings(event: Event) -> Event:
    """Replaces the findings of a subject's card by those that its library has now."""
    if not isinstance(event, SubjectKnown):
        return event
    card = event.card
    library, _, name = card.id.partition("/")
    folder = paths.folder("implementations") / library
    if not (name and folder.is_dir()):
        return replace(event, card=replace(card, findings=()))
    findings = known_findings(folder, card.id, card.version,
                              kind_of(card.lives_in.get("device", "")))
    note = next((each.note for each in read_manifest(folder) if each.id == card.id), card.note)
    backward = card.backward or _backward_precision(card, folder)
    return replace(event, card=replace(card, findings=findings, note=note, backward=backward))


def _backward_precision(card: SubjectCard, folder: Path) -> dict[str, str]:
    """Reads off a manifest where the backward pass rounds, for records that lack it."""
    if GRADIENTS_PROFILE not in card.claims:
        return {}
    from attnspec.subjects.attributes import backward_named_of  # noqa: PLC0415  (weight: NumPy)

    declared = (each.declaration for each in read_manifest(folder) if each.id == card.id)
    return next((backward_named_of(each, card.precision) for each in declared), {})


def tell_interrupted(path: Path, runs: tuple[RunRecord, ...]) -> None:
    """Prints a line for each run of a file that was interrupted."""
    for number, run in enumerate(runs, start=1):
        if run.is_interrupted:
            which = f"run {number}" if len(runs) > 1 else "the run"
            items = f"{run.tried_count} of {run.header.items} items"
            click.echo(f"{path}: {which} was interrupted; {items} are known")


MOST_LISTED = 20  # entries of each group that are told
FEWER_LISTED = {"still failing": 3}  # of a group that asks for nothing
_COLOURS = {"new": "red", "new (advised)": "yellow", "changed": "yellow", "fixed": "green"}
_EXIT_COLOURS = {VIOLATED: "red", CONFORMS: "green", CANNOT_RUN: "yellow"}

AGAINST = click.option("--against", type=click.Path(path_type=Path, dir_okay=False), metavar="OLD",
                       help="Compare with this earlier record: what is new, changed and fixed. Exit code 1 if "
                            "anything is new.")
HISTORY = click.option("--history", type=click.Path(path_type=Path, file_okay=False, exists=True),
                       metavar="DIR",
                       help="A folder of records: also draw how many clauses each run violates, oldest run first.")


def compared_with(old: Path, records: Sequence[RunRecord]) -> RunComparison:
    """Compares records with an earlier one. Raises UsageError if one has no verdicts."""
    from attnspec.report.comparison import compare_runs  # noqa: PLC0415  (weight: only this option needs it)

    earlier = read_records(old)
    _ensure_verdicts(earlier, FileLocation(str(old)))
    _ensure_verdicts(records)
    return compare_runs(records, earlier)


def read_history(folder: Path, records: Sequence[RunRecord]) -> History:
    """Reads the history of a folder. Raises UsageError if these records have no verdicts."""
    from attnspec.report.comparison import make_history  # noqa: PLC0415  (weight: only this option needs it)

    _ensure_verdicts(records)
    return make_history(map(read_records, record_files(folder)), records)


def _ensure_verdicts(runs: Sequence[RunRecord], where: FileLocation | None = None) -> None:
    if not any(run.outcomes for run in runs):
        raise UsageError("there are no verdicts to compare: `attnspec check` and `attnspec audit` "
                         "write records that have some.", where=where)


def record_files(folder: Path) -> list[Path]:
    """The records of a folder, also packed ones, without empty files. Raises UsageError if there
    is none.
    """
    files = {file for ending in ("", *PACKED_SUFFIXES)
             for file in folder.glob(f"*.jsonl{ending}") if file.stat().st_size}
    if not files:
        raise UsageError("there is no record (*.jsonl, *.jsonl.gz, *.jsonl.xz) in this folder. Keep one of each "
                         "run there: attnspec check … --record FOLDER/NAME.jsonl",
                         where=FileLocation(str(folder)))
    return sorted(files)


def format_comparison(compared: RunComparison, old: Path) -> Iterator[str]:
    """Writes how the run compares with the earlier one, and at the end what that comes to."""
    yield f"Against {old}: {compared.headline}."
    yield from (f"  {note}" for note in compared.notes)
    if compared.differences:
        facts = "; ".join(f"{each.name} ({each.old} → {each.new})" for each in compared.differences)
        yield f"  The runs differ in {facts}."
    for group in compared.groups:
        yield from _format_known_entries(group)
    code = compared.exit_code
    yield click.style(f"{_verdict_of_comparison(compared)} (exit code {code})",
                      fg=_EXIT_COLOURS[code], bold=True)


def _format_known_entries(group: KnownGroup) -> Iterator[str]:
    name = click.style(group.name, fg=_COLOURS.get(group.name), bold=group.name in _COLOURS)
    most = FEWER_LISTED.get(group.name, MOST_LISTED)
    for each in group.entries[:most]:
        yield f"  {name}: {each.subject} {each.clause.id} ({each.dtypes}) {each.says}"
    if len(group.entries) > most:
        yield f"  {name}: and {len(group.entries) - most} more, on the page"


def _verdict_of_comparison(compared: RunComparison) -> str:
    from attnspec.report.comparison import Status  # noqa: PLC0415  (weight: as above)

    if compared.exit_code == VIOLATED:
        return f"{count_noun(compared.count(Status.NEW), 'new failure')}."
    if compared.exit_code == CONFORMS:
        return "No new failure."
    return "It is not known whether anything is new."


@click.command()
@click.argument("records", nargs=-1, required=True, metavar="RECORD...",
                type=click.Path(path_type=Path))
@click.option("-o", "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="The page to write. [default: next to the first record]")
@JUNIT
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Also write an audit as Markdown; with --against, the comparison.")
@click.option("--baseline", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
              help="Also write the failures as a baseline, or update one that exists.")
@BADGE
@AGAINST
@HISTORY
def report(records: tuple[Path, ...], html: Path | None, against: Path | None,
           history: Path | None,
           **wanted: Path | None) -> int:
    """Write one page from the records of one or several runs.

    Exit codes: 0 written; with --against 1 if a failure is new, 2 if nobody can say so.
    """
    from attnspec.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)
    from attnspec.report.sections import check_shown  # noqa: PLC0415  (weight: see above)

    page = html or unpacked_name(records[0]).with_suffix(".html")
    earlier = [*(record_files(history) if history else ()), *([against] if against else ())]
    written = {"--html": page, **{f"--{name}": path for name, path in wanted.items()}}
    keep_apart(written, [*records, *earlier])
    files = {path: read_records(path) for path in records}
    for path, runs in files.items():
        check_shown(runs, way=f"In a checkout: python -m evaluation report {path}")
    read = [run for runs in files.values() for run in runs]
    compared = compared_with(against, read) if against else None
    past = read_history(history, read) if history else None
    write_page(read, page, compared=compared, past=past)
    for path, runs in files.items():
        tell_interrupted(path, runs)
    click.echo(f"page: {page}")
    for name, target in wanted.items():
        if target is not None:
            _write_further(name, read, target, compared)
            click.echo(f"{name}: {target}")
    if compared is None or against is None:
        return CONFORMS
    for line in format_comparison(compared, against):
        click.echo(line)
    return compared.exit_code


def _write_further(name: str, records: list[RunRecord], path: Path,
                   compared: RunComparison | None) -> None:
    from attnspec.report.comparison import write_comparison  # noqa: PLC0415  (weight: only --against needs it)

    if name == "markdown" and compared:
        write_comparison(compared, path)
    else:
        _WRITERS[name](records, path)


def _write_audit(records: list[RunRecord], path: Path) -> None:
    from attnspec.report.audit.markdown import write_audit_text  # noqa: PLC0415  (weight: Jinja2)

    write_audit_text(records, path)


def _write_known(records: list[RunRecord], path: Path) -> None:
    for record in records:
        if why := why_no_baseline(path, record.outcomes, is_whole=not record.is_interrupted):
            raise UsageError(f"the baseline was not written, since {why}.",
                             where=FileLocation(str(path)))
        write_baseline(path, record.outcomes, strict=record.header.strict,
                       conditions=conditions_of(record.header))


_WRITERS: Mapping[str, Callable[[list[RunRecord], Path], None]] = {
    "badge": write_badge, "baseline": _write_known, "junit": write_junit, "markdown": _write_audit}
