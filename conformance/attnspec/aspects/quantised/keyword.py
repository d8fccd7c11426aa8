"""The keywords of quantised attention: a scale for each array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attnspec.core.errors import SpecError, hint
from attnspec.core.keyword import Acts, Keyword, KeywordLimits, Saying, Values
from attnspec.core.keyword_nouns import QUANTISED_POOL
from attnspec.core.nouns import Kind
from attnspec.core.storage import GRANULARITIES, PAGED_GRANULARITIES, STORAGES

POOL = QUANTISED_POOL

ScaleKind = Literal["powers", "odd", "ones", "with_zero"]
SCALE_KINDS: Mapping[ScaleKind, str] = {
    "powers": "powers of two: then moving a factor between codes and scale is exact",
    "odd": "numbers that fill their 24 bits",
    "ones": "1 everywhere: the codes are the numbers",
    "with_zero": "as powers; every third is 0",
}
"""What scales are like. Neighbours differ, but for `ones`: a kernel that reads the first for all is wrong at once."""
USUAL_KINDS: tuple[ScaleKind, ...] = ("powers", "odd")

SEPARATOR = "/"
PATTERNS: Mapping[str, str] = {
    SEPARATOR.join((storage, granularity, kind)): f"{storage} codes, a scale by {granularity}, {text}"
    for storage in STORAGES for granularity in (*GRANULARITIES, *PAGED_GRANULARITIES)
    for kind, text in SCALE_KINDS.items()}
"""By name, `int8/head/odd`: the storage of the codes, how many share a scale, and what scales are like."""

# first the storages, then the granularities: neighbours in this order are cases one after the other
USUAL: tuple[str, ...] = tuple(
    SEPARATOR.join((storage, granularity, kind)) for granularity in ("head", "token", "tensor", "channel", "batch_head",
                                                                     "batch")
    for kind in USUAL_KINDS for storage in STORAGES)

_ATTENTION = frozenset({Kind.ATTENTION})


def parts_of(pattern: str) -> tuple[str, str, str]:
    """The storage, the granularity and the kind of scales that a pattern names."""
    storage, granularity, kind = pattern.split(SEPARATOR)
    return storage, granularity, kind


def _check(name: str) -> str:
    """A pattern as YAML gives it. Raises SpecError, with the nearest, for one that does not exist."""
    if name not in PATTERNS:
        raise SpecError.unknown("pattern of scales", name, PATTERNS)
    return name


def _read(text: str) -> str:
    """A pattern as a recipe writes it. Raises ValueError, with the nearest, for one that does not exist."""
    if text not in PATTERNS:
        raise ValueError(f"{text} names no pattern of scales.{hint(text, PATTERNS)}".rstrip("."))
    return text


def _misfit(array: str, limits: KeywordLimits, scale: Any) -> str:  # noqa: ANN401  (a pattern or an array)
    """What of a pattern of scales a subject with these limits does not take; an array is looked at with its codes."""
    if not isinstance(scale, str):
        return ""
    storage, granularity, _ = parts_of(scale)
    stored, shared = getattr(limits, f"stored_{array}"), getattr(limits, f"{array}_scales")
    if stored and stored != storage:
        return f"only {stored} codes of the {array}"
    return f"only a scale of the {array} by {shared}" if shared and shared != granularity else ""


def _comes_with(limits: KeywordLimits) -> frozenset[str]:
    """Who takes codes of an array in their storage takes no other numbers there, so that each call has its scale."""
    return frozenset(f"{array}_scale" for array in ("query", "key", "value") if getattr(limits, f"stored_{array}"))


def _scale_of(array: str, axes: str, shape: str, *names: str) -> Keyword:
    asks = f"What does a scale do to the codes of the {array}?"
    return Keyword(
        f"{array}_scale", f"float32, broadcasts to {shape}",
        f"the {array} that attends is {array} · {array}_scale: its entries are codes. Where the subject declares "
        f"`{array}_scales`, the shape is that of the granularity: {', '.join(GRANULARITIES.values())}",
        "quantised_queries" if array == "query" else "quantised", Acts.STORAGE, "{0} | None",
        promise=f"codes of the {'query' if array == 'query' else 'keys and values'} are multiplied by their scales",
        kinds=_ATTENTION, in_layers=False, axes=axes,
        values=Values(USUAL, f"{array}_scale_patterns", USUAL[0], str, _read, _check),
        sample=USUAL[0], is_uncommon=True, pool=POOL, meaning_of=array,
        misfit=lambda limits, scale, _: _misfit(array, limits, scale), comes_with=_comes_with,
        questions={f"{array}_scale.form": asks}, asks=asks,
        other_names=names, parameters=(f"{array}_scale", *names), sayings=(Saying(f"{array}_scale"),))


KEYWORDS = (
    _scale_of("query", "BHTD", "(B,H,T,D)", "q_scale", "q_descale", "descale_q"),
    _scale_of("key", "BHSD", "(B,Hkv,S,D)", "k_scale", "k_descale", "descale_k"),
    _scale_of("value", "BHSV", "(B,Hkv,S,Dv)", "v_scale", "v_descale", "descale_v"),
)

NEUTRAL: Mapping[str, str] = {word.name: "int8/tensor/ones" for word in KEYWORDS}
"""By keyword, the pattern that changes no answer."""
