"""The environment that workers are born into, what a record says of it, and one thread for what computes."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from threadpoolctl import ThreadpoolController

import attnspec
from attnspec.record.events import OF_SUBJECTS, OWN_DEVICE
from attnspec.subjects.installed import audited_environment

# One thread a worker: workers share the cores already, and the number of threads changes the order of summation.
ONE_THREAD: Mapping[str, str] = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
     "BLIS_NUM_THREADS"), "1")
_XLA_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
# Whatever would let the user's pytest (plugins, options, an outer xdist) reach into ours.
_FOREIGN = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT",
            "PYTEST_XDIST_TESTRUNUID", "PYTEST_CURRENT_TEST")
_PACKAGES = (*OF_SUBJECTS, "hypothesis", "pytest", "pytest-xdist")


@contextmanager
def prepared_environment(process: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Set what workers inherit, at last what their subjects ask for, and put everything back afterwards."""
    before = dict(os.environ)
    for name in _FOREIGN:
        os.environ.pop(name, None)
    os.environ.update(ONE_THREAD)
    # a plugin of Hypothesis comes with libraries such as trio: its import takes as long as Hypothesis itself
    os.environ.update({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HYPOTHESIS_NO_PLUGINS": "1"})
    os.environ.setdefault("PYTHONHASHSEED", "0")  # a subject that iterates over a set does so alike in every worker
    os.environ.update(process)
    # of flags, the user's, the subject's and ours stand side by side
    flags = (before.get("XLA_FLAGS", ""), process.get("XLA_FLAGS", ""), _XLA_ONE_THREAD)
    os.environ["XLA_FLAGS"] = " ".join(filter(None, flags))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def describe_environment(workers: int, device: str = "") -> Mapping[str, str]:
    """What a reader of the record needs to compare it with another: versions, machine, threads.

    Of the environment that is audited, where subjects live in another: then `judge` tells of this one.
    """
    own = {
        "attnspec": attnspec.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": " ".join((platform.system(), *platform.libc_ver())).strip(),  # not how the kernel calls itself
        "machine": platform.machine(),
        "cpus": str(os.cpu_count() or ""),
        "device": device or OWN_DEVICE,
        "workers": str(workers),
        "threads": "1 a worker",
        **_versions(),
    }
    there = audited_environment(OF_SUBJECTS)
    if not there:
        return own
    kept = {name: value for name, value in own.items() if name not in OF_SUBJECTS}
    return {**kept, **there, "judge": f"{own['python']}, NumPy {own['numpy']}"}


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


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
