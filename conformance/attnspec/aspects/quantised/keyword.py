"""Quantised attention has for each array a scale, a zero point and a second scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from attnspec.aspects.quantised.storage import (
    BLOCKED,
    GRANULARITIES,
    PAGED_GRANULARITIES,
    STORAGES,
    UNBLOCKED,
    Storage,
    is_along_tokens,
)
from attnspec.core.errors import SpecError, hint
from attnspec.core.keyword import (
    Acts,
    GlobalScalePattern,
    Keyword,
    KeywordLimits,
    Saying,
    Values,
    ZeroPattern,
    make_pattern_values,
)
from attnspec.core.nouns import Kind

POOL = "quantised"
"""The pool of clauses about codes, which do not count where other pools are counted."""

QUANTISES, QUANTISED_CACHE = "quantises", "quantised_cache"
"""The profiles of functions, and of decoders, that say that they store entries as codes."""

PROFILES: Mapping[str, str] = {
    QUANTISES: "what a precision class says is stored as codes is rounded to these codes, and to no others",
    QUANTISED_CACHE: "what a cache holds as codes is stored once, and read at every step: bit for bit"}
IF_CLAIMED = (QUANTISED_CACHE,)
"""The profile that binds only who claims it."""

ScaleKind = Literal["powers", "odd", "ones", "with_zero"]
SCALE_KINDS: Mapping[ScaleKind, str] = {
    "powers": "powers of two: then moving a factor between codes and scale is exact",
    "odd": "numbers that fill their 24 bits",
    "ones": "1 everywhere: the codes are the numbers",
    "with_zero": "as powers; every third is 0",
}
"""The kinds of scales. But for `ones`, neighbours differ: the first one does not serve all."""
USUAL_KINDS: tuple[ScaleKind, ...] = ("powers", "odd")

SEPARATOR = "/"
_KINDS_OF: Mapping[str, tuple[ScaleKind, ...]] = {"float8_e8m0fnu": ("powers", "ones")}
"""By the type of scales, their kinds where it cannot hold all: E8M0 has exponents alone."""


def _kinds_of(storage: Storage) -> tuple[ScaleKind, ...]:
    return _KINDS_OF.get(storage.scales, tuple(SCALE_KINDS))


def _describe_patterns() -> Iterator[tuple[str, str]]:
    """The name of each pattern of scales, and what it is."""
    for name, storage in STORAGES.items():
        paged = () if storage.block else PAGED_GRANULARITIES
        for kind in _kinds_of(storage):
            for granularity in (*storage.granularities, *paged):
                yield (SEPARATOR.join((name, granularity, kind)),
                       f"{name} codes, a scale by {granularity}, {SCALE_KINDS[kind]}")


PATTERNS: Mapping[str, str] = dict(_describe_patterns())
"""By name, `int8/head/odd`: the storage of the codes, the granularity and kind of the scales."""

SHAPES = (*UNBLOCKED.values(), *BLOCKED.values())
"""The shapes that scales may have; N is the length of a block."""

_IN_TURN = ("head", "token", "tensor", "channel", "batch_head", "batch")

_OF_ANY_BLOCK = tuple(name for name, storage in STORAGES.items() if not storage.block)

# first the storages, then the granularities: neighbours in this order are cases one after the other
USUAL: tuple[str, ...] = (
    *(SEPARATOR.join((name, granularity, kind)) for granularity in _IN_TURN for kind in USUAL_KINDS
      for name in _OF_ANY_BLOCK),
    *(SEPARATOR.join((name, granularity, "odd")) for granularity in GRANULARITIES if granularity not in UNBLOCKED
      for name in _OF_ANY_BLOCK),
    *(SEPARATOR.join((name, granularity, kind)) for name, storage in STORAGES.items() if storage.block
      for granularity in storage.granularities for kind in _kinds_of(storage) if kind in USUAL_KINDS))

ZERO_PATTERNS: Mapping[ZeroPattern, str] = {
    "spread": "whole numbers about the middle of the codes' range; neighbours differ",
    "fraction": "the same and some eighths more: numbers that are no codes",
    "extreme": "the least and the largest code by turns",
    "none": "0 everywhere",
}
"""The patterns of zero points, in the range of the storage, of the granularity of the scale."""
USUAL_ZEROS: tuple[ZeroPattern, ...] = ("spread", "fraction")

GLOBAL_PATTERNS: Mapping[GlobalScalePattern, str] = {
    "odd": "a number between 1/2 and 3/2 that fills its 24 bits",
    "power": "a power of two from 1/4 to 4, not 1",
    "one": "1, which changes nothing",
}
"""The patterns of the second scale of an array, by which all its scales are multiplied."""
USUAL_GLOBALS: tuple[GlobalScalePattern, ...] = ("odd", "power")

_ATTENTION = frozenset({Kind.ATTENTION})


def parts_of(pattern: str) -> tuple[str, str, str]:
    """Split a pattern into the storage, the granularity and the kind of scales."""
    storage, granularity, kind = pattern.split(SEPARATOR)
    return storage, granularity, kind


def _check(name: str) -> str:
    """Return a pattern that YAML gives; raise SpecError, with the nearest, if there is none."""
    if name not in PATTERNS:
        raise SpecError.unknown("pattern of scales", name, PATTERNS)
    return name


def _read(text: str) -> str:
    """Return a pattern that a recipe writes; raise ValueError, with the nearest, for none."""
    if text not in PATTERNS:
        raise ValueError(f"{text} names no pattern of scales.{hint(text, PATTERNS)}".rstrip("."))
    return text


def _misfit(array: str, limits: KeywordLimits, scale: Any) -> str:  # noqa: ANN401  (a pattern or an array)
    """Why a subject with these limits does not take a pattern of scales; empty if it may."""
    if not isinstance(scale, str):
        return ""
    storage, granularity, _ = parts_of(scale)
    stored, declared = getattr(limits, f"stored_{array}"), getattr(limits, f"{array}_scales")
    if stored and stored != storage:
        return f"only {stored} codes of the {array}"
    if declared and declared != granularity:
        return f"only a scale of the {array} by {declared}"
    return ""


def _comes_with(limits: KeywordLimits) -> frozenset[str]:
    """The scales that each call has: a function of stored codes takes no other numbers."""
    return frozenset(f"{array}_scale" for array in ("query", "key", "value") if getattr(limits, f"stored_{array}"))


def _zero_misfit(limits: KeywordLimits, zero: Any) -> str:  # noqa: ANN401  (a pattern or an array)
    """Why a subject with these limits does not take a pattern of zero points; else empty."""
    if isinstance(zero, str) and zero == "fraction" and limits.zeros == "codes":
        return "only zero points that are codes"
    return ""


_SCALE_NAMES = ("{0}_scales", "{1}_scales", "{0}_cache_scale", "{1}_cache_scale", "{0}_scale_cache", "{0}_descales",
                "{0}_dequant_scale", "{1}_dequant_scale", "{0}_dequant", "scale_{0}", "scale_{1}", "{0}_scaling_factor")
_ZERO_NAMES = ("{0}_zero", "{0}_zeros", "{0}_zp", "{0}_zero_points", "{1}_zeros", "{1}_zp", "{1}_zero_points",
               "zero_{0}")
"""The other names of such parameters; {0} is the first letter of the array, {1} the array."""


def _spell_names(array: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names for one array."""
    return tuple(name.format(array[0], array) for name in names)


