"""The interpreter that `python` of a manifest names: the subjects of its library live in it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from attnspec.core.errors import FileLocation, quoted
from attnspec.core.surroundings import Surroundings
from attnspec.spec.fields import Fields
from attnspec.subjects.installed import audited_command, no_start


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A command that starts Python. written: as the manifest has it.  where: its place there."""

    path: str
    written: str
    where: FileLocation

    @property
    def missing(self) -> str:
        """Why nothing can live in it, and what to do; empty if something can, or if another is asked for."""
        if audited_command():
            return ""
        reason = no_start(self.path) if shutil.which(self.path) else "there is no such program"
        told = reason.rstrip(".")
        return reason and (f"its manifest names the interpreter {quoted(self.written)} ({self.where}): {told}. Correct "
                           "`python:` there, or name another one: --python PATH")

    def surroundings(self, asked: Surroundings | None) -> Surroundings:
        """Where its subjects live: in it, unless a command is asked for."""
        there = asked or Surroundings()
        return there if there.command else replace(there, command=(self.path,))


def read_interpreter(fields: Fields, folder: Path) -> Interpreter | None:
    """The interpreter of a manifest in this folder; None where it names none. Raises the error of the fields."""
    if "python" not in fields.mapping:
        return None
    written = fields.text("python")
    if not written.strip():
        raise fields.complain("python", "should be the path of an interpreter, as in '../env/bin/python'.")
    if "host" in fields.mapping:
        raise fields.complain("python", "says where the subjects run, and so does `host`. Leave one of them out.")
    path = Path(os.path.expanduser(written))
    return Interpreter(str(folder.absolute() / path), written, fields.place("python"))
