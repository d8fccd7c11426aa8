"""Defines the keywords that a subject may take, once, for every other package.

A new one is an aspect of attention: a folder of `aspects` with all that the rest of attnspec asks
of it, whose name is added to `ASPECTS`, and a field of `KeywordArguments`. In the folder are, as
far as it has them: `keyword.py`, the keywords as plain data (`KEYWORDS`); `mathematics.py`,
formula, visibility, bound and derivative (`MATHEMATICS`); `words.py`, its words of the spec
language (`TRANSFORMS`), and what a probe asks about it (`QUESTIONS`); `faults.py`, its stage in
the attention that faults change (`STAGE`), and its mistakes (`MISTAKES`); `arrays.py`, how its
arrays are made and handed over; `limits.py`, what may be declared of it; `search.py`, how a
foreign function's way with it is found out; `stored_format.py`, how entries are stored by words of
a precision class, and how large an error that lets pass.

What needs a part of all aspects loads it here, by name, and knows no aspect;
docs/adding-a-keyword.md has an example. What libraries call the keywords, and so what a parameter
that attnspec does not know may be, is at the end.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from types import ModuleType
from typing import Any, Generic, Literal, Self, TypedDict, TypeVar

from attnspec.core.keyword import (
    Acts,
    GlobalScalePattern,
    GradPattern,
    Keyword,
    KeywordLimits,
    LengthPattern,
    PagePattern,
    PastPattern,
    SegmentPattern,
    SinkPattern,
    SlopePattern,
    StepPattern,
    Values,
    Window,
    ZeroPattern,
)
from attnspec.core.nouns import Kind

ASPECTS = ("scale", "masks", "window", "softcap", "quantised", "lengths", "sinks", "lse", "past",
           "slopes", "segments", "pages", "gradients", "decoder", "dropout", "rotary")
"""The aspects, in the order in which stages run."""


@functools.cache
def load_parts(part: str) -> tuple[ModuleType, ...]:
    """One part of every aspect that has it, such as each `mathematics.py`."""
    names = (f"attnspec.aspects.{aspect}.{part}" for aspect in ASPECTS)
    return tuple(import_module(name) for name in names if find_spec(name))


def keywords_of_aspect(part: ModuleType) -> frozenset[str]:
    """The names of the keywords of the aspect that a part belongs to."""
    return frozenset(word.name for word in import_module(f"{part.__package__}.keyword").KEYWORDS)


_LAYER = frozenset({Kind.LAYER})

WEIGHTS = Keyword(
    "return_weights", "bool", "return the pair (output, weights)", "weights", Acts.ANSWER, "bool",
    promise="the weights are returned beside the output",
    other_names=("need_weights", "return_attention_scores", "return_attn_weights",
                 "output_attentions"),
    parameters=("return_weights", "need_weights", "return_attention_scores", "return_attn_weights",
                "output_attentions", "return_attn_probs", "return_attn", "return_attention"))

LAYERS = (
    Keyword(
        "params", "mapping of arrays",
        "w_query (M,H·D), w_key (M,Hkv·D), w_value (M,Hkv·Dv), w_out (H·Dv,M) and, only "
        "where the layer has biases, b_query, b_key, b_value, b_out; used as x @ W + b", "layers",
        Acts.LAYER, "Mapping[str, {0}]", kinds=_LAYER, required=_LAYER),
    Keyword(
        "heads", "int", "H; head h owns the columns h·D … (h+1)·D-1", "layers", Acts.LAYER, "int",
        kinds=_LAYER, required=_LAYER),
)


ArrayT = TypeVar("ArrayT")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class KeywordArguments(Generic[ArrayT]):
    """The keywords of a call; a default means that the keyword is left out. ArrayT: the type of
    arrays.

    mask (B,H,T,S) bool, True = may attend; bias (B,H,T,S) in the dtype; both full shape unless a
    broadcast is on trial. `scale` None means 1/sqrt(D).  key_lengths, query_lengths (B,) int32.
    sinks (H,) float32, beside float64 float64; alibi_slopes (H,) or (B,H), likewise.  past_key
    (B,Hkv,P,D), past_value (B,Hkv,P,Dv): S counts them, too. query_segments (B,T), key_segments
    (B,S) int32.  block_table: (B,N) int32, in a problem the name of a pattern. cache: what an
    earlier call handed back, in a problem the name of a pattern. grad_output (B,H,T,Dv), of the
    dtype: gradients are asked for.  dropout_rate: 0 is handed over, too.
    """

    mask: ArrayT | None = None
    bias: ArrayT | None = None
    causal: bool = False
    scale: float | None = None
    window: Window | None = None
    softcap: float | None = None
    query_scale: ArrayT | None = None
    key_scale: ArrayT | None = None
    value_scale: ArrayT | None = None
    query_zero: ArrayT | None = None
    key_zero: ArrayT | None = None
    value_zero: ArrayT | None = None
    query_global_scale: ArrayT | None = None
    key_global_scale: ArrayT | None = None
    value_global_scale: ArrayT | None = None
    return_weights: bool = False
    key_lengths: ArrayT | None = None
    query_lengths: ArrayT | None = None
    sinks: ArrayT | None = None
    return_lse: bool = False
    past_key: ArrayT | None = None
    past_value: ArrayT | None = None
    alibi_slopes: ArrayT | None = None
    query_segments: ArrayT | None = None
    key_segments: ArrayT | None = None
    block_table: ArrayT | PagePattern | None = None
    cache: Any = None
    grad_output: ArrayT | None = None
    dropout_rate: float | None = None
    seed: int | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The keywords in use, each with its value."""
        values = zip(OFF.items(), _read_every_keyword(self), strict=True)
        return {name: value for (name, off), value in values
                if (value is not None if off is None else value)}

    @property
    def keywords(self) -> frozenset[str]:
        """The keywords that a subject must take for this call."""
        return frozenset(self.given)

    def but(self, **changes: Any) -> Self:  # noqa: ANN401  (the fields have types of their own)
        """The same with some fields replaced."""
        return replace(self, **changes)


