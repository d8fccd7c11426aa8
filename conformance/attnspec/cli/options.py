"""Options that several commands share, and how their values become a Plan.

Each number has a limit, so that no timer, seed or count overflows. Files that a command writes are
kept apart from each other and from the user's files, because one that is written over is lost.
"""

from __future__ import annotations

import contextlib
import enum
import fnmatch
import math
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from attnspec.cli import completion
from attnspec.core.errors import TargetError, UsageError, hint
from attnspec.core.forms import VARIANTS as MADE
from attnspec.core.nouns import LARGEST_INTEGER, DType, Effort, is_bare
from attnspec.core.paths import portable_argument
from attnspec.core.plan import FAULT, SOUND, Plan, read_shard
from attnspec.core.surroundings import Surroundings
from attnspec.host.lifts import LIFTS

if TYPE_CHECKING:
    from attnspec.cluster.carrier import ClusterCarrier
    from attnspec.cluster.worker import ClusterAddress
    from attnspec.runner.jobs import Sharing
    from attnspec.runner.session import Result

_FILE_BEGINNINGS: Mapping[str, tuple[str, bytes]] = {
    "--record": ("a record", b'{"event"'), "--html": ("a page", b"<"),
    "--junit": ("a JUnit file", b"<"), "--badge": ("a badge", b"{")}
"""By option: what it writes, and how such a file begins."""


def keep_apart(written: Mapping[str, Path | str | None], read: Iterable[Path | str] = ()) -> None:
    """Raise UsageError if an option would write over a file of another option, or of the user.

    written: the paths by option.  read: files that are read. Links and other spellings are seen
    through.
    """
    files: dict[object, tuple[str, object]] = {_identify_file(path): ("", path) for path in read}
    for option, path in written.items():
        if path is None or not str(path) or _is_device(path):
            continue
        other, spelled = files.setdefault(_identify_file(path), (option, path))
        if not other:
            raise UsageError(f"{option} {path} would write over {spelled}, which is read. "
                             "Name another file.")
        if other != option:
            raise UsageError(f"{other} {spelled} and {option} {path} are one file. Name two.")
        _ensure_own_file(option, Path(path))


def _ensure_own_file(option: str, path: Path) -> None:
    """Raise UsageError for a file that no such option has written, unless it is empty."""
    what, beginning = _FILE_BEGINNINGS.get(option, ("", b""))
    first_bytes = b""
    if path.is_file():
        # a file that cannot be read is reported when it is written
        with contextlib.suppress(OSError), path.open("rb") as file:
            first_bytes = file.read(len(beginning))
    if not beginning.startswith(first_bytes):
        raise UsageError(f"{option} {path} would write over a file that is not {what}. "
                         "Name another, or delete it.")


def _identify_file(path: Path | str) -> object:
    """Identifies a file by its number, or by its name without links if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def _is_device(path: Path | str) -> bool:
    """Whether this is a device such as /dev/null, where nothing can be overwritten."""
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False


MOST_SECONDS = 1_000_000.0  # seconds: eleven days


class WholeNumber(click.IntRange):
    """A whole number between two limits."""

    name = "integer"


SEED = WholeNumber(1 - LARGEST_INTEGER, LARGEST_INTEGER - 1)
RANDOM_SEED = "random"


class SeedOrRandom(WholeNumber):
    """A seed, or the word `random`."""

    name = "integer or random"

    def convert(self, value: Given, param: click.Parameter | None,
                ctx: click.Context | None) -> Given:
        """The seed, or the word as it is."""
        if value == RANDOM_SEED:
            return value
        return super().convert(value, param, ctx)


SEED_OR_RANDOM = SeedOrRandom(1 - LARGEST_INTEGER, LARGEST_INTEGER - 1)
WORKERS = WholeNumber(1, 1024)
COUNT = WholeNumber(1, 10**9)


class ParsedText(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A text that a function parses; the option is named if that raises UsageError."""

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Given, param: click.Parameter | None,
                ctx: click.Context | None) -> Given:
        """Reads the text."""
        try:
            if isinstance(value, str):
                return self._read(value)
            return value
        except UsageError as wrong:
            self.fail(str(wrong), param, ctx)


