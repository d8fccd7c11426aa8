"""Functions as subjects."""

from __future__ import annotations

from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

import numpy as np
from attnspec.core.declaration import Declaration
from attnspec.core.errors import FileLocation
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import Kind
from attnspec.core.surroundings import Surroundings
from attnspec.problems.problem import Array
from attnspec.subjects.callee import InProcess
from attnspec.subjects.manifest import Library
from attnspec.subjects.registry import load_target
from attnspec.subjects.signature import describe_function
from attnspec.subjects.subject import Subject

ATTENTION_KEYWORDS = frozenset(word.name for word in KEYWORDS.values() if Kind.ATTENTION in word.kinds)


def subject_of(function: Callable[..., object], keywords: Set[str] = frozenset(),
               **declared: Any) -> Subject:  # noqa: ANN401
    """The subject `mine`: this function, with these keywords and these further fields of a declaration."""
    declaration = Declaration(keywords=frozenset(keywords), **declared)
    return Subject("mine", "mine", InProcess(function, declaration.lift), declaration, FileLocation("mine.py", 1),
                   Library("mine"), description=describe_function(function))


def load_source(folder: Path, source: str) -> Subject:
    """The function `attend` of a file with this text, told of nothing else."""
    (folder / "mine.py").write_text(source, encoding="utf-8")
    return load_target(f"{folder / 'mine.py'}:attend", surroundings=Surroundings())


def softmax_of(logits: Array) -> Array:
    """(…,S) logits -> (…,S) weights, in the dtype of the logits."""
    grown = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=-1, keepdims=True))


def module_of(head: str, folder: Path, check: str = "pass", more: str = "") -> str:
    """The target of a function in a module of its own: `head` with its places for a check and for more filled."""
    path = folder / "mine.py"
    path.write_text(head.format(check=check, more=more), encoding="utf-8")
    return f"{path}:attend"
