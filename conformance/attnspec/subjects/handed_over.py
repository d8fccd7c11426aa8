"""What is handed over to a host that does not see the files of this machine: Python files, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attnspec.core.errors import TargetError
from attnspec.spec.yaml_lines import shown

LARGEST = 2**23
"""Bytes of Python that are handed over at most: a folder that holds more is no folder of one's own code."""

_LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages", "findings", "build", "dist", "reports"})


def handed_over(target: str, adapters: Sequence[Path]) -> Mapping[str, str]:
    """By the name that it gets there, the text of each file that the target may import.

    Of `path/to/file.py:function` its folder; of `package.module:function` the package, or the module and what stands
    beside it, if it lies in the working directory (what does not has to be installed over there); of a registered
    subject every adapter. Raises TargetError where that is too much.
    """
    module = target.rpartition(":")[0]
    if not module:
        return {f"{name}/{file}": text for name, folder in zip(adapter_folders(adapters), adapters, strict=True)
                for file, text in _files(folder)}
    if module.endswith(".py") or "/" in module:
        return python_files(Path(module).absolute().parent)
    top = module.partition(".")[0]
    if Path(top).is_dir():
        return {f"{top}/{file}": text for file, text in _files(Path(top).absolute())}
    return python_files(Path.cwd()) if Path(f"{top}.py").is_file() else {}


def python_files(folder: Path) -> Mapping[str, str]:
    """By its path in the folder, the text of each Python file there. Raises TargetError where that is too much."""
    return dict(_files(folder))


def adapter_folders(adapters: Sequence[Path]) -> list[str]:
    """What the folders of adapters are called over there."""
    return [f"adapters{number}" for number, _ in enumerate(adapters)]


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Python files below the folder, by their path in it."""
    handed = 0
    for path in sorted(_python(folder)):
        handed += path.stat().st_size
        if handed > LARGEST:
            raise TargetError(f"{shown(folder)} holds more than {LARGEST // 2**20} MiB of Python, too much to "
                              "send. Put the function into a folder of its own, or install its package there.")
        yield path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8", errors="replace")


def _python(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name in _LEFT_OUT or (path / "pyvenv.cfg").exists():
            continue
        if path.is_dir():
            yield from _python(path)
        elif path.suffix == ".py":
            yield path