class Seconds(click.FloatRange):
    """A number of seconds above zero, and no larger than timers can take."""

    name = "number of seconds"

    def __init__(self) -> None:
        super().__init__(0, MOST_SECONDS, min_open=True)

    def convert(self, value: Given, param: click.Parameter | None,
                ctx: click.Context | None) -> float:
        """The number. nan is neither too small nor too large, and no number."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return seconds


Given: TypeAlias = Any  # an option's value, converted by its type
F = TypeVar("F", bound=Callable[..., Any])


class OneOf(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """One name of a closed list; converted to a member if the list is an enumeration."""

    def __init__(self, noun: str, members: Iterable[enum.Enum | str]) -> None:
        self.name = noun
        self._members: dict[str, enum.Enum | str] = {
            str(member.value if isinstance(member, enum.Enum) else member): member
            for member in members}

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002  (click's signature)
        """`quick|default|thorough`."""
        return "|".join(self._members)

    def convert(self, value: Given, param: click.Parameter | None,
                ctx: click.Context | None) -> Given:
        """The member of this name."""
        # converted already, or a default that means none
        if not isinstance(value, str) or not value:
            return value
        if value not in self._members:
            self.fail(f"{value!r} is not a known "
                      f"{self.name}.{hint(value, self._members, self.name)}", param, ctx)
        return self._members[value]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002  (click's signature)
        """The names that begin as typed."""
        return [CompletionItem(name) for name in self._members if name.startswith(incomplete)]


MOST_WORKERS = 8  # unless asked for: each holds a framework in memory


def available_cpus() -> int:
    """How many CPUs this process may use, at most MOST_WORKERS."""
    cpus = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    return min(cpus, MOST_WORKERS)


TARGETS = click.argument("targets", nargs=-1, required=True, metavar="TARGET...",
                         shell_complete=completion.targets)
IMPLEMENTATIONS = click.option("--implementations", multiple=True, metavar="DIR",
                               type=click.Path(),
                               help="Another folder of implementations, in addition.")
SPEC = click.option("--spec", default="", metavar="DIR", type=click.Path(),
                    help="Clauses to use instead of the ones shipped.")
SPEC_ADD = click.option("--spec-add", multiple=True, metavar="FILE", type=click.Path(),
                        help="Your own clauses, in addition: a YAML file, or a folder of them.")
LIFT = click.option("--lift", default="", type=OneOf("lift", tuple(LIFTS)),
                    help="Call the subject with tensors, not NumPy arrays.")
DEADLINE = click.option("--deadline", default=300.0, show_default=True, type=Seconds(),
                        metavar="SECONDS",
                        help="How long one clause at one dtype may take.")
VERBOSE = click.option("-v", "--verbose", is_flag=True,
                       help="Show every failure and every reason, not only the first ones.")
MUST_TAKE = click.option("--must-take", multiple=True, metavar="WORDS",
                         help="What they must accept, such as 'causal bias D128 T4096 float16'. Refusing it is a "
                              "failure.")
SIZES = click.option("--sizes", multiple=True, metavar="SIZES",
                     help="Sizes tested at any effort, such as 'B4 H32 Hkv8 T2048 S2048 D128', "
                          "or a file with one per line.")
VARIANTS = click.option("--variants", multiple=True, metavar="NAMES",
                        help="Also judge what a framework makes of the function: "
                             f"{', '.join(MADE)}; several with commas.")
JSON = click.option("--json", "as_json", is_flag=True,
                    help="JSON on standard output; of a run, one object a line.")

PYTHON = click.option("--python", default="", metavar="PATH", type=click.Path(),
                      help="The Python that runs the subjects. It needs their library and NumPy.")
HOST = click.option("--host", default="", metavar="COMMAND",
                    help="A command that starts Python elsewhere, such as 'docker run --rm -i IMAGE python3'.")
DEVICE = click.option("--device", default="", metavar="NAME",
                      help="The device for the arrays, as the framework calls it: cuda, cuda:1, mps. "
                           "[default: the framework's]")
MEMORY = click.option("--memory", default=0.0, metavar="GIB", type=click.FloatRange(0),
                      help="GiB of memory that a subject may take. [default: no limit]")

SHARD = click.option("--shard", default=None, type=ParsedText("shard", read_shard), metavar="I/N",
                     help="Only the I-th of N parts of the run, which several machines divide. "
                          "`combine` joins them.")
TIMINGS = click.option("--timings", metavar="RECORD",
                       type=click.Path(path_type=Path, dir_okay=False),
                       help="With --shard: an earlier record, whose seconds decide who gets what.")

_SELECTION = (
    click.option("--effort", default="default", show_default=True, type=OneOf("effort", Effort),
                 help="How many cases to try."),
    click.option("--profile", "profiles", multiple=True, metavar="NAME",
                 shell_complete=completion.profiles,
                 help="Only the clauses of this profile; '+gradients' adds it to the others, in full."),
    click.option("--clause", "clauses", multiple=True, metavar="ID",
                 shell_complete=completion.clauses,
                 help="Only this clause; 'causal.*' is all of a theme."),
    click.option("--dtype", "dtypes", multiple=True, type=OneOf("dtype", DType),
                 help="Only this dtype."),
    click.option("--strict", is_flag=True, help="Exit code 1 also for violated `should` clauses."),
    click.option("--seed", default=0, show_default=True, type=SEED,
                 help="The cases are drawn from this seed."),
    LIFT, IMPLEMENTATIONS, SPEC, SPEC_ADD, DEADLINE,
)
_ELSEWHERE = (PYTHON, HOST)
_SURROUNDINGS = (*_ELSEWHERE, DEVICE, MEMORY)
_RUNNING = (
    click.option("-n", "--workers", default=available_cpus, type=WORKERS, metavar="N",
                 help=f"Worker processes. [default: one per CPU, at most {MOST_WORKERS}]"),
    click.option("--record", metavar="PATH",
                 help="The file for the record. [default: reports/run/<time>.jsonl]"),
    click.option("--no-record", is_flag=True, help="Write no record."),
    click.option("--html", metavar="PATH", type=click.Path(dir_okay=False),
                 help="Also write an HTML page."),
    JSON,
)


def _combine_options(options: Iterable[Callable[[F], F]]) -> Callable[[F], F]:
    def add(command: F) -> F:
        for option in reversed(tuple(options)):
            command = option(command)
        return command

    return add


elsewhere = _combine_options(_ELSEWHERE)
surroundings = _combine_options(_SURROUNDINGS)
selection = _combine_options((*_SELECTION, *_SURROUNDINGS))
run_options = _combine_options(_RUNNING)
shard_options = _combine_options((SHARD, TIMINGS))


def plan_from(targets: Iterable[str], selected: dict[str, Given]) -> Plan:
    """Makes a plan of the options in `_SELECTION`. Folders become absolute, because workers may
    run elsewhere.
    """
    options = dict(selected)
    options["implementations"] = tuple(str(Path(folder).absolute())
                                       for folder in options["implementations"])
    options["memory"] = int(options.get("memory", 0) * 2**30)
    options["spec"] = str(Path(options["spec"]).absolute()) if options["spec"] else ""
    audit_there(options)
    return Plan(targets=tuple(dict.fromkeys(expand_targets(targets, options["implementations"]))),
                **options)


def checked_plan(targets: Iterable[str], selected: dict[str, Given]) -> Plan:
    """Makes a plan as `plan_from`. Raises TargetError for a target that cannot be judged here."""
    plan = plan_from(targets, selected)
    known_targets(plan)
    return plan


def sharing_of(options: dict[str, Given]) -> Sharing | None:
    """Takes `shard_options` out of a command's options. Raises UsageError for timings alone."""
    from attnspec.runner.jobs import Sharing  # noqa: PLC0415  (weight: records)

    shard, timings = options.pop("shard"), options.pop("timings")
    if shard is None and timings:
        raise UsageError("--timings says how a run is divided: name the part as well, "
                         "such as --shard 1/4.")
    return Sharing(shard, timings) if shard else None


