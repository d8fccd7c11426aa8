"""Describes where a subject lives: the command that starts its process, and its environment."""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

ONE_THREAD: Mapping[str, str] = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
     "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS"), "1")
"""One thread a process: workers share the cores, and threads change the order of summation."""

XLA_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

SUBJECT_LIBRARIES = ("numpy", "ml_dtypes", "torch", "jax", "jaxlib")
"""The packages whose versions a header tells of the environment in which subjects live."""

DEVICES = ("cpu", "cuda", "mps", "xpu", "tpu", "npu", "hpu")
"""The kinds of devices that a manifest may name; a new one is a word here."""

_ALSO = {"": "cpu", "gpu": "cuda", "rocm": "cuda"}
"""Other names of a kind: JAX has its own for GPUs; to PyTorch AMD's are cuda as well."""


def kind_of(device: str) -> str:
    """The kind of a device, without its number: `cuda` of `gpu:1`, `cpu` by default."""
    kind = device.partition(":")[0]
    return _ALSO.get(kind, kind)


class HostLanguage(enum.Enum):
    """What a command starts."""

    PYTHON = "python"  # an interpreter, which is handed the host's program
    PROTOCOL = "protocol"  # a host, in whatever language


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A command, and the process that it starts.

    command: the interpreter of this process where it is empty.  speaks: what the command starts.
    folder: where it is started, if it speaks the protocol itself.
    is_here: whether it sees the files of this machine; else what it needs is handed over.
    environment: variables that stand in the process beside those it inherits.
    device: where arrays are placed, as the framework calls it.
    deadline: seconds that the calls of one item may take together.
    memory: resident bytes that the process and its children may take; 0 sets no limit.
    option: how the user named the command (`--python`); empty if nobody did.
    """

    command: tuple[str, ...] = ()
    speaks: HostLanguage = HostLanguage.PYTHON
    is_here: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    device: str = ""
    deadline: float = 300.0
    memory: int = 0
    folder: str = ""
    option: str = ""

    @property
    def command_text(self) -> str:
        """The command as a message has it: `--python: '/usr/bin/pyton'`."""
        command = repr(" ".join(self.command) or sys.executable)
        return f"{self.option}: {command}" if self.option else command

    @property
    def is_quick(self) -> bool:
        """Whether a process begins at once: an interpreter on this machine."""
        return self.is_here and self.speaks is HostLanguage.PYTHON
