"""What this machine's processor can do."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_TOLD = Path("/proc/cpuinfo")


@cache
def features(told: Path = _TOLD) -> frozenset[str]:
    """By the names that Linux gives them, such as `avx512_fp16`; none where it does not say."""
    try:
        text = told.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()