def audit_there(options: Mapping[str, Given]) -> None:
    """Asks the interpreter or host that is named what is installed, and for the device."""
    surroundings_of({name: options.get(name, "") for name in ("python", "host", "device")})


def surroundings_of(options: Mapping[str, Given]) -> Surroundings:
    """Reads from the options where subjects live, and asks there what is installed."""
    from attnspec.subjects.installed import look_in  # noqa: PLC0415  (weight: manifests)

    there = Plan((), **options).surroundings({})
    look_in(there)
    return there


def typed_command(program: str = "attnspec") -> tuple[str, ...]:
    """The command as the user typed it, without the folders of this machine."""
    return (program, *map(portable_argument, sys.argv[1:]))


# attnspec's own wrong and right implementations, judged as any other
OWN_PREFIXES = (FAULT, SOUND)


def known_targets(plan: Plan) -> None:
    """Raise TargetError for a target that does not exist, is a class, or lacks its framework."""
    from attnspec.subjects.outline import (  # noqa: PLC0415  (weight: manifests)
        class_for_function,
        no_such_function,
        no_such_subject,
    )
    from attnspec.subjects.registry import registered_subjects  # noqa: PLC0415  (as above)

    _known_own([target for target in plan.targets if target.startswith(OWN_PREFIXES)])
    _known_files(plan.targets)
    ids = []
    for target in plan.targets:
        if not is_bare(target.strip(":")):
            if not target.startswith(OWN_PREFIXES):
                ids.append(target)
        elif wrong := no_such_function(target) or class_for_function(target):
            raise wrong
    known = registered_subjects(plan.implementations) if ids or plan.implementations else {}
    for target in ids:
        if target not in known:
            raise no_such_subject(target, known)
        if known[target].why_missing:
            raise TargetError(f"{target} cannot be judged here: {known[target].why_missing}")


