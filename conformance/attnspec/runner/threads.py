"""One thread while a gate judges, as in the workers of `attnspec check`; afterwards as many as the user had."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and PyTorch. Small problems gain nothing by threads, and threads that spin cost many times."""
    with _torch_has_one(), _pools(len(sys.modules)).limit(limits=1):
        yield


@contextmanager
def _torch_has_one() -> Iterator[None]:
    """PyTorch is told itself: its first call sets the pool to what it was last told."""
    torch: Any = sys.modules.get("torch")  # not imported: then it has no threads
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _pools(_modules: int) -> ThreadpoolController:
    """The pools of this process, looked for anew after an import: it may have brought one along.

    Finding them takes milliseconds, and a gate has hundreds of items.
    """
    return ThreadpoolController()