def keywords_beside(limits: KeywordLimits, keyword: str) -> frozenset[str]:
    """The keywords without which a subject with these limits does not take this one."""
    if keyword not in KEYWORDS:
        return frozenset()
    word, others = KEYWORDS[keyword], frozenset[str]()
    if word.needs_causal and getattr(limits, word.needs_causal):
        others |= {"causal"}
    if word.comes_with:
        others |= word.comes_with(limits)
    return others


class Lists(TypedDict, total=False):
    """The lists of values that a clause may draw keywords from."""

    windows: Literal["any"] | Sequence[tuple[int | None, int | None]]
    softcaps: Literal["any"] | Sequence[float]
    query_scale_patterns: Literal["any"] | Sequence[str]
    key_scale_patterns: Literal["any"] | Sequence[str]
    value_scale_patterns: Literal["any"] | Sequence[str]
    query_zero_patterns: Literal["any"] | Sequence[ZeroPattern]
    key_zero_patterns: Literal["any"] | Sequence[ZeroPattern]
    value_zero_patterns: Literal["any"] | Sequence[ZeroPattern]
    query_global_scale_patterns: Literal["any"] | Sequence[GlobalScalePattern]
    key_global_scale_patterns: Literal["any"] | Sequence[GlobalScalePattern]
    value_global_scale_patterns: Literal["any"] | Sequence[GlobalScalePattern]
    key_length_patterns: Literal["any"] | Sequence[LengthPattern]
    query_length_patterns: Literal["any"] | Sequence[LengthPattern]
    sink_patterns: Literal["any"] | Sequence[SinkPattern]
    past_patterns: Literal["any"] | Sequence[PastPattern]
    slope_patterns: Literal["any"] | Sequence[SlopePattern]
    segment_patterns: Literal["any"] | Sequence[SegmentPattern]
    page_patterns: Literal["any"] | Sequence[PagePattern]
    step_patterns: Literal["any"] | Sequence[StepPattern]
    grad_patterns: Literal["any"] | Sequence[GradPattern]
    dropout_rates: Literal["any"] | Sequence[float]


_DEFINED = {word.name: word for word in (
    WEIGHTS, *LAYERS, *(word for part in load_parts("keyword") for word in part.KEYWORDS))}
# In the order of the fields: seeds and records count keywords in it, whichever aspect defines them.
_ALL = (*(_DEFINED[each.name] for each in fields(KeywordArguments)), *LAYERS)

KEYWORDS: Mapping[str, Keyword] = {word.name: word for word in _ALL}


def _by_keyword(field: str) -> dict[str, Any]:
    """By name, the value of a field of each keyword that has one."""
    return {word.name: value for word in _ALL if (value := getattr(word, field))}


