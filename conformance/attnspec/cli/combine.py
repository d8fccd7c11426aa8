"""`combine`: the records of several environments as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import click

from attnspec.cli.apart import keep_apart
from attnspec.core import paths
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED
from attnspec.core.keyword_nouns import GRADIENTS_PROFILE
from attnspec.core.surroundings import kind_of
from attnspec.record.events import Event, RunFinished, SubjectKnown
from attnspec.record.outcome import SubjectCard
from attnspec.record.read import RunRecord, read_records
from attnspec.record.write import combine_records
from attnspec.report.figures import count_noun
from attnspec.runner.jobs import count_verdicts, exit_code
from attnspec.subjects.findings import known_findings
from attnspec.subjects.manifest import read_manifest


@click.command("combine")
@click.argument("records", nargs=-1, required=True, metavar="RECORD...", type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="OUT",
              help="The file for the joined record.")
@click.option("--findings", "is_retold", is_flag=True,
              help="Take findings and notes from findings.yaml and the manifests as they are now, not from the record. "
                   "Where the record does not say where backward passes round, take that from the manifests.")
@click.option("--finished", "is_whole", is_flag=True,
              help="Of a run that was interrupted, take the subjects that it has finished: the others can be judged by "
                   "a second run (--without).")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), metavar="PAGE",
              help="Also write an HTML page.")
def combine_(records: tuple[Path, ...], out: Path, html: Path | None, *, is_retold: bool, is_whole: bool) -> int:
    """Join records of different environments, made with the same spec, into one.

    Exit codes: that of the whole run where its shards were joined, else 0; 2 if the records cannot be joined.
    """
    keep_apart({"--out": out}, records)
    keep_apart({"--html": html}, [*records, out])
    read = {path: read_records(path) for path in records}
    if html:
        from attnspec.report.sections import check_shown  # noqa: PLC0415  (weight: Jinja2)

        check_shown([run for runs in read.values() for run in runs],
                    way=f"Leave out --html; then, in a checkout: python -m evaluation report {out}")
    combine_records(records, out, retold=with_findings if is_retold else None, ended=footer_of if is_whole else None)
    for path, runs in read.items():
        tell_interrupted(path, runs)
    joined = read_records(out)
    click.echo(f"record: {out} ({len(joined)} runs, {sum(run.done for run in joined)} items)")
    if html:
        from attnspec.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

        write_page(joined, html)
        click.echo(f"page: {html}")
    return _told_code([run for run in joined if run.header.shard])


def _told_code(shards: Sequence[RunRecord]) -> int:
    """The exit code of the run that was divided into these, which no shard could know; 0 where none was."""
    if not shards:
        return CONFORMS
    ended = {run.footer.exit_code if run.footer else CANNOT_RUN for run in shards}
    code = next(each for each in (VIOLATED, CANNOT_RUN, CONFORMS) if each in ended)
    if outcomes := [outcome for run in shards for outcome in run.outcomes]:
        # what a shard has not judged may not apply to its subjects: that says nothing of the others
        code = exit_code(outcomes, strict=any(run.header.strict for run in shards),
                         interrupted=any(run.interrupted for run in shards))
    click.echo(f"{count_noun(len(shards), 'shard')} of one run, which ends with exit code {code}")
    return code


def footer_of(record: RunRecord) -> RunFinished:
    """The footer of a run that ends with these outcomes: how long they took, and with which exit code."""
    ends = datetime.fromisoformat(record.header.started) + timedelta(seconds=seconds_of(record))
    code = exit_code(record.outcomes, strict=record.header.strict, interrupted=False)
    return RunFinished(ends.isoformat(timespec="seconds"), seconds_of(record), count_verdicts(record.outcomes), code)


def seconds_of(record: RunRecord) -> float:
    """What the items of a run took, which its workers shared."""
    return sum(outcome.seconds for outcome in record.outcomes) / int(record.header.environment.get("workers", 1))


def with_findings(event: Event) -> Event:
    """A subject's card with what is known of its library now: an explanation is often found after the trial."""
    if not isinstance(event, SubjectKnown):
        return event
    card = event.card
    library, _, name = card.id.partition("/")
    folder = paths.folder("implementations") / library
    if not (name and folder.is_dir()):
        return replace(event, card=replace(card, findings=()))
    found = known_findings(folder, card.id, card.version, kind_of(card.lives_in.get("device", "")))
    note = next((each.note for each in read_manifest(folder) if each.id == card.id), card.note)
    return replace(event, card=replace(card, findings=found, note=note,
                                       backward=card.backward or _backward(card, folder)))


def _backward(card: SubjectCard, folder: Path) -> dict[str, str]:
    """Where the backward pass rounds, as its manifest says: records of earlier versions do not tell it."""
    if GRADIENTS_PROFILE not in card.claims:
        return {}
    from attnspec.subjects.declared_precision import backward_named_of  # noqa: PLC0415  (weight: NumPy)

    declared = (each.declaration for each in read_manifest(folder) if each.id == card.id)
    return next((backward_named_of(each, card.precision) for each in declared), {})


def tell_interrupted(path: Path, runs: tuple[RunRecord, ...]) -> None:
    """One line for each run in a file that did not reach its end."""
    for number, run in enumerate(runs, start=1):
        if run.interrupted:
            which = f"run {number}" if len(runs) > 1 else "the run"
            click.echo(f"{path}: {which} was interrupted; {run.known} of {run.header.items} items are known")
