"""One thread while a gate judges, as in the workers of `attnspec check`; afterwards as many as the user had."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and PyTorch. Small problems gain nothing by threads, and threads that spin cost many times."""
    torch: Any = sys.modules.get("torch")  # not imported: then it has no threads
    before = torch.get_num_threads() if torch else 0
    with _controller(has_torch=bool(torch)).limit(limits=1):
        if torch:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(before)


@cache
def _controller(*, has_torch: bool) -> ThreadpoolController:  # noqa: ARG001  (its import brings further pools)
    """The pools of this process. Finding them takes milliseconds, and a gate has hundreds of items."""
    return ThreadpoolController()
