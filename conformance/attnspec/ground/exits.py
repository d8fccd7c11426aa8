"""The exit codes of every command that judges or measures: 0 all is well, 1 it is not, 2 nobody can say."""

from __future__ import annotations

CONFORMS, VIOLATED, CANNOT_RUN = 0, 1, 2
