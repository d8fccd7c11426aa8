"""The keywords that a subject may take: one definition of each, which every other package reads.

A new one is a field of `KeywordArguments` and an entry of `KEYWORDS`; docs/adding-a-keyword.md lists the rest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from operator import attrgetter
from typing import Any, Generic, Literal, Self, TypedDict, TypeVar

from attnspec.core.cache_keywords import CACHES, PastPattern, SlopePattern
from attnspec.core.decoder_keywords import STEPS, StepPattern
from attnspec.core.dropout_keywords import DROPOUT
from attnspec.core.errors import SpecError
from attnspec.core.gradient_keywords import GRADIENTS, GradPattern
from attnspec.core.keyword import Acts, Keyword, Saying, Values
from attnspec.core.nouns import Kind
from attnspec.core.page_keywords import PAGES, PagePattern
from attnspec.core.segment_keywords import SEGMENTS, SegmentPattern
from attnspec.core.serving_keywords import SERVING, LengthPattern, SinkPattern

_LAYER = frozenset({Kind.LAYER})
_MASK_NAMES = ("mask", "attn_mask", "attention_mask", "src_mask", "att_mask", "masks", "key_mask",
               "key_padding_mask", "padding_mask", "custom_mask")

MASKS = (
    Keyword(
        "mask", "(B,H,T,S) bool", "True where a query may attend to a key", "masking", Acts.VISIBILITY, "{0} | None",
        promise="a boolean mask excludes keys, whatever values they hold", hides=True, axes="BHTS",
        other_names=("attn_mask", "attention_mask", "src_mask"), parameters=_MASK_NAMES),
    Keyword(
        "bias", "(B,H,T,S) of the dtype", "added to the scaled logits before the softmax; -inf masks a key", "bias",
        Acts.LOGITS, "{0} | None", promise="an additive bias on the scaled logits", hides=True, axes="BHTS",
        other_names=("attn_bias", "attention_bias"),
        parameters=("bias", "attn_bias", "attention_bias", "biases", "position_bias", "relative_position_bias",
                    *_MASK_NAMES)),  # a mask's parameter may also be where a bias is added
    Keyword(
        "causal", "bool", "a query attends to no later key; see `causal_alignment`", "causal", Acts.VISIBILITY, "bool",
        promise="a query attends to no later key", hides=True, as_causal=True, called="causal flag",
        other_names=("is_causal", "use_causal_mask"),
        parameters=("causal", "is_causal", "use_causal_mask", "use_causal", "autoregressive", "mask_future",
                    "causal_mask", "attn_mask_type", "mask_type", *_MASK_NAMES[:3]),
        sayings=(Saying("True", posed=True), Saying('"causal"', "a word", posed=True))),
)

WEIGHTS = Keyword(
    "return_weights", "bool", "return the pair (output, weights)", "weights", Acts.ANSWER, "bool",
    promise="the weights are returned beside the output",
    other_names=("need_weights", "return_attention_scores", "return_attn_weights", "output_attentions"),
    parameters=("return_weights", "need_weights", "return_attention_scores", "return_attn_weights",
                "output_attentions", "return_attn_probs", "return_attn", "return_attention"))

LAYERS = (
    Keyword(
        "params", "mapping of arrays", "w_query (M,H·D), w_key (M,Hkv·D), w_value (M,Hkv·Dv), w_out (H·Dv,M) and, only "
        "where the layer has biases, b_query, b_key, b_value, b_out; used as x @ W + b", "layers", Acts.LAYER,
        "Mapping[str, {0}]", kinds=_LAYER, required=_LAYER),
    Keyword(
        "heads", "int", "H; head h owns the columns h·D … (h+1)·D-1", "layers", Acts.LAYER, "int", kinds=_LAYER,
        required=_LAYER),
)


ArrayT = TypeVar("ArrayT")
Window = tuple[int | None, int | None]
"""How many keys a query sees to the left and to the right of its own place; None: no bound on that side."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class KeywordArguments(Generic[ArrayT]):
    """The keywords of a call; a default means that the keyword is left out. ArrayT: the type of arrays.

    mask (B,H,T,S) bool, True = may attend; bias (B,H,T,S) in the dtype; both full shape unless a broadcast is on trial.
    `scale` None means 1/sqrt(D).  key_lengths, query_lengths (B,) int32.  sinks (H,) float32, beside float64 float64;
    alibi_slopes (H,) or (B,H), likewise.  past_key (B,Hkv,P,D), past_value (B,Hkv,P,Dv): S counts them, too.
    query_segments (B,T), key_segments (B,S) int32.  block_table: (B,N) int32, in a problem the name of a pattern.
    cache: what an earlier call handed back, in a problem the name of a pattern.
    grad_output (B,H,T,Dv), of the dtype: gradients are asked for.  dropout_rate: 0 is handed over, too.
    """

    mask: ArrayT | None = None
    bias: ArrayT | None = None
    causal: bool = False
    scale: float | None = None
    window: Window | None = None
    softcap: float | None = None
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
        return {name: value for (name, off), value in zip(OFF.items(), _read_every_keyword(self), strict=True)
                if (value is not None if off is None else value)}

    @property
    def keywords(self) -> frozenset[str]:
        """The keywords that a subject must take to be handed this."""
        return frozenset(self.given)

    def but(self, **changes: Any) -> Self:  # noqa: ANN401  (the fields have types of their own)
        """The same with some fields replaced."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class KeywordLimits:
    """What a subject cannot take of a keyword, by design.

    window_needs_causal: a window comes with the causal flag only.  window_is_symmetric: it reaches as far to the right
    as to the left.  window_is_bounded: both of its sides are numbers.  min_window: the least that a side may be.
    slopes_are_shared: alibi_slopes are (H,), the same for every batch entry.
    segments_are_shared: query_segments and key_segments are one array.
    """

    window_needs_causal: bool = False
    window_is_symmetric: bool = False
    window_is_bounded: bool = False
    min_window: int = 0
    slopes_are_shared: bool = False
    segments_are_shared: bool = False

    def misfit(self, keyword: str, value: object, *, causal: bool) -> str:
        """What of a keyword's value the subject cannot take; empty if it takes it."""
        judge = KEYWORDS[keyword].misfit if keyword in KEYWORDS else None
        return judge(self, value, causal) if judge else ""

    def brings(self, keyword: str) -> frozenset[str]:
        """The keywords together with which alone the subject takes this one."""
        limit = KEYWORDS[keyword].needs_causal if keyword in KEYWORDS else ""
        return frozenset({"causal"} if limit and getattr(self, limit) else ())


