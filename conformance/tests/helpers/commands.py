"""Running the command."""

from __future__ import annotations

from collections.abc import Callable

Cli = Callable[..., tuple[int, str, str]]
"""Words to exit code, standard output and standard error: what the fixture `cli` gives."""
