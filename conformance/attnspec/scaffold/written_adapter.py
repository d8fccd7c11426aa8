"""Writes an adapter and a manifest for a foreign callable, which is examined in a process of its
own.

Candidates are files of a kernel generator that take the reference's place. KernelBench asks for a
class `ModelNew` that is called as the reference `Model` is
(https://github.com/ScalingIntelligence/KernelBench, src/kernelbench/eval.py).
"""

from __future__ import annotations

import ast
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from attnspec.core.errors import FileLocation, TargetError, either
from attnspec.core.surroundings import Surroundings
from attnspec.host.lifts import LIFTS
from attnspec.scaffold import rotary
from attnspec.scaffold.callee_process import CalleeProcess, locate_target
from attnspec.scaffold.manifest import (
    describe_conventions,
    describe_dtypes,
    measure_adapter,
    name_adapter,
    write_entry,
    write_head,
)
from attnspec.scaffold.search import find_form
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.source import write_source
from attnspec.scaffold.writing.telling import describe_form
from attnspec.spec.yaml_lines import read_bytes
from attnspec.subjects.installed import is_installed
from attnspec.subjects.target import host_of

HURRIED_ENVIRONMENT: Mapping[str, str] = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
"""The environment of the callee's process. JAX compiles every operation anew for every shape; what
is tried here is small, and need not be fast.
"""


@dataclass(frozen=True, slots=True)
class WrittenAdapter:
    """An adapter and its manifest, in two parts (of the library, of the subject), as texts.

    sentences: what was found, a sentence each.  remarks: what a judge of the subject should know.
    warnings: what has to be known first.  demanded_keywords: keywords without which no check of it
    passes.
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
    """Writes the adapter and manifest of a callable, to be put into a folder of `into`. written:
    `package.module:name` or `path/to/file.py:name`.  surroundings: where it lives; their deadline
    is that of the whole search. Raises TargetError.
    """
    location = locate_target(written)
    target, folder = location.target, location.path_from(into / "library")
    if location.file and not surroundings.is_here:
        raise TargetError("no module can have the name of this file, and elsewhere it is imported "
                          "by its name. Rename it, with letters, digits and `_` only.",
                          where=FileLocation(written))
    hurried = replace(surroundings, environment={**HURRIED_ENVIRONMENT, **_choose_keras_backend()})
    client = host_of(target, hurried, location.folder)
    process = CalleeProcess(client, time.monotonic() + surroundings.deadline,
                            location.preload_source)
    trier = Trier(process)
    try:
        if rotary.looks_rotary(callee := process.examine(target)):
            turning = rotary.find_rotary_form(callee, process)
            return WrittenAdapter(
                *name_adapter(turning.call), rotary.write_rotary(turning, folder),
                write_head(turning.call), rotary.write_rotary_entry(turning, process),
                tuple(rotary.describe_rotary(turning)))
        form = find_form(target, trier)
        learned = measure_adapter(form, trier)
        found = (*learned.warnings, *describe_form(form), *describe_dtypes(learned),
                 *describe_conventions(learned))
        texts = write_source(form, folder), write_head(form), write_entry(form, learned)
        return WrittenAdapter(*name_adapter(form), *texts, found, form.remarks,
                              form.demanded_keywords, (*form.warnings, *learned.warnings))
    finally:
        client.close()


def _choose_keras_backend() -> Mapping[str, str]:
    """Chooses an installed backend for Keras, which takes TensorFlow by default."""
    if "KERAS_BACKEND" in os.environ or not is_installed("keras") or is_installed("tensorflow"):
        return {}
    return {"KERAS_BACKEND": next((name for name in LIFTS if is_installed(name)), "numpy")}


NEW_SUFFIX = "New"
"""What KernelBench adds to the name of the reference."""


@dataclass(frozen=True, slots=True)
class CandidateAdapter:
    """An adapter of a candidate, made from that of the reference.  source: the candidate's own
    text, which is imported under the name `module`.
    """

    module: str
    source: bytes
    written: WrittenAdapter


def candidates_for(target: str, written: WrittenAdapter, paths: Iterable[Path]) -> Iterator[CandidateAdapter]:
    """Yields, for each Python file, the reference's adapter with the file's class or function in
    its place.  written: the adapter of the reference, target (`package.module:name`).  paths:
    files, and folders of files. The file's NAMENew is taken if there is one, else NAME. Raises
    TargetError for a file that has neither, is no Python or not there, or has another's name, and
    where the adapter does not import the reference by its name.
    """
    names: dict[str, Path] = {}
    listed = [sorted(path.glob("[!_]*.py")) if path.is_dir() else [path] for path in paths]
    for file in chain.from_iterable(listed):
        name = re.sub(r"\W", "_", file.stem).lower()
        name = f"_{name}" if name[:1].isdigit() else name
        if name in {*names, written.name}:
            raise TargetError(f"{file} and {names.get(name, written.name)} would both be {name!r}. Rename one of them.")
        names[name] = file
        source = read_bytes(file, error=TargetError)
        stated = _replace_reference(written, target, f"{name}_candidate",
                                    _find_stand_in(file, source, target.rpartition(":")[2]), name)
        yield CandidateAdapter(f"{name}_candidate", source, stated)


def _find_stand_in(file: Path, source: bytes, reference: str) -> str:
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError) as wrong:
        where = FileLocation(str(file), getattr(wrong, "lineno", 1) or 1)
        raise TargetError(f"is no Python: {wrong}.", where=where) from None
    defined = [each.name for each in body if isinstance(each, (ast.ClassDef, ast.FunctionDef))]
    for name in (reference + NEW_SUFFIX, reference):
        if name in defined:
            return name
    wanted = either([reference + NEW_SUFFIX, reference])
    raise TargetError(f"has no {wanted}. It has: {', '.join(defined) or 'nothing'}.",
                      where=FileLocation(str(file)))


def _replace_reference(written: WrittenAdapter, target: str, module: str, meant: str,
                       name: str) -> WrittenAdapter:
    """Replaces the reference by this name of a module beside it."""
    home, _, reference = target.rpartition(":")
    subject = (written.manifest_entry.replace(f"  - id: {written.name}\n", f"  - id: {name}\n", 1)
               .replace(f"    title: {home}.{reference}\n", f"    title: {name}, in place of {home}.{reference}\n", 1)
               .replace(f"    function: {written.name}:", f"    function: {name}:", 1))
    return WrittenAdapter(written.library, name,
                          _import_candidate(written.adapter, target, module, meant),
                          written.manifest_head, subject)


def _import_candidate(adapter: str, target: str, module: str, meant: str) -> str:
    """Imports the candidate in the place of the reference; other imports from there stay."""
    home, _, reference = target.rpartition(":")
    lines = adapter.splitlines()
    for node in ast.parse(adapter).body:
        names = node.names if isinstance(node, ast.ImportFrom) and node.module == home else []
        if theirs := [each for each in names if each.name == reference]:
            called = theirs[0].asname or reference
            mine = ast.alias(meant, None if called == meant else called)
            rest = [each for each in names if each.name != reference]
            statements = [*([ast.ImportFrom(home, rest, 0)] if rest else []),
                          ast.ImportFrom(module, [mine], 1)]
            lines[node.lineno - 1:node.end_lineno] = map(ast.unparse, statements)
            return "\n".join(lines) + "\n"
    raise TargetError(f"no candidate can take the place of {target}: the adapter does not import it by that name.")
