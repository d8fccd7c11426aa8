"""How a foreign callable is called is found out in a child process, which may crash or hang alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from attnspec.core.errors import AttnspecError
from attnspec.host.lifts import LIFTS
from attnspec.record.codec import decode, encode
from attnspec.runner.environment import prepared


@dataclass(frozen=True, slots=True)
class Answered:
    """The last line that the child printed, or why there is none."""

    line: str = ""
    death: str = ""


def apart(argument: str, *, deadline: float, process: Mapping[str, str] = MappingProxyType({})) -> Answered:
    """Find out in a child process, where the user stands, for so many seconds; `process`: its own variables."""
    command = [sys.executable, "-m", __spec__.name, argument]
    try:
        with prepared(process):
            child = subprocess.run(command, capture_output=True, text=True, timeout=deadline, check=False)
    except subprocess.TimeoutExpired:
        return Answered(death=f"it had not returned after {deadline:g} s")
    if child.returncode:
        last = (child.stderr.strip().splitlines() or [""])[-1]
        return Answered(death=f"the process died ({_cause(child.returncode)}): {last}")
    # the last line: a subject may print whatever it likes before
    return Answered(child.stdout.splitlines()[-1])


def _cause(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


HURRIED: Mapping[str, str] = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
"""JAX compiles every operation anew for every shape; what is tried here is small, and need not be fast."""


@dataclass(frozen=True, slots=True)
class Written:
    """An adapter, and its manifest in two parts (of the library, of the subject), as texts; or why there are none.

    found: what was found out, a sentence each; remarks: what of it whoever judges the subject should know.
    """

    library: str = ""
    name: str = ""
    adapter: str = ""
    head: str = ""
    subject: str = ""
    found: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    failure: str = ""


def acquaint(target: str, *, deadline: float) -> Written:
    """What `init` writes for `package.module:name`. The child process has so many seconds."""
    answer = apart(target, deadline=deadline, process=HURRIED)
    return Written(failure=answer.death) if answer.death else decode(Written, json.loads(answer.line))


def _written(target: str) -> Written:
    import tempfile  # noqa: PLC0415  (only the child needs these)
    from pathlib import Path  # noqa: PLC0415

    from attnspec.scaffold.manifest import entry, head, names_of  # noqa: PLC0415  (weight: NumPy and the framework)
    from attnspec.scaffold.search import form_of  # noqa: PLC0415
    from attnspec.scaffold.trial_adapter import Trier  # noqa: PLC0415
    from attnspec.scaffold.writing.source import source  # noqa: PLC0415
    from attnspec.scaffold.writing.telling import told  # noqa: PLC0415
    from attnspec.subjects.target import foreign  # noqa: PLC0415

    _settle_keras()
    with tempfile.TemporaryDirectory(prefix="attnspec-") as folder:
        trier = Trier(Path(folder))
        try:
            form = form_of(target, foreign(target), trier)
        except AttnspecError as problem:
            return Written(failure=str(problem))
        return Written(*names_of(form), source(form), head(form), entry(form, trier), tuple(told(form)), form.remarks)


def _settle_keras() -> None:
    """Keras takes TensorFlow where nobody names a backend; where that is not installed, the first that is."""
    import importlib.util  # noqa: PLC0415
    import os  # noqa: PLC0415

    if "KERAS_BACKEND" not in os.environ and importlib.util.find_spec("tensorflow") is None:
        here = [name for name in LIFTS if importlib.util.find_spec(name)]
        os.environ["KERAS_BACKEND"] = here[0] if here else "numpy"


def main() -> None:
    """The child: what is to be called."""
    [argument] = sys.argv[1:]
    sys.stdout.write("\n" + json.dumps(encode(_written(argument))) + "\n")


if __name__ == "__main__":
    main()
