"""`probe`: finds out what an implementation really does, and holds it against what its manifest claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TextIO

import click

from attnspec.cli.apart import keep_apart
from attnspec.cli.group import exit_code_of
from attnspec.cli.options import (
    DEADLINE,
    IMPLEMENTATIONS,
    LIFT,
    TARGETS,
    Given,
    OneOf,
    known_targets,
    plan_from,
    run_options,
    surroundings,
    typed_command,
)
from attnspec.cli.outputs import HandlerGroup, Outputs, VisibleHandler, is_coloured
from attnspec.cli.wording import name_probed
from attnspec.core.nouns import DType
from attnspec.probing.jobs import PROBES
from attnspec.record.events import Event, Handler, RunFinished
from attnspec.record.measurements import Found, SubjectProbed
from attnspec.report.figures import count_noun
from attnspec.runner.session import Session

_GAP = "  "


@dataclass(slots=True)
class ProbeConsole(Handler):
    """Prints the answers of each subject as they come in. `places` are lines that come at the end."""

    stream: TextIO
    places: Sequence[str] = ()
    _probes: list[SubjectProbed] = field(default_factory=list)
    _footer: RunFinished | None = None

    def handle(self, event: Event) -> None:
        """Tell it."""
        match event:
            case SubjectProbed():
                self._probes.append(event)
                self._echo(format_probe(event))
            case RunFinished():
                self._footer = event

    def shutdown(self) -> None:
        """What it comes to, if the run came to an end."""
        if self._footer is not None:
            self._echo(["", *self.places, format_conclusion(self._probes, self._footer)])

    def _echo(self, lines: Sequence[str] | Iterator[str]) -> None:
        for line in lines:
            click.echo(line, file=self.stream, color=is_coloured(self.stream))


def format_probe(probed: SubjectProbed) -> Iterator[str]:
    """A heading, and a line an answer; a contradiction is told with what was claimed."""
    if not probed.found and not probed.lost:
        return  # a dtype that a bare function does not support
    yield ""
    yield click.style(name_probed(probed), bold=True)
    if probed.lost:
        yield click.style(f"  lost: {probed.lost}", fg="red")
    width = max((len(found.question) for found in probed.found), default=0)
    yield from (_line(found, width) for found in probed.found)


def _line(found: Found, width: int) -> str:
    detail = f"{_GAP}{found.detail}" if found.detail else ""
    line = f"{found.question:<{width}}{_GAP}{found.answer}"
    if found.is_contradiction:
        return click.style(f"! {line}, but the manifest claims {found.claimed}{detail}", fg="red", bold=True)
    return f"  {line}{_GAP}{'(as claimed)' if found.claimed else ''}{click.style(detail, dim=True)}".rstrip()


def format_conclusion(probes: Sequence[SubjectProbed], footer: RunFinished) -> str:
    """The last line, with the exit code."""
    end = f"(exit code {footer.exit_code})"
    if footer.interrupted:
        return f"Interrupted: not everything was asked. {end}"
    wrong = sum(found.is_contradiction for each in probes for found in each.found)
    lost = sum(bool(each.lost) for each in probes)
    answers = count_noun(sum(len(each.found) for each in probes), "answer")
    if wrong:
        return f"{answers}, {wrong} of them against the manifest. {end}"
    if lost:
        return f"{answers}; {count_noun(lost, 'probe')} could not be run. {end}"
    return f"{answers}, none against the manifest. {end}"


@click.command()
@TARGETS
@click.option("--dtype", "dtypes", multiple=True, type=OneOf("dtype", DType),
              help="Only this dtype. [default: all; every question is asked at the first, float32 if it is supported]")
@run_options
@LIFT
@IMPLEMENTATIONS
@DEADLINE
@surroundings
def probe(targets: tuple[str, ...], workers: int, **options: Given) -> int:
    """Find out what each TARGET and its variants really do, and compare it with what the manifest claims.

    Exit codes: 0 nothing contradicts the manifest, 1 an answer does, 2 not every question could be asked.
    """
    keep_apart({f"--{name}": options[name] for name in ("record", "html")})
    outputs = Outputs.from_options(**{name: options.pop(name) for name in ("record", "no_record", "html", "as_json")})
    plan = plan_from(targets, {**options, "spec": ""})
    known_targets(plan)
    answers = ProbeConsole(outputs.console_stream, outputs.places)
    session = Session(plan, workers=workers, command=typed_command(), source=PROBES)
    return exit_code_of(session.run([VisibleHandler(answers), HandlerGroup(outputs.kept_handlers)]))
