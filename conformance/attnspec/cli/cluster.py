"""`--cluster`: the same run, whose jobs the workers of a cluster carry out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.core import ParameterSource

from attnspec.cli.numbers import ParsedText
from attnspec.cluster.messages import read_address
from attnspec.core.errors import UsageError
from attnspec.core.files import write_whole
from attnspec.core.plan import Plan
from attnspec.record.codec import to_line
from attnspec.record.events import Done, Event, ItemStarted, Key, RunFinished, SubjectKnown, key_of
from attnspec.record.read import read_events
from attnspec.runner.session import Result
from attnspec.subjects.installed import asked_workers

if TYPE_CHECKING:
    from attnspec.cluster.carrier import ClusterCarrier

Given: TypeAlias = Any  # what click hands over


CLUSTER = click.option("--cluster", default=None, type=ParsedText("cluster", read_address), metavar="ADDRESS",
                       help="Have the workers of a Dask cluster judge: tcp://HOST:PORT of its scheduler, or local:N "
                            "for N workers here.")


@contextmanager
def cluster_carrier(options: dict[str, Given]) -> Iterator[ClusterCarrier | None]:
    """What `CLUSTER` adds to a command, taken out of its options: the connection, while the command runs.

    Whether a subject can be judged, its workers are asked. Raises UsageError for a cluster that cannot judge.
    """
    address = options.pop("cluster")
    if address is None:
        yield None
        return
    _refuse_other_division(options)
    from attnspec.cluster.carrier import ClusterCarrier  # noqa: PLC0415  (weight: hypothesis and distributed)
    from attnspec.cluster.connection import connect_cluster  # noqa: PLC0415  (as above)
    from attnspec.cluster.messages import WorkerQuestion  # noqa: PLC0415  (as above)
    from attnspec.cluster.workforce import ClusterWorkers, resources_for  # noqa: PLC0415  (as above)
    from attnspec.spec.load import load_spec  # noqa: PLC0415  (weight: YAML)

    plan = _what_is_named(options)
    digest = load_spec(plan.spec, plan.spec_add).digest
    with connect_cluster(address, resources_for(plan.device)) as connection:
        workforce = ClusterWorkers(connection, WorkerQuestion(plan, str(Path.cwd())), digest)
        workforce.begin()
        with asked_workers(workforce.why_missing()):
            yield ClusterCarrier(connection, workforce, lambda line: click.echo(line, err=True))


def _refuse_other_division(options: Mapping[str, Given]) -> None:
    if options.get("shard"):
        raise UsageError("--cluster divides the run itself. Leave out --shard.")
    if click.get_current_context().get_parameter_source("workers") is ParameterSource.COMMANDLINE:
        raise UsageError("--cluster says who works. Leave out -n.")


def _what_is_named(options: Mapping[str, Given]) -> Plan:
    """A plan without targets that names what workers must have: places, and where subjects live."""
    folders = tuple(str(Path(folder).absolute()) for folder in options.get("implementations", ()))
    spec, baseline = options.get("spec", ""), options.get("baseline")
    return Plan((), implementations=folders, spec=str(Path(spec).absolute()) if spec else "",
                spec_add=tuple(options.get("spec_add", ())), python=options.get("python", ""),
                host=options.get("host", ""), device=options.get("device", ""), baseline=str(baseline or ""))


def in_run_order(carrier: ClusterCarrier | None, record: Path | None, result: Result) -> None:
    """What came from many workers, in the order of the plan."""
    if carrier and record:
        put_in_order(record, result.done)


# Puts a record in the order of its plan


Position = tuple[float, int]


def put_in_order(path: Path, done: Sequence[Done]) -> None:
    """Rewrite the record as one worker would have written it: jobs in this order, a subject's card after its first job
    has begun. What the record had before stays in front. A pipe or a device is left alone.

    Raises RecordError, and UsageError where the file cannot be written; then it stays as it was.
    """
    if not path.is_file():
        return
    places = _Places.from_done(done)
    events = sorted((event for _, event in read_events(path)), key=places.of_event)
    write_whole(path, "".join(f"{to_line(event)}\n" for event in events), "record")


@dataclass(frozen=True, slots=True)
class _Places:
    """The place of each job, and of the first of each subject."""

    jobs: dict[Key, int]
    subjects: dict[str, int]

    @classmethod
    def from_done(cls, done: Sequence[Done]) -> _Places:
        """Numbers the jobs in this order."""
        jobs = {key_of(each): place for place, each in enumerate(done)}
        subjects: dict[str, int] = {}
        for (subject, _, _), place in jobs.items():
            subjects.setdefault(subject, place)
        return cls(jobs, subjects)

    def of_event(self, event: Event) -> Position:
        """Where it belongs; what belongs to no job of this run comes after the header."""
        if isinstance(event, Done):
            return self.jobs.get(key_of(event), -1), 2
        if isinstance(event, RunFinished):
            return math.inf, 0
        if isinstance(event, SubjectKnown):
            return self.subjects.get(event.card.id, -1), 1
        if isinstance(event, ItemStarted):
            return self.jobs.get((event.subject, event.clause, event.dtype), -1), 0
        return -math.inf, 0
