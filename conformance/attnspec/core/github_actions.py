"""What GitHub Actions asks of the programs that it runs, by the variables that it sets."""

from __future__ import annotations

import os
from pathlib import Path

from attnspec.core.errors import FileLocation
from attnspec.core.paths import cannot_write

SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable that names the file to which the summary of a step is appended."""


def is_on_github() -> bool:
    """Whether this runs in GitHub Actions, which makes annotations of some lines of the output."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def is_told() -> bool:
    """Whether anything is to be told there."""
    return is_on_github() or bool(os.environ.get(SUMMARY))


def append_summary(text: str) -> None:
    """Add Markdown to the summary of the step, if one is asked for. Raises UsageError where it cannot be written."""
    name = os.environ.get(SUMMARY, "")
    if not name:
        return
    try:
        with Path(name).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{text}\n")
    except OSError as problem:
        raise cannot_write(Path(name), f"summary of the step (${SUMMARY})", problem) from None


def in_repository(place: FileLocation) -> FileLocation | None:
    """The place with its file as annotations name it: from the folder of the checkout, or from where the program runs.

    None for a file that lies in neither, or was installed there: GitHub shows no annotation at such a place.
    """
    file = Path(place.file).resolve()
    for home in (os.environ.get("GITHUB_WORKSPACE") or Path.cwd(), Path.cwd()):
        inside = Path(home).resolve()
        if file.is_relative_to(inside) and "site-packages" not in file.parts:
            return FileLocation(str(file.relative_to(inside)), place.line)
    return None
