"""The line to write into a manifest in order to own what a subject does, and where in it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from attnspec.subjects.subject import Subject


def manifest_line(subject: Subject, key: str, entries: Mapping[str, object]) -> str:
    """`under 'precision' of mine/attend (FILE:LINE) write: float16: {…}`. The key may be there already, with others."""
    place = f" ({subject.entry})" if subject.entry else ""
    return f"under {key!r} of {subject.id}{place} write: {', '.join(f'{k}: {_yaml(v)}' for k, v in entries.items())}"


def _yaml(value: object) -> str:
    """The value as one writes it in YAML on one line; texts are quoted as in JSON."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
