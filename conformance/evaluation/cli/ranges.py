"""`ranges`: does each adapter work with the releases that its manifest declares?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from attnspec.cli.options import DEADLINE, IMPLEMENTATIONS
from attnspec.core.errors import CONFORMS, VIOLATED, UsageError
from attnspec.core.paths import write_whole
from attnspec.core.plan import Plan
from attnspec.core.texts import escape_hidden
from attnspec.subjects.installed import RangeEnd
from attnspec.subjects.manifest import Registered
from attnspec.subjects.registry import registered_subjects

from evaluation.ranges.bench import EFFORT, Bench, recipe_of
from evaluation.ranges.page import ranges_page
from evaluation.ranges.tried import Fate, Tried, read_tried, write_tried

_FILE = click.Path(dir_okay=False, path_type=Path)
_COLOURS = {Fate.WORKS: "green", Fate.NOT_TESTED: "yellow", Fate.NOT_INSTALLED: "yellow"}


@click.command()
@click.argument("libraries", nargs=-1, metavar="[LIBRARY]...")
@click.option("--environments", default="reports/run/ranges", show_default=True, metavar="DIR",
              type=click.Path(file_okay=False, path_type=Path), help="Where environments are made and kept.")
@click.option("--record", default="reports/ranges/tried.jsonl", show_default=True, metavar="PATH", type=_FILE,
              help="The file of results; what it has already is not tried again.")
@click.option("--markdown", metavar="PATH", type=_FILE, help="Also write the page of results as Markdown.")
@click.option("--again", is_flag=True, help="Also try again what is already in the record.")
@click.option("--remove", is_flag=True, help="Remove each environment when its release has been judged.")
@IMPLEMENTATIONS
@DEADLINE
def ranges(libraries: tuple[str, ...], *, environments: Path, record: Path, markdown: Path | None, again: bool,
           remove: bool, implementations: tuple[str, ...], deadline: float) -> int:
    """Judge each adapter of each LIBRARY, or of all, at a glance, with several releases of its declared range.

    They are the oldest, the newest and up to two between. Each is installed in an environment of its own, as the
    manifest says under `tested`. Each result is kept at once: a run that was interrupted goes on where it stopped.

    Exit codes: 0 all adapters that were tried can be judged, 1 one cannot, 2 cannot run.
    """
    folders = tuple(str(Path(folder).absolute()) for folder in implementations)
    by_library = _subjects_with_ranges(registered_subjects(folders), libraries)
    bench = Bench(environments, Plan((), implementations=folders, deadline=deadline))
    known = {(each.subject, each.end): each for each in read_tried(record)}
    for end, subjects in _open(by_library, {} if again else known):
        library = subjects[0].library.folder
        for each in bench.try_release(library, end, subjects):
            known[each.subject, each.end] = each
            _tell(each)
            write_tried(record, known.values())
        if remove:
            bench.clear(library, end)
    if markdown:
        declared = {name: tuple(dict.fromkeys(each.library.versions for each in subjects))
                    for name, subjects in _subjects_with_ranges(registered_subjects(folders), ()).items()}
        write_whole(markdown, ranges_page(known.values(), declared), "the page")
    fates = [each.fate for each in known.values() if each.library in by_library]
    return VIOLATED if Fate.UNJUDGED in fates or Fate.REFUSED in fates else CONFORMS


def _subjects_with_ranges(known: Mapping[str, Registered], libraries: Sequence[str]) -> Mapping[str,
                                                                                                Sequence[Registered]]:
    """The subjects of each library that declares a range, or of these libraries. Raises UsageError."""
    found: dict[str, list[Registered]] = {}
    for subject in known.values():
        if subject.library.versions:
            found.setdefault(subject.library.folder, []).append(subject)
    for name in libraries:
        if name not in found:
            raise UsageError.unknown("library that declares a range", name, found)
    return {name: found[name] for name in libraries or found}


def _open(by_library: Mapping[str, Sequence[Registered]],
          known: Mapping[tuple[str, str], Tried]) -> Iterator[tuple[RangeEnd, Sequence[Registered]]]:
    """The releases of which something is not known, each with those adapters."""
    for subjects in by_library.values():
        for end in dict.fromkeys(end for each in subjects for end in each.library.tested):
            due = [each for each in subjects if end in each.library.tested
                   and not _is_known(known.get((each.id, end.which.value)), end)]
            if due:
                yield end, due


def _is_known(tried: Tried | None, end: RangeEnd) -> bool:
    """Whether this is what came of that release, at the effort at which releases are judged."""
    is_judged = tried is not None and (tried.effort == EFFORT.value or tried.fate not in (Fate.WORKS, Fate.FAILS))
    return is_judged and tried is not None and tried.recipe == recipe_of(end)


def _tell(tried: Tried) -> None:
    fate = click.style(tried.fate.value, fg=_COLOURS.get(tried.fate, "red"))
    known = f" (known: {', '.join(tried.known)})" if tried.known else ""
    words = f": {escape_hidden(tried.words)}" if tried.words else known
    click.echo(f"{tried.subject} with {tried.end} {tried.release}: {fate}{words}")
