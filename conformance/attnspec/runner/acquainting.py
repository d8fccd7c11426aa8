"""Finds the form of a foreign callable in a process of its own: what is tried on it may kill it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from attnspec.ground.errors import AttnspecError
from attnspec.record.codec import decode, encode
from attnspec.runner.apart import apart


@dataclass(frozen=True, slots=True)
class Written:
    """An adapter, and its manifest in two parts (of the library, of the subject), as texts; or why there are none."""

    library: str = ""
    name: str = ""
    adapter: str = ""
    head: str = ""
    subject: str = ""
    remarks: tuple[str, ...] = ()
    failure: str = ""


def acquaint(target: str, *, deadline: float) -> Written:
    """What `init` writes for `package.module:name`. The child process has so many seconds."""
    answer = apart(__name__, target, deadline=deadline)
    return Written(failure=answer.death) if answer.death else decode(Written, json.loads(answer.line))


def _written(target: str) -> Written:
    import tempfile  # noqa: PLC0415  (only the child needs these)
    from pathlib import Path  # noqa: PLC0415

    from attnspec.forms.manifest import entry, head, names_of  # noqa: PLC0415  (weight: NumPy and the framework)
    from attnspec.forms.search import form_of  # noqa: PLC0415
    from attnspec.forms.source import source  # noqa: PLC0415
    from attnspec.forms.trying import Trier  # noqa: PLC0415
    from attnspec.subjects.target import foreign  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="attnspec-") as folder:
        trier = Trier(Path(folder))
        try:
            form = form_of(target, foreign(target), trier)
        except AttnspecError as problem:
            return Written(failure=str(problem))
        return Written(*names_of(form), source(form), head(form), entry(form, trier), form.remarks)


def main() -> None:
    """The child."""
    sys.stdout.write("\n" + json.dumps(encode(_written(sys.argv[1]))) + "\n")


if __name__ == "__main__":
    main()