class Lists(TypedDict, total=False):
    """What a clause may say of the values that keywords are drawn from."""

    windows: Literal["any"] | Sequence[tuple[int | None, int | None]]
    softcaps: Literal["any"] | Sequence[float]
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


def _number(name: str, text: str) -> float:
    """A number in a recipe. Raises ValueError that names the field."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} should be a number, not {text!r}") from None


def _window_misfit(limits: KeywordLimits, window: Window, causal: bool) -> str:
    """Under the causal flag the right is moot."""
    sides = window[:1] if limits.window_needs_causal else window
    if limits.window_needs_causal and not causal:
        return "a window only together with the causal flag"
    if limits.window_is_symmetric and len(set(sides)) == 2:
        return "only a window that reaches as far to the right as to the left"
    if limits.window_is_bounded and None in sides:
        return "only a window with a bound on each side"
    if any(side is not None and side < limits.min_window for side in sides):
        return f"a window of {limits.min_window} keys a side and more only"
    return ""


def _written_window(window: Window) -> str:
    """`2+1`; `3+-` has no bound on the right."""
    return "+".join("-" if side is None else str(side) for side in window)


def _read_window(text: str) -> Window:
    sides = text.split("+")
    if len(sides) != 2 or not all(re.fullmatch(r"-|\d{1,6}", side, re.ASCII) for side in sides):
        raise ValueError(f"window should read left+right, as 2+1 or 3+- (no bound on the right), not {text!r}")
    left, right = (None if side == "-" else int(side) for side in sides)
    return left, right


GROWN_FROM = 32  # keys: below, the usual reaches are a good part of all
_NARROW = 3  # keys: up to here a side of a window is the same at all sizes; a longer one keeps its share of them
_WIDEST = 999_999  # keys: wider than any problem is long, and what a recipe has room for


def _grown_window(window: Window, keys: int) -> Window:
    """Reaches so much longer as there are more keys than a few, and a little less round."""
    times = max(1, keys // GROWN_FROM)
    left, right = (side if side is None else side * times - (side > 1) * (times > 1) for side in window)
    return left, right


def _scaled_window(window: Window, share: float) -> Window:
    left, right = (side if side is None or side <= _NARROW else max(_NARROW, round(side * share)) for side in window)
    return left, right


def _grown_softcap(cap: float, keys: int) -> float:
    """A power of two higher for every four times as many keys: the largest of more logits is larger."""
    return math.ldexp(cap, max(0, ((keys // GROWN_FROM).bit_length() - 1) // 2))


def _taken_window(window: Window) -> Window:
    for side in window:
        if side is not None and not 0 <= side <= _WIDEST:
            raise SpecError(f"a window reaches from 0 to {_WIDEST} keys to a side, not {side}; null means no bound.")
    left, right = window
    return left, right


def _read_softcap(text: str) -> float:
    cap = _number("softcap", text)
    if not 0 < cap < math.inf:
        raise ValueError(f"softcap should be a number above 0, not {text!r}")
    return cap


def _taken_softcap(cap: float) -> float:
    if cap <= 0:
        raise SpecError(f"a softcap is above 0, not {cap:g}.")
    return float(cap)


_EVEN = {"window_is_symmetric": True, "window_is_bounded": True}
_ALL = (
    *MASKS,
    Keyword(
        "scale", "float", "what the dot products are multiplied by; None means 1/sqrt(D)", "scale", Acts.LOGITS,
        "float | None", promise="an explicit scale instead of 1/sqrt(D)", in_layers=False,
        values=Values((0.125, 1.0, -0.25, 0.0, 0.3), "scales", 1.0, repr, partial(_number, "scale"), float,
                      # A scale of 0 would make all weights the same, and so all their roundings.
                      generic=(0.3, 0.0625, 1.0)),
        other_names=("softmax_scale", "sm_scale", "scaling", "scale_factor"),
        parameters=("scale", "softmax_scale", "sm_scale", "scaling", "scale_factor", "attn_scale", "qk_scale",
                    "temperature", "norm_factor", "softmax_temperature"),
        sayings=(Saying("scale", posed=0.75),
                 Saying("1 / scale", "what the dot products are divided by", posed=0.75))),
    Keyword(
        "window", "(int or None, int or None)", "(left, right): the query at position p sees the keys p - left … "
        "p + right and no others; None: no bound on that side. p is the query's own place, as `causal_alignment` "
        "counts it", "window", Acts.VISIBILITY, "tuple[int | None, int | None] | None",
        promise="a query attends to the keys within a window about its own place",
        hides=True, as_causal=(None, 0),
        values=Values(
            # Narrow ones: one as wide as the sequence bounds nothing.
            ((1, 1), (2, 0), (0, 1), (3, None), (None, 2), (0, 0), (1, 3), (None, 0), (2, 2), (0, None), (3, 1),
             (1, 0)), "windows", (None, None), _written_window, _read_window, _taken_window,
            grown=_grown_window, scaled=_scaled_window),
        sample=(2, 1), is_uncommon=True, misfit=_window_misfit, needs_causal="window_needs_causal", questions={
            "window.reach": "Which keys does a query see through a window (left, right) if T = S?",
            "window.longer_keys": "Around which position does the window of query i lie if T < S?",
            "window.longer_queries": "Around which position does the window of query i lie if T > S?",
            "hidden_row.window": "What is the output of a query whose window holds no key?"},
        asks="Which keys does a query see through a window?",
        other_names=("window_size", "local_window_size"),
        parameters=("window", "window_size", "local_window_size", "sliding_window"),
        sayings=(
            Saying("window", "(left, right)", posed=(1, None)),
            Saying("tuple(-1 if side is None else side for side in window)",
                   "(left, right), -1 for a side without bound", posed=(1, None)),
            Saying("window", "(left, right), both numbers", {"window_is_bounded": True}, posed=(2, 1)),
            Saying("window[0]", "so many keys to either side", _EVEN, posed=(1, 1)),
            Saying("window[0] + 1", "so many keys to either side, its own among them", _EVEN, posed=(1, 1)),
            Saying("window[0] + 1", "so many keys back, its own among them",
                   {"window_needs_causal": True, "window_is_bounded": True}, posed=(1, 0)),
            Saying("window[0]", "so many keys back, beside its own",
                   {"window_needs_causal": True, "window_is_bounded": True}, posed=(1, 0)))),
    Keyword(
        "softcap", "float", "c > 0: the scaled dot products x become c·tanh(x / c), before bias and mask", "softcap",
        Acts.LOGITS, "float | None", promise="scaled dot products are capped by a tanh before bias and mask",
        values=Values(
            # Exact in every format; from one that caps nearly all logits to what a large model caps at.
            (2.0, 30.0, 0.5, 8.0), "softcaps", 1.0, repr, _read_softcap, _taken_softcap, grown=_grown_softcap,
            # The law of roundings is of first order in them, and a low cap bends within one rounding of a half.
            generic=(30.0, 8.0)),
        sample=2.0, is_uncommon=True, questions={
            "softcap.form": "What does a softcap c turn the scaled dot products x into?",
            "softcap.bias": "What does a softcap turn them into if there is a bias?"},
        asks="What does a softcap do to the scaled dot products?",
        other_names=("logits_soft_cap", "soft_cap", "logit_cap"),
        parameters=("softcap", "logits_soft_cap", "attn_logits_soft_cap", "soft_cap", "logit_cap", "logits_softcap",
                    "attn_logit_softcapping"),
        sayings=(Saying("softcap", posed=0.5),)),
    WEIGHTS,
    *SERVING,
    *CACHES,
    *SEGMENTS,
    *PAGES,
    *STEPS,
    *GRADIENTS,
    *DROPOUT,
    *LAYERS,
)

KEYWORDS: Mapping[str, Keyword] = {word.name: word for word in _ALL}
OFF: Mapping[str, Any] = {each.name: each.default for each in fields(KeywordArguments)}
"""By optional keyword, the value that means it is left out."""
_read_every_keyword = attrgetter(*OFF)
UNCOMMON = tuple(word.name for word in _ALL if word.is_uncommon)
VALUES: Mapping[str, Values] = {word.name: word.values for word in _ALL if word.values}
VALUED: Mapping[str, Values] = {name: values for name, values in VALUES.items() if name in UNCOMMON}
"""Uncommon ones, whose values a recipe holds in a mapping."""
HIDING = tuple(word.name for word in _ALL if word.hides)
"""Those by which a row can come to see no key."""
PLACED: Mapping[str, Any] = {word.name: word.as_causal for word in _ALL if word.as_causal is not None}
"""The keywords that count from a query's own place, with the value that hides later keys."""
FROM_PLACE = frozenset({*PLACED, *(word.name for word in _ALL if word.is_from_place)})
"""All that count from a query's own place."""
AXES: Mapping[str, str] = {word.name: word.axes for word in _ALL if word.axes}
"""The axes of the keywords that are arrays."""
BESIDE: Mapping[str, str] = {word.name: word.beside for word in _ALL if word.beside}
"""The keywords that are given together, by the one and by the other."""
DRAWN = frozenset(word.name for word in _ALL if word.is_drawn)
"""The keywords whose value is a number that a recipe's seed draws."""
COUNTS: Mapping[str, str] = {word.name: word.counts for word in _ALL if word.counts}
"""The keywords that are lengths, with the axis of which each counts the first entries."""


def acting_on(*acts: Acts) -> dict[str, Any]:
    """The optional keywords that change one of these, each with the value that leaves it out."""
    return {name: off for name, off in OFF.items() if KEYWORDS[name].acts in acts}
