"""Where a mistake sits that no fault of the catalogue explains."""

from __future__ import annotations

from attnspec.court.bench import SubjectBench


def locate(bench: SubjectBench) -> str:
    """Nothing can be read yet."""
    return f"nothing could be read off {bench.subject.id}"
