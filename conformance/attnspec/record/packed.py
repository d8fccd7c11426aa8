"""Files of records: a name that ends in .gz is that of a packed one. An audit of 20 MB packs into less than one."""

from __future__ import annotations

import gzip
from pathlib import Path

from attnspec.ground.errors import Place, RecordError

_PACKED = ".gz"


def read_text(path: Path) -> str:
    """The text of a record. Raises RecordError."""
    try:
        written = path.read_bytes()
        return (gzip.decompress(written) if path.suffix == _PACKED else written).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as problem:  # a packed file that was cut off ends too early
        raise RecordError(f"the record cannot be read: {problem}.", where=Place(str(path))) from None


def packed(path: Path, text: str) -> bytes:
    """What a file of this name holds; the same text gives the same bytes."""
    written = text.encode("utf-8")
    return gzip.compress(written, mtime=0) if path.suffix == _PACKED else written
