"""The adapters, importable by name: `attnspec.adapters.torch.sdpa` is `implementations/torch/sdpa.py`.

This package has no modules of its own. Its path is the folder `implementations/` and whatever folders a run adds, so
an adapter survives the spawn start method, and a new folder is seen at once.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path

from attnspec.core import paths

__path__ = [str(paths.folder("implementations"))]


def extend(folders: Iterable[Path]) -> None:
    """Let adapters be found in these folders too, after the ones known so far."""
    for folder in map(str, (folder.absolute() for folder in folders)):
        if folder not in __path__:
            __path__.append(folder)
    importlib.invalidate_caches()  # a folder may be younger than the last import
