"""Seconds of processor, which say the same on a machine that others use, too."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path

import click


def children_seconds() -> float:
    """Processor seconds of all processes that this one has waited for, and of those that these waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure_command(command: Sequence[str], folder: Path | None = None) -> float:
    """Processor seconds of a command of attnspec and its children, one BLAS thread each. folder: where it runs.

    Raises ClickException, with what the command printed, if it cannot run (exit code 2 or more).
    """
    before = children_seconds()
    done = subprocess.run(command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True,
                          text=True, check=False)
    if done.returncode > 1:
        raise click.ClickException(f"{' '.join(command)} cannot run (exit code {done.returncode}):\n"
                                   f"{done.stdout}{done.stderr}")
    return children_seconds() - before
