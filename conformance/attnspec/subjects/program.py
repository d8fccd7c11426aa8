"""A host that is no Python: the program that `host` of a manifest names, which speaks the protocol of docs/protocol.md."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from attnspec.core.errors import TargetError
from attnspec.core.surroundings import Speaks, Surroundings
from attnspec.spec.yaml_lines import shown


@dataclass(frozen=True, slots=True)
class Program:
    """A command, run in the folder of its manifest. needs: files and folders there without which it cannot run."""

    command: tuple[str, ...]
    folder: Path
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """What is not there; empty if all is."""
        if not shutil.which(self.command[0]) and not (self.folder / self.command[0]).is_file():
            return f"{self.command[0]} is not on the PATH"
        absent = next((name for name in self.needs if not (self.folder / name).exists()), "")
        return f"there is no {absent} in {shown(self.folder)}" if absent else ""

    def surroundings(self, asked: Surroundings | None, target: str) -> Surroundings:
        """Where a subject of it lives. Raises TargetError where another interpreter or machine is asked for."""
        asked = asked or Surroundings()
        if asked.command:
            raise TargetError(f"{target} lives in a program of its own ({' '.join(self.command)}), not in "
                              f"{' '.join(asked.command)!r}. Leave --python and --host out.")
        return replace(asked, command=self.command, speaks=Speaks.PROTOCOL, folder=str(self.folder.absolute()))
