"""A cache of a fixed room that a function wants from its first call on: a dict of arrays and of the next place in
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attnspec.core.forms import STATE
from attnspec.scaffold.examined import Examined
from attnspec.scaffold.lookup import role_of, theirs
from attnspec.scaffold.parameters.reading import parts_taken

ROOM = 512
"""Keys that it has room for."""

_PLACE = re.compile(r"(^|_)(index|idx|pos|position|offset|length|len|end|start|cursor|step)(_|$)")
_MADE: Mapping[str, str] = {"": "np", "torch": "torch", "jax": "jnp"}
_SHAPES = ("B, {room}, Hkv, {width}", "B, Hkv, {room}, {width}")


def allocated_caches(callee: Examined, lift: str) -> Iterator[tuple[str, str]]:
    """The parameter that is a cache without which nothing is called, and Python of an empty one, in every way in
    which its arrays may lie. callee: with its sources.
    """
    wanted = [each.name for each in theirs(STATE, callee.parameters) if each.is_required]
    for name in wanted[:1]:
        keys = sorted(rest[0] for _, *rest in parts_taken(callee.functions, 0, {name: (name,)}) if len(rest) == 1)
        for shape in _SHAPES:
            entries = [_entry(key, shape, lift) for key in keys]
            if len(entries) > 1 and all(entries):
                yield name, f"{{{', '.join(filter(None, entries))}}}"


def _entry(key: str, shape: str, lift: str) -> str | None:
    """`"k": jnp.zeros((B, 512, Hkv, D), dtype=query.dtype)`, or the next place; None where nobody knows what it is."""
    name = key.strip('[]"')
    if not key.startswith('["'):
        return None
    if _PLACE.search(name):
        return f'"{name}": 0'
    width = {"key": "D", "value": "Dv"}.get(role_of((name,)))
    made = shape.format(room=ROOM, width=width)
    return f'"{name}": {_MADE[lift]}.zeros(({made}), dtype=query.dtype)' if width else None
