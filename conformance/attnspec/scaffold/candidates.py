"""Candidates for a class or function whose adapter is known: files of a kernel generator, in the reference's place.

KernelBench asks for a class `ModelNew` that is called as the reference `Model` is
(https://github.com/ScalingIntelligence/KernelBench, src/kernelbench/eval.py).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from attnspec.core.errors import FileLocation, TargetError, either
from attnspec.scaffold.acquaint import WrittenAdapter
from attnspec.spec.yaml_lines import read_bytes

NEW_SUFFIX = "New"
"""What KernelBench adds to the name of the reference."""


@dataclass(frozen=True, slots=True)
class CandidateAdapter:
    """An adapter of a candidate, made from that of the reference.

    source: the candidate's own text, which is imported under the name `module`.
    """

    module: str
    source: bytes
    written: WrittenAdapter


def candidates_for(target: str, written: WrittenAdapter, paths: Iterable[Path]) -> Iterator[CandidateAdapter]:
    """Of each file, or each Python file of a folder, the adapter that was `written` for the reference, target
    (package.module:name), with the file's own class or function in its place: NAMENew if there is one, else NAME.

    Raises TargetError for a file that has neither, that is no Python or not there, or whose name is another's. So it
    does where the adapter does not import the reference by its name.
    """
    names: dict[str, Path] = {}
    for file in chain.from_iterable(map(_list_candidate_files, paths)):
        name = re.sub(r"\W", "_", file.stem).lower()
        name = f"_{name}" if name[:1].isdigit() else name
        if name in {*names, written.name}:
            raise TargetError(f"{file} and {names.get(name, written.name)} would both be {name!r}. Rename one of them.")
        names[name] = file
        source = read_bytes(file, error=TargetError)
        stated = _replace_reference(written, target, f"{name}_candidate",
                                    _find_stand_in(file, source, target.rpartition(":")[2]), name)
        yield CandidateAdapter(f"{name}_candidate", source, stated)


def _list_candidate_files(path: Path) -> list[Path]:
    """Those of a folder whose names begin with `_` are left out."""
    return sorted(each for each in path.glob("*.py") if each.name[0] != "_") if path.is_dir() else [path]


def _find_stand_in(file: Path, source: bytes, reference: str) -> str:
    """The name in the file that stands for the reference."""
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


def _replace_reference(written: WrittenAdapter, target: str, module: str, meant: str, name: str) -> WrittenAdapter:
    """What was written for the reference, of this name in that module beside it."""
    home, _, reference = target.rpartition(":")
    subject = (written.manifest_entry.replace(f"  - id: {written.name}\n", f"  - id: {name}\n", 1)
               .replace(f"    title: {home}.{reference}\n", f"    title: {name}, in place of {home}.{reference}\n", 1)
               .replace(f"    function: {written.name}:", f"    function: {name}:", 1))
    return WrittenAdapter(written.library, name, _import_candidate(written.adapter, target, module, meant),
                          written.manifest_head, subject)


def _import_candidate(adapter: str, target: str, module: str, meant: str) -> str:
    """The adapter, which imports the candidate as it did the reference; what else it imports from there stays."""
    home, _, reference = target.rpartition(":")
    lines = adapter.splitlines()
    for node in ast.parse(adapter).body:
        names = node.names if isinstance(node, ast.ImportFrom) and node.module == home else []
        if theirs := [each for each in names if each.name == reference]:
            called = theirs[0].asname or reference
            mine = ast.alias(meant, None if called == meant else called)
            rest = [each for each in names if each.name != reference]
            statements = [*([ast.ImportFrom(home, rest, 0)] if rest else []), ast.ImportFrom(module, [mine], 1)]
            lines[node.lineno - 1:node.end_lineno] = map(ast.unparse, statements)
            return "\n".join(lines) + "\n"
    raise TargetError(f"no candidate can take the place of {target}: the adapter does not import it by that name.")