def _zero_of(array: str, axes: str, shape: str, *names: str) -> Keyword:
    asks = f"What does a zero point do to the codes of the {array}?"
    keyword = f"{array}_zero"
    return Keyword(
        keyword, f"float32, broadcasts to {shape}",
        f"the {array} that attends is ({array} - {keyword}) · {array}_scale. It has the shape of `{array}_scale`, and "
        "the format of the codes where the subject declares `zeros` to be `codes`",
        "query_zero_points" if array == "query" else "zero_points", Acts.ENTRIES, "{0} | None",
        promise=f"zero points are taken off codes of the {'query' if array == 'query' else 'keys and values'}",
        kinds=_ATTENTION, in_layers=False, axes=axes,
        values=make_pattern_values(keyword, ZERO_PATTERNS, USUAL_ZEROS, "zero points", f"{keyword}_patterns"),
        sample="spread", is_uncommon=True, pool=POOL, meaning_of=array, identity=0.0,
        misfit=lambda limits, zero, _: _zero_misfit(limits, zero), comes_with=_comes_with,
        questions={f"{keyword}.form": asks}, asks=asks, other_names=names,
        parameters=(keyword, *names, *_spell_names(array, _ZERO_NAMES)), sayings=(Saying(keyword),))


def _global_of(array: str, axes: str) -> Keyword:
    asks = f"What does the second scale of the {array} do?"
    keyword = f"{array}_global_scale"
    return Keyword(
        keyword, "() float32",
        f"one more scale for the whole array: the {array} that attends is {array} · {array}_scale · {keyword}",
        "query_global_scales" if array == "query" else "global_scales", Acts.ENTRIES, "{0} | None",
        promise=f"codes of the {'query' if array == 'query' else 'keys and values'} have a second scale",
        kinds=_ATTENTION, in_layers=False, axes=axes,
        values=make_pattern_values(keyword, GLOBAL_PATTERNS, USUAL_GLOBALS, "second scales", f"{keyword}_patterns"),
        sample="odd", is_uncommon=True, pool=POOL, meaning_of=array, comes_with=_comes_with,
        questions={f"{keyword}.form": asks}, asks=asks,
        parameters=(keyword, f"{array[0]}_global_scale"), sayings=(Saying(keyword),))


