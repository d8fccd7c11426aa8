"""What the definition says of the problems at hand, kept for the next subject that is held to the same."""

from __future__ import annotations

from functools import lru_cache

from attnspec.court.bench import Archive, Memory
from attnspec.ground.nouns import DType
from attnspec.subjects.subject import Subject

KEPT = 6
"""Archives: attention and the kinds of layers at one dtype. Subjects come dtype by dtype."""

MOST = 4096
"""Problems, and as many expectations, in each: what a sound subject is put to at effort quick, and more."""


def shared_archive(subject: Subject, dtype: DType) -> Archive:
    """The archive of all subjects to whom the definition says the same at this dtype."""
    declared = subject.declaration
    return _archive(repr((dtype, declared.kind, declared.limits, sorted(declared.conventions.items()),
                          declared.precision.get(dtype), declared.output_dtype)))


@lru_cache(KEPT)
def _archive(_shared_by: str) -> Archive:
    return Archive(Memory(MOST), Memory(MOST))
