"""The driver of a device, as the operating system tells it; no framework does."""

from __future__ import annotations

import re
from pathlib import Path

_NVIDIA = Path("/proc/driver/nvidia/version")


def nvidia() -> str:
    """The version of NVIDIA's kernel module, such as 550.54.15; empty where none is loaded."""
    try:
        found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", _NVIDIA.read_text(encoding="utf-8"))
    except OSError:
        return ""
    return found.group() if found else ""
