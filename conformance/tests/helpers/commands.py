"""Running the command."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

Cli = Callable[..., tuple[int, str, str]]
"""Words to exit code, standard output and standard error: what the fixtures `cli` and `evaluation_cli` give."""


def capturing(main: Callable[[Sequence[str]], int], capfd: pytest.CaptureFixture[str]) -> Cli:
    """A program that is called in this process, with what it prints."""
    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run