OFF: Mapping[str, Any] = {each.name: each.default for each in fields(KeywordArguments)}
"""By optional keyword, the value that leaves it out."""
_read_every_keyword = attrgetter(*OFF)
UNCOMMON = tuple(_by_keyword("is_uncommon"))
VALUES: Mapping[str, Values] = _by_keyword("values")
VALUED: Mapping[str,
                Values] = {name: values for name, values in VALUES.items() if name in UNCOMMON}
"""Uncommon keywords whose values a recipe holds in a mapping."""
HIDING = tuple(_by_keyword("hides"))
"""Keywords that can leave a row without a visible key."""
PLACED: Mapping[str,
                Any] = {word.name: word.as_causal for word in _ALL if word.as_causal is not None}
"""The keywords that count from a query's own place, with the value that hides later keys."""
FROM_PLACE = frozenset({*PLACED, *_by_keyword("is_from_place")})
"""All keywords that count from a query's own place."""
AXES: Mapping[str, str] = _by_keyword("axes")
"""The axes of the keywords that are arrays."""
CACHED = tuple(name for name, axes in AXES.items() if "P" in axes)
"""The keywords that stand before key and value, in this order."""
BIAS, SINKS = "bias", "sinks"
DIFFERENTIABLE_INPUTS = ("query", "key", "value", *CACHED, BIAS, SINKS)
"""The inputs with respect to which there are gradients."""
SEGMENTED = tuple(name for name, axes in AXES.items() if axes in {"BT", "BS"})
"""The segments of queries, and those of keys."""
BESIDE: Mapping[str, str] = _by_keyword("beside")
"""The keywords that go together, each with the other."""
DRAWN = frozenset(_by_keyword("is_drawn"))
"""The keywords whose value is a number that a recipe's seed draws."""
COUNTS: Mapping[str, str] = _by_keyword("counts")
"""The keywords that are lengths, each with the axis of which it counts the first entries."""


def acting_on(*acts: Acts) -> dict[str, Any]:
    """The optional keywords that change one of these, each with the value that leaves it out."""
    return {name: off for name, off in OFF.items() if KEYWORDS[name].acts in acts}


def slip_of(name: str, known: Iterable[str]) -> str:
    """The known name of which `name` is a misspelling; else "".

    One letter is more, less or other, or two are swapped.
    """
    return next((other for other in known if _is_slip(name, other)), "")


def _is_slip(name: str, other: str) -> bool:
    same = len(os.path.commonprefix((name, other)))  # noqa: RUF071  (letter by letter is what is meant)
    rest, other_rest = name[same:], other[same:]
    if rest == other_rest:
        return False
    is_swap = rest[:2] == other_rest[:2][::-1] and rest[2:] == other_rest[2:]
    return (is_swap or rest[1:] == other_rest[1:] or rest[1:] == other_rest
            or rest == other_rest[1:])


OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    word.name: word.other_names for word in KEYWORDS.values() if word.other_names}
"""What libraries call a keyword, the usual name first. There it may mean another thing."""


_SHORT = 3
"""Names up to so many letters are like too many others (`out` and `dout`) to be misspellings."""


CAUSAL = "causal"
_CAUSAL_FLAG = re.compile(r"((is|use|do|with|apply|make|enable)_)?causal(_mask|_masking|_attention|_attn)?")


def is_causal_flag(name: str) -> bool:
    """Whether a flag of this name can only be the one that makes attention causal."""
    return name != CAUSAL and (name in OTHER_NAMES[CAUSAL] or bool(_CAUSAL_FLAG.fullmatch(name)))


def keyword_for(name: str) -> str:
    """The keyword that others call `name`, also where that is misspelt; empty if there is none."""
    for word, others in OTHER_NAMES.items():
        if name in others or (len(name) > _SHORT and slip_of(name, others)):
            return word
    return ""


def meant_by(name: str) -> str:
    """The keyword that a parameter is, by its own name or by another; empty if there is none."""
    return name if name in KEYWORDS else keyword_for(name)


def list_defaults(defaults: Mapping[str, str]) -> str:
    """Parameters that stay at their defaults: `block=64`, with attnspec's name for them."""
    return ", ".join(f"{name}={default}{_ours(name)}" for name, default in defaults.items())


def _ours(name: str) -> str:
    if name in KEYWORDS:
        return " (attnspec's keyword: hand it on in the adapter)"
    if word := keyword_for(name):
        return f" (attnspec's keyword is {word}: rename it, or wrap it with `attnspec init`)"
    return ""