def expand_targets(targets: Iterable[str], implementations: Iterable[str]) -> Iterator[str]:
    """Expands patterns such as `torch/*` and `fault/*`, and files such as `mine.py`. Raises
    TargetError for a pattern that matches nothing.
    """
    from attnspec.subjects.outline import spelled_out  # noqa: PLC0415  (weight: manifests)

    for target in targets:
        if is_bare(target) or "*" not in target:
            yield spelled_out(target)
            continue
        matches = fnmatch.filter(_all_ids(target, implementations), target)
        if not matches:
            raise TargetError(f"{target!r} matches no subject.")
        yield from matches


def _all_ids(target: str, implementations: Iterable[str]) -> tuple[str, ...]:
    if not target.startswith(OWN_PREFIXES):
        return judgeable_subjects(implementations)
    from attnspec.faults.size_family import SEEDED  # noqa: PLC0415  (used with the next line only)
    from attnspec.faults.subject import own_ids  # noqa: PLC0415  (weight: NumPy)

    return own_ids(target.partition(SEEDED)[2])


def _known_own(targets: Iterable[str]) -> None:
    """Raise TargetError for a fault or sound formulation that does not exist."""
    for target in targets:
        from attnspec.faults.subject import own_subject  # noqa: PLC0415  (weight: NumPy)

        own_subject(target)


def _known_files(targets: Iterable[str]) -> None:
    """Raise TargetError for a function of a file that does not exist."""
    from attnspec.subjects.outline import no_such_subject  # noqa: PLC0415  (weight: manifests)

    for target in targets:
        file, _, function = target.rpartition(":")
        if file.endswith(".py") and function and not Path(file).is_file():
            raise no_such_subject(file, ())


