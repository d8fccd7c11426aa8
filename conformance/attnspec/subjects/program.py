"""A host that is no Python: the program that `host` of a manifest names; it speaks as docs/protocol.md says."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from attnspec.core.paths import portable_argument
from attnspec.core.surroundings import Speaks, Surroundings
from attnspec.spec.fields import Fields
from attnspec.spec.yaml_lines import shown
from attnspec.subjects.installed import audited_command


@dataclass(frozen=True, slots=True)
class Program:
    """A command, run in the folder of its manifest.

    needs: files and folders there without which it cannot run.  install: how they get there.
    """

    command: tuple[str, ...]
    folder: Path
    needs: tuple[str, ...] = ()
    install: str = ""

    @property
    def missing(self) -> str:
        """Why it cannot be started here, and what to do; empty if it can."""
        if elsewhere := " ".join(map(portable_argument, audited_command())):
            own = " ".join(map(portable_argument, self.command))
            return (f"it lives in a program of its own, {own!r}, not in {elsewhere!r}. "
                    "Leave --python and --host out")
        if not shutil.which(self.command[0]) and not (self.folder / self.command[0]).is_file():
            return f"{self.command[0]} is not on the PATH{self._way_out}"
        absent = next((name for name in self.needs if not (self.folder / name).exists()), "")
        return f"there is no {absent} in {shown(self.folder)}{self._way_out}" if absent else ""

    @property
    def _way_out(self) -> str:
        return f". Install it: {self.install}" if self.install else ""

    def surroundings(self, asked: Surroundings | None) -> Surroundings:
        """Where a subject of it lives: with the deadline, the device and the variables that are asked for."""
        return replace(asked or Surroundings(), command=self.command, speaks=Speaks.PROTOCOL, is_here=True,
                       folder=str(self.folder.absolute()))


def read_program(fields: Fields, folder: Path) -> Program | None:
    """The host that a manifest names; None of Python. What it requires are files and folders beside the manifest.

    Raises the error of the fields.
    """
    if "host" not in fields.mapping:
        return None
    command = _words(fields)
    if not command or not command[0]:
        raise fields.complain("host", "should be a command, as in 'node host.mjs'.")
    return Program(command, folder, tuple(fields.text("requires", "").split()), fields.text("install", ""))


def _words(fields: Fields) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(fields.text("host")))
    except ValueError as cause:
        raise fields.complain("host", f"is no command: {cause}.") from None
