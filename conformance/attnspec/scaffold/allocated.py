"""A cache of a fixed room that a function wants from its first call on: a dict of arrays and of the next place in
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attnspec.core.forms import STATE
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.lookup import find_parameters, find_role
from attnspec.scaffold.parameters.reading import find_parts

CACHE_ROOM = 512
"""Keys that it has room for."""

_PLACE_NAME = re.compile(r"(^|_)(index|idx|pos|position|offset|length|len|end|start|cursor|step)(_|$)")
_MODULES_BY_LIFT: Mapping[str, str] = {"": "np", "torch": "torch", "jax": "jnp"}
_CACHE_SHAPES = ("B, {room}, Hkv, {width}", "B, Hkv, {room}, {width}")


def list_allocated_caches(callee: ExaminedCallable, lift: str) -> Iterator[tuple[str, str]]:
    """The parameter that is a cache without which nothing is called, and Python of an empty one, in every way in
    which its arrays may lie. callee: with its sources.
    """
    wanted = [each.name for each in find_parameters(STATE, callee.parameters) if each.is_required]
    for name in wanted[:1]:
        keys = sorted(rest[0] for _, *rest in find_parts(callee.functions, 0, {name: (name,)}) if len(rest) == 1)
        for shape in _CACHE_SHAPES:
            entries = [_write_cache_entry(key, shape, lift) for key in keys]
            if len(entries) > 1 and all(entries):
                yield name, f"{{{', '.join(filter(None, entries))}}}"


def _write_cache_entry(key: str, shape: str, lift: str) -> str | None:
    """`"k": jnp.zeros((B, 512, Hkv, D), dtype=query.dtype)`, or the next place; None where nobody knows what it is."""
    name = key.strip('[]"')
    if not key.startswith('["'):
        return None
    if _PLACE_NAME.search(name):
        return f'"{name}": 0'
    width = {"key": "D", "value": "Dv"}.get(find_role((name,)))
    made = shape.format(room=CACHE_ROOM, width=width)
    return f'"{name}": {_MODULES_BY_LIFT[lift]}.zeros(({made}), dtype=query.dtype)' if width else None
