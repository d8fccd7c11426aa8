"""Files that are written whole or not at all, so that what stood there before is not lost to a full disk."""

from __future__ import annotations

import os
from pathlib import Path

from attnspec.core.errors import UsageError


def write_whole(path: Path, data: str | bytes, what: str) -> None:
    """Write the file, making its folder. `what` it is, for a reader: "page".

    What was there stays until all is written; a link stays a link. Raises UsageError where it cannot be written.
    """
    # half a surrogate pair may come from a subject's text, and no encoding writes it
    written = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    try:
        _write(Path(os.path.realpath(path)), written)
    except OSError as problem:
        raise cannot_write(path, what, problem) from None


def ensure_writable(path: Path, what: str) -> None:
    """Find out before a long run whether the file can be written; it is there afterwards. Raises UsageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as problem:
        raise cannot_write(path, what, problem) from None


def cannot_write(path: Path, what: str, problem: OSError) -> UsageError:
    """The error that says which file, and why."""
    return UsageError(f"the {what} {path} cannot be written: {problem.strerror or problem}.")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not (path.is_file() and os.access(path.parent, os.W_OK)):  # a pipe, a device, a guarded folder
        path.write_bytes(data)
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
