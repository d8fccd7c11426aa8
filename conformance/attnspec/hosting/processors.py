"""What processors have worked for another process."""

from __future__ import annotations

import os
import time
from pathlib import Path

_USER, _SYSTEM = 11, 12
"""Where the ticks stand behind the name of a process in its `stat` (proc(5))."""

_TELLS = Path("/proc/self/stat").is_file()


def seconds_of(pid: int) -> float:
    """Seconds that processors have worked in all threads of a process, 0 of one that has ended; by the clock where the
    system does not tell.
    """
    if not _TELLS:
        return time.monotonic()
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return (int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0