def _scale_of(array: str, axes: str, shape: str, *names: str) -> Keyword:
    asks = f"What does a scale do to the codes of the {array}?"
    return Keyword(
        f"{array}_scale", f"float32, broadcasts to {shape}",
        f"the {array} that attends is {array} · {array}_scale: its entries are codes. Where the subject declares "
        f"`{array}_scales`, the shape is that of the granularity: {', '.join(SHAPES)}",
        "quantised_queries" if array == "query" else "quantised", Acts.ENTRIES, "{0} | None",
        promise=f"codes of the {'query' if array == 'query' else 'keys and values'} are multiplied by their scales",
        kinds=_ATTENTION, in_layers=False, axes=axes,
        values=Values(USUAL, f"{array}_scale_patterns", USUAL[0], str, _read, _check),
        sample=USUAL[0], is_uncommon=True, pool=POOL, meaning_of=array, is_factor=True,
        misfit=lambda limits, scale, _: _misfit(array, limits, scale), comes_with=_comes_with,
        questions={f"{array}_scale.form": asks}, asks=asks, other_names=names,
        parameters=(f"{array}_scale", *names, *_spell_names(array, _SCALE_NAMES)), sayings=(Saying(f"{array}_scale"),))


KEYWORDS = (
    _scale_of("query", "BHTD", "(B,H,T,D)", "q_scale", "q_descale", "descale_q"),
    _scale_of("key", "BHSD", "(B,Hkv,S,D)", "k_scale", "k_descale", "descale_k"),
    _scale_of("value", "BHSV", "(B,Hkv,S,Dv)", "v_scale", "v_descale", "descale_v"),
    _zero_of("query", "BHTD", "(B,H,T,D)", "q_zero_point", "query_zero_point"),
    _zero_of("key", "BHSD", "(B,Hkv,S,D)", "k_zero_point", "key_zero_point"),
    _zero_of("value", "BHSV", "(B,Hkv,S,Dv)", "v_zero_point", "value_zero_point"),
    _global_of("query", "BHTD"), _global_of("key", "BHSD"), _global_of("value", "BHSV"),
)

def even_axes(limits: KeywordLimits) -> tuple[str, ...]:
    """List the axes whose length has to be even: a subject cannot tell it from its packed arrays,
    and no other array that it is handed has them.
    """
    tokens, features = set[str](), set[str]()
    for array in ("query", "key", "value"):
        layout = getattr(limits, f"packed_{array}")
        if layout:
            (tokens if is_along_tokens(layout) else features).add(array)
    unknown = {"D": {"query", "key"} <= features, "Dv": "value" in features, "T": "query" in tokens,
               "S": {"key", "value"} <= tokens}
    return tuple(axis for axis, is_unknown in unknown.items() if is_unknown)


NEUTRAL: Mapping[str, str] = {
    **dict.fromkeys((word.name for word in KEYWORDS), "int8/tensor/ones"),
    **{f"{array}_zero": "none" for array in ("query", "key", "value")},
    **{f"{array}_global_scale": "one" for array in ("query", "key", "value")}}
"""By keyword, the pattern that changes no answer."""
