"""`init`: an adapter and a manifest for somebody's attention, found out by trying."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attnspec.cli import completion
from attnspec.cli.numbers import Seconds
from attnspec.cli.options import Given, elsewhere, surroundings_of
from attnspec.core import paths
from attnspec.core.characters import escape_hidden
from attnspec.core.errors import CONFORMS, UsageError
from attnspec.core.files import write_whole
from attnspec.report.figures import count_noun
from attnspec.subjects.manifest import FILE
from attnspec.subjects.outline import spelled_out

if TYPE_CHECKING:
    from attnspec.scaffold.acquaint import Written

DEADLINE = 300.0


@click.command()
@click.argument("target", metavar="TARGET", shell_complete=completion.targets)
@click.option("--into", default=Path("implementations"), show_default=True, metavar="DIR",
              type=click.Path(file_okay=False, path_type=Path), help="The folder of implementations to write into.")
@click.option("--deadline", default=DEADLINE, show_default=True, type=Seconds(),
              metavar="SECONDS", help="How long the search may take.")
@click.option("--candidates", multiple=True, metavar="PATH", type=click.Path(path_type=Path),
              help="A file, or a folder of them, whose class or function takes the place of TARGET's, as KernelBench's "
              "ModelNew that of Model: an adapter for each, too. May be given several times.")
@elsewhere
def init(target: str, into: Path, candidates: tuple[Path, ...], **there: Given) -> int:
    """Write an adapter and a manifest for TARGET, package.module:name or path/to/file.py:name, ready to be judged.

    It calls TARGET in many ways, to find out which arrays it takes, which parameter is the mask, and whether True keeps
    or removes a key. The adapter that it writes has been tested to compute attention. TARGET is a function of arrays,
    a function that takes its parameters too, or a class of PyTorch, Equinox, Flax, Haiku or Keras.
    """
    from attnspec.scaffold.acquaint import acquaint  # noqa: PLC0415  (weight: NumPy)
    from attnspec.scaffold.candidates import candidates_for  # noqa: PLC0415  (weight: NumPy)
    from attnspec.scaffold.location import locate  # noqa: PLC0415  (used with the others only)

    target = spelled_out(target)
    written, callee = acquaint(target, surroundings_of(there), into), locate(target).target
    folder, beside = into / _free_name(written.library, into), list(candidates_for(callee, written, candidates))
    write_files(folder, written)
    for each in beside:
        write_whole(folder / f"{each.module}.py", each.source, "candidate")
        write_files(folder, each.written)
    for sentence in written.found:
        said = "" if sentence in written.warnings else "note: " if sentence in written.remarks else "found: "
        click.echo(f"{said}{escape_hidden(sentence)}")
    click.echo(f"wrote {folder / f'{written.name}.py'} and {folder / FILE}")
    named = {name: there[name] for name in ("python", "host") if there[name]}
    if written.demanded:
        named["must_take"] = " ".join(written.demanded)
    if beside:
        click.echo(f"and {count_noun(len(beside), 'adapter')} beside it, of its candidates.\n"
                   f"Next: attnspec rank '{folder.name}/*' --implementations {into}")
        return CONFORMS
    click.echo("\n".join(_next(f"{folder.name}/{written.name}", into, named)))
    return CONFORMS


def _next(subject: str, into: Path, named: Mapping[str, str]) -> Iterator[str]:
    """How it is judged; named: options, such as where it lives."""
    options = "".join(f" --{name.replace('_', '-')} {shlex.quote(told)}" for name, told in named.items())
    arguments = "".join(f', {name}="{told}"' for name, told in named.items())
    if demanded := named.get("must_take"):
        yield (f"{demanded.replace(' ', ', ')}: it has a parameter or a name for that, and does not do it. That may be "
               "wrong, and is not judged: --must-take lets a check fail for it. If something else is meant, leave that "
               "option out.")
    yield f"Next: attnspec check {subject} --implementations {into}{options}"
    yield f'In a test file: test_attention = attnspec.gate("{subject}", implementations="{into}"{arguments})'


def _free_name(library: str, into: Path) -> str:
    """The library's name, unless attnspec has a folder of that name itself: one of them would hide the other."""
    shipped = paths.folder("implementations") / library
    is_taken = shipped.is_dir() and shipped.absolute() != (into / library).absolute()
    return f"{library}_own" if is_taken else library


def write_files(folder: Path, written: Written) -> None:
    """The adapter, and its entry in the manifest. What is there is somebody's work and is left as it is."""
    adapter, manifest = folder / f"{written.name}.py", folder / FILE
    if adapter.exists():
        raise UsageError(f"{adapter} exists already. Move it away, or name another folder: --into DIR.")
    write_whole(adapter, written.adapter, "adapter")
    head = f"{manifest.read_text(encoding='utf-8').rstrip()}\n\n" if manifest.exists() else written.head
    write_whole(manifest, head + written.subject, "manifest")
