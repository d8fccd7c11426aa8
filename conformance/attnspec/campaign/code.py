"""A digest of the code that judges: blocks that different code judged do not add up to one campaign."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from attnspec.home import folder

_JUDGING = ("campaign", "court", "faults", "ground", "numerics", "problems", "subjects", "vocabulary")


@cache
def code_digest() -> str:
    """Over every module that makes, answers or judges a case, the shipped adapters and manifests among them."""
    digest, package = hashlib.sha256(), Path(__file__).parents[1]
    files = [path for name in _JUDGING for path in sorted((package / name).rglob("*.py"))]
    for path in [*files, *sorted(folder("implementations").glob("*/*.*"))]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