def judgeable_subjects(implementations: Iterable[str],
                       libraries: Sequence[str] = ()) -> tuple[str, ...]:
    """The registered subjects whose framework is installed. libraries: only of these. Raises
    TargetError if there is none, and UsageError for a library that does not exist.
    """
    from attnspec.subjects.registry import registered_subjects  # noqa: PLC0415  (weight: manifests)

    known = registered_subjects(implementations)
    folders = sorted({name.partition("/")[0] for name in known})
    for name in libraries:
        if name not in folders:
            raise UsageError.unknown("library", name, folders)
    targets, reasons = [], dict[str, None]()
    for name, subject in known.items():
        if name.partition("/")[0] not in (libraries or folders):
            continue
        if subject.why_missing:
            reasons[subject.why_missing] = None
        else:
            targets.append(name)
    if not targets:
        between = " " if len(reasons) == 1 else "\n  "
        raise TargetError(between.join(("nothing registered can be judged here.", *reasons)))
    return tuple(targets)


def remaining_targets(targets: Sequence[str], without: Iterable[str]) -> tuple[str, ...]:
    """The targets that match no pattern. Raises TargetError for a pattern without a match."""
    for pattern in without:
        if not fnmatch.filter(targets, pattern):
            raise TargetError(f"{pattern!r} matches no subject that would be judged here, "
                              "so it leaves out nothing.")
    return tuple(target for target in targets
                 if not any(fnmatch.fnmatchcase(target, pattern) for pattern in without))


def _read_address(text: str) -> ClusterAddress:
    from attnspec.cluster.worker import read_address  # noqa: PLC0415  (weight: what runs subjects)

    return read_address(text)


CLUSTER = click.option("--cluster", default=None, type=ParsedText("cluster", _read_address),
                       metavar="ADDRESS",
                       help="Have the workers of a Dask cluster judge: tcp://HOST:PORT of its "
                            "scheduler, or local:N for N workers here.")


@contextmanager
def cluster_carrier(options: dict[str, Given]) -> Iterator[ClusterCarrier | None]:
    """Takes `CLUSTER` out of the options, and stays connected while the command runs.

    The cluster's workers are asked which subjects can be judged. Raises UsageError for a cluster
    that cannot judge.
    """
    address = options.pop("cluster")
    if address is None:
        yield None
        return
    _refuse_other_division(options)
    from attnspec.cluster.carrier import (  # noqa: PLC0415  (weight: hypothesis and distributed)
        ClusterCarrier,
        ClusterWorkers,
        connect_cluster,
        resources_for,
    )
    from attnspec.cluster.worker import WorkerQuestion  # noqa: PLC0415  (as above)
    from attnspec.spec.load import load_spec  # noqa: PLC0415  (weight: YAML)
    from attnspec.subjects.installed import note_workers  # noqa: PLC0415  (weight: manifests)

    plan = _what_is_named(options)
    digest = load_spec(plan.spec, plan.spec_add).digest
    with connect_cluster(address, resources_for(plan.device)) as connection:
        workforce = ClusterWorkers(connection, WorkerQuestion(plan, str(Path.cwd())), digest)
        workforce.begin()
        with note_workers(workforce.why_missing()):
            yield ClusterCarrier(connection, workforce, lambda line: click.echo(line, err=True))


def _refuse_other_division(options: Mapping[str, Given]) -> None:
    if options.get("shard"):
        raise UsageError("--cluster divides the run itself. Leave out --shard.")
    if click.get_current_context().get_parameter_source("workers") is ParameterSource.COMMANDLINE:
        raise UsageError("--cluster says who works. Leave out -n.")


def _what_is_named(options: Mapping[str, Given]) -> Plan:
    """A plan without targets that says what workers must have."""
    folders = tuple(str(Path(folder).absolute()) for folder in options.get("implementations", ()))
    spec, baseline = options.get("spec", ""), options.get("baseline")
    return Plan((), implementations=folders, spec=str(Path(spec).absolute()) if spec else "",
                spec_add=tuple(options.get("spec_add", ())), python=options.get("python", ""),
                host=options.get("host", ""), device=options.get("device", ""),
                baseline=str(baseline or ""))


def in_run_order(carrier: ClusterCarrier | None, record: Path | None, result: Result) -> None:
    """Sorts the record of several workers into the order of the plan."""
    if carrier and record:
        from attnspec.record.write import put_in_order  # noqa: PLC0415  (weight: records)

        put_in_order(record, result.done)
