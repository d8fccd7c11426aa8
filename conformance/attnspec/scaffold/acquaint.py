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
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.location import locate_target
from attnspec.scaffold.manifest import (
    describe_conventions,
    describe_dtypes,
    measure_adapter,
    name_adapter,
    write_entry,
    write_head,
)
from attnspec.scaffold.search import find_form
from attnspec.scaffold.there import CalleeProcess
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.source import write_source
from attnspec.scaffold.writing.telling import describe_form
from attnspec.subjects.installed import is_installed
from attnspec.subjects.target import host_of

HURRIED_ENVIRONMENT: Mapping[str, str] = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
"""JAX compiles every operation anew for every shape; what is tried here is small, and need not be fast."""


@dataclass(frozen=True, slots=True)
class WrittenAdapter:
    """An adapter, and its manifest in two parts (of the library, of the subject), as texts.

    sentences: what was found out, a sentence each; remarks: what of it whoever judges the subject should know.
    warnings: what has to be known first.  demanded_keywords: keywords without which no check of it may pass.
    """

    library: str
    name: str
    adapter: str
    manifest_head: str
    manifest_entry: str
    sentences: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    demanded_keywords: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


DEFAULT_FOLDER = Path("implementations")
"""The folder of implementations to write into, unless another is named."""


def write_for(written: str, surroundings: Surroundings, into: Path = DEFAULT_FOLDER) -> WrittenAdapter:
    """What `init` writes, into a folder of `into`, for a callable that lives there: for `package.module:name` or
    `path/to/file.py:name`. The deadline is that of the whole search. Raises TargetError.
    """
    location = locate_target(written)
    target, folder = location.target, location.path_from(into / "library")
    if location.file and not surroundings.is_here:
        raise TargetError("no module can have the name of this file, and elsewhere it is imported by its name. Rename "
                          "it, with letters, digits and `_` only.", where=FileLocation(written))
    hurried = replace(surroundings, environment={**HURRIED_ENVIRONMENT, **_choose_keras_backend()})
    client = host_of(target, hurried, location.folder)
    process = CalleeProcess(client, time.monotonic() + surroundings.deadline, location.preload_source)
    trier = Trier(process)
    try:
        if rotary.looks_rotary(callee := process.examine(target)):
            return _write_rotary(callee, process, folder)
        form = find_form(target, trier)
        learned = measure_adapter(form, trier)
        found = (*learned.warnings, *describe_form(form), *describe_dtypes(learned), *describe_conventions(learned))
        texts = write_source(form, folder), write_head(form), write_entry(form, learned)
        return WrittenAdapter(*name_adapter(form), *texts, found, form.remarks, form.demanded_keywords,
                              (*form.warnings, *learned.warnings))
    finally:
        client.close()


def _write_rotary(callee: ExaminedCallable, process: CalleeProcess, folder: str) -> WrittenAdapter:
    """What `init` writes for a rotary embedding."""
    form = rotary.find_rotary_form(callee, process)
    return WrittenAdapter(*name_adapter(form.call), rotary.write_rotary(form, folder), write_head(form.call),
                          rotary.write_rotary_entry(form, process),
                          tuple(rotary.describe_rotary(form)))


def _choose_keras_backend() -> Mapping[str, str]:
    """Keras takes TensorFlow where nobody names a backend; where that is not installed, the first that is."""
    if "KERAS_BACKEND" in os.environ or not is_installed("keras") or is_installed("tensorflow"):
        return {}
    return {"KERAS_BACKEND": next((name for name in LIFTS if is_installed(name)), "numpy")}
