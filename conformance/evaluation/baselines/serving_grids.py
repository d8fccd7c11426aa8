"""The tests of today that have lengths and caches, as they are published: facts, each with its source."""

from __future__ import annotations

from dataclasses import replace

from evaluation.baselines import grids
from evaluation.baselines.grids import Option, by_test

_FLASH = by_test(grids.FLASH_ATTENTION)
_VARLEN, _CAPPED, _CACHE = (_FLASH[test] for test in (
    "test_flash_attn_varlen_output", "test_flash_attn_output, softcap", "test_flash_attn_kvcache"))

VARLEN = (
    _VARLEN,
    replace(_VARLEN, test=f"{_VARLEN.test}, softcap", heads=_CAPPED.heads, always=(Option.PADDED, Option.SOFTCAP),
            softcap=_CAPPED.softcap, gain=_CAPPED.gain),
)
"""Packed sequences; here they have numbers of queries and of keys."""

LONGEST = 2048
"""The most keys of a cache. A decoder is handed past keys in earlier calls with as many queries, so that their work
grows as the square; 20,000 and 131,072 keys are left out.
"""

_SHORT = replace(_CACHE, lengths=tuple((T, S) for T, S in _CACHE.lengths if S <= LONGEST))

CACHES = (
    _SHORT,
    replace(_SHORT, test=f"{_CACHE.test}, new keys", switches=(*_CACHE.switches, Option.FEWER),
            always=(Option.CACHED, Option.APPENDED)),
)
"""A cache that is filled in part, and one to which the call appends."""
