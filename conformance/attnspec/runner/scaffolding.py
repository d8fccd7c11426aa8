"""Finds the form of a foreign callable in a process of its own: what is tried on it may kill it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from attnspec.core.errors import AttnspecError
from attnspec.record.codec import decode, encode
from attnspec.runner.child import apart
from attnspec.subjects.lifts import LIFTS

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
    answer = apart(__name__, target, deadline=deadline, process=HURRIED)
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
    """The child."""
    sys.stdout.write("\n" + json.dumps(encode(_written(sys.argv[1]))) + "\n")


if __name__ == "__main__":
    main()
