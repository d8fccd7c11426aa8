"""What `init` writes for somebody's attention: an adapter and a manifest, found out in a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from attnspec.core.errors import FileLocation, TargetError
from attnspec.core.surroundings import Surroundings
from attnspec.host.lifts import LIFTS
from attnspec.scaffold import rotary
from attnspec.scaffold.examined import Examined
from attnspec.scaffold.location import locate
from attnspec.scaffold.manifest import entry, head, learned_of, names_of, told_conventions, told_dtypes
from attnspec.scaffold.search import form_of
from attnspec.scaffold.there import There
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.source import source
from attnspec.scaffold.writing.telling import describe_form
from attnspec.subjects.installed import is_installed
from attnspec.subjects.target import host_of

HURRIED: Mapping[str, str] = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
"""JAX compiles every operation anew for every shape; what is tried here is small, and need not be fast."""


@dataclass(frozen=True, slots=True)
class Written:
    """An adapter, and its manifest in two parts (of the library, of the subject), as texts.

    found: what was found out, a sentence each; remarks: what of it whoever judges the subject should know.
    warnings: what has to be known first.  demanded: keywords without which no check of it may pass.
    """

    library: str
    name: str
    adapter: str
    head: str
    subject: str
    found: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    demanded: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


INTO = Path("implementations")
"""The folder of implementations to write into, unless another is named."""


def acquaint(written: str, surroundings: Surroundings, into: Path = INTO) -> Written:
    """What `init` writes, into a folder of `into`, for a callable that lives there: for `package.module:name` or
    `path/to/file.py:name`. The deadline is that of the whole search. Raises TargetError.
    """
    location = locate(written)
    target, folder = location.target, location.path_from(into / "library")
    if location.file and not surroundings.is_here:
        raise TargetError("no module can have the name of this file, and elsewhere it is imported by its name. Rename "
                          "it, with letters, digits and `_` only.", where=FileLocation(written))
    hurried = replace(surroundings, environment={**HURRIED, **_backend_of_keras()})
    client = host_of(target, hurried, location.folder)
    there = There(client, time.monotonic() + surroundings.deadline, location.preload)
    trier = Trier(there)
    try:
        if rotary.is_rotary(callee := there.examined(target)):
            return _of_rotary(callee, there, folder)
        form = form_of(target, trier)
        learned = learned_of(form, trier)
        found = (*learned.warnings, *describe_form(form), *told_dtypes(learned), *told_conventions(learned))
        texts = source(form, folder), head(form), entry(form, learned)
        return Written(*names_of(form), *texts, found, form.remarks, form.demanded,
                       (*form.warnings, *learned.warnings))
    finally:
        client.close()


def _of_rotary(callee: Examined, there: There, folder: str) -> Written:
    """What `init` writes for a rotary embedding."""
    form = rotary.rotary_of(callee, there)
    return Written(*names_of(form.call), rotary.source(form, folder), head(form.call), rotary.entry(form, there),
                   tuple(rotary.told(form)))


def _backend_of_keras() -> Mapping[str, str]:
    """Keras takes TensorFlow where nobody names a backend; where that is not installed, the first that is."""
    if "KERAS_BACKEND" in os.environ or not is_installed("keras") or is_installed("tensorflow"):
        return {}
    return {"KERAS_BACKEND": next((name for name in LIFTS if is_installed(name)), "numpy")}
