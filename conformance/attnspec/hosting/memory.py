"""The memory that is shared with a host on this machine."""

from __future__ import annotations

import contextlib
import fcntl
import os

from attnspec.core.surroundings import Surroundings
from attnspec.host.sharing import ROOM


def shared_memory(surroundings: Surroundings) -> int:
    """A descriptor of new memory, whose size nobody can change; -1 where no memory can be shared."""
    if not surroundings.is_quick or not hasattr(os, "memfd_create"):  # only Linux has memory of a fixed size
        return -1
    with contextlib.suppress(OSError):
        descriptor = os.memfd_create("memory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, 2 * ROOM)
        # who reads memory that has been cut off is ended by SIGBUS
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return descriptor
    return -1
