"""The version of attnspec, for those below the package's own front."""

from __future__ import annotations

VERSION = "0.1.0"
