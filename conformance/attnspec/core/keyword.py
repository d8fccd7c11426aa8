"""Defines what a keyword is, apart from its formula, as plain data. The keywords are in
`keywords`.

Words about single keywords that packages below the aspects need stand first: pools of clauses,
names, profiles, and patterns. What a pattern means, and which ones are usual, stands in the
`keyword.py` of its aspect.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from attnspec.core.errors import SpecError, hint
from attnspec.core.nouns import Kind

SERVING_POOL, CACHES_POOL, SEGMENTS_POOL, PAGES_POOL = "serving", "caches", "segments", "pages"
DECODER_POOL, GRADIENTS_POOL, DROPOUT_POOL = "decoder", "gradients", "dropout"
"""The pools of clauses about these keywords: other pools count what they meet without them."""

RATE, SEED = "dropout_rate", "seed"
"""The keywords of dropout."""

DROPOUT_PROFILE = "dropout"
GRADIENTS_PROFILE = "gradients"

GRAD = "grad_output"
"""The keyword of gradients."""

APART = "gradients of {} are judged with --profile +gradients"
"""Why a subject whose framework could differentiate it is not asked for gradients."""

BACKWARD = "_backward"
"""The end of the name of a function's backward pass: `attend` and `attend_backward`."""

OUTPUT, LSE = "output", "lse"
"""What a backward pass gets from the forward pass, if it has parameters for it."""

ZeroPattern = Literal["spread", "fraction", "extreme", "none"]
GlobalScalePattern = Literal["odd", "power", "one"]
PastPattern = Literal["new_as_queries", "half", "one_new", "one_past", "none"]
SlopePattern = Literal["powers", "geometric", "of_entries", "steep", "zero"]
LengthPattern = Literal["ragged", "one_short", "full", "first_full", "shortest", "with_zero"]
SinkPattern = Literal["spread", "normal", "zero", "rising", "hundred", "minus_infinity"]
SegmentPattern = Literal["ragged", "two", "by_turns", "padded", "alike", "one", "keys_apart"]
PagePattern = Literal["shuffled", "in_order", "backwards", "one_slot", "odd", "one_page",
                      "long_table", "large_beyond", "nan_beyond", "no_page_beyond", "shared",
                      "pages_of_16", "pages_of_32", "pages_of_64", "pages_of_128", "pages_of_256",
                      "beyond_16_bits"]
StepPattern = Literal["at_once", "token_by_token", "halves", "growing", "beside_another",
                      "after_another", "tried_before"]
GradPattern = Literal["normal", "of_rows", "integers", "one_row", "of_one_sign", "one_large",
                      "one_entry", "ones", "tiny", "large", "zero"]


# What a keyword is


class Acts(enum.Enum):
    """What a keyword changes."""

    VISIBILITY = "visibility"  # which keys a query may attend to
    KEYS = "keys"              # which keys there are
    LAYOUT = "layout"          # where they lie in memory
    LOGITS = "logits"
    ANSWER = "answer"          # what is returned beside the output
    LAYER = "layer"            # the projections around attention
    WEIGHTS = "weights"        # what becomes of the weights behind the softmax
    ROTATION = "rotation"      # by which angles which features are turned
    ENTRIES = "entries"        # which numbers the entries stand for


Window = tuple[int | None, int | None]
"""How many keys a query sees left and right of its own place; None: no bound on that side."""

GROWN_FROM = 32  # keys: below, the usual reaches are a good part of all


@dataclass(frozen=True, slots=True)
class KeywordLimits:
    """What a subject cannot take of a keyword, by design.

    window_needs_causal: a window comes with the causal flag only.
    window_is_symmetric: it reaches as far to the right as to the left.
    window_is_bounded: both of its sides are numbers.  min_window: the least that a side may be.
    slopes_are_shared: alibi_slopes are (H,), the same for every batch entry.
    segments_are_shared: query_segments and key_segments are one array.
    table_names_pages: every number in a block_table names a page, those beyond an entry's keys
    among them.
    stored_query, stored_key, stored_value: the format in which codes are stored
    (`aspects/quantised/storage.py`); "" where codes come in the dtype of the call.
    query_scales, key_scales, value_scales: how many entries share a scale; "" where any number
    may.
    zeros: in what zero points are handed over: `float32`, or `codes`, their format.
    packed_query, packed_key, packed_value: how two codes of four bits share a byte; "" where each
    has its own.
    """

    window_needs_causal: bool = False
    window_is_symmetric: bool = False
    window_is_bounded: bool = False
    min_window: int = 0
    slopes_are_shared: bool = False
    segments_are_shared: bool = False
    table_names_pages: bool = False
    stored_query: str = ""
    stored_key: str = ""
    stored_value: str = ""
    query_scales: str = ""
    key_scales: str = ""
    value_scales: str = ""
    zeros: str = "float32"
    packed_query: str = ""
    packed_key: str = ""
    packed_value: str = ""


@dataclass(frozen=True, slots=True)
class LimitChoice:
    """What may be declared as a limit of an aspect.

    known: the answers.  kind: what they are called in a sentence.  sample: one of them.
    read_with: the limits without which it cannot be judged.
    read: an answer with more than one spelling, as it is written here; empty for what is none.
    """

    known: tuple[str, ...]
    kind: str
    sample: str
    read_with: tuple[str, ...] = ()
    read: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class Values:
    """The values that a keyword is drawn from, and how a recipe and YAML spell them.

    usual: what is drawn unless a clause says otherwise.
    generic: the same where a law of independent roundings judges (empty: the usual ones).
    plural: the name of a clause's own list.  unsaid: what a recipe means that names none.
    write, read: the text in a recipe and back; `read` raises ValueError, which says what should
    stand there.
    taken: a value as YAML gives it, checked; it raises SpecError.
    grown: the same value where there are so many keys;  None: it is the same for any number.
    scaled: the same value where there are so many times as many keys;  None: it stays.
    """

    usual: tuple[Any, ...]
    plural: str
    unsaid: Any
    write: Callable[[Any], str]
    read: Callable[[str], Any]
    taken: Callable[[Any], Any]
    generic: tuple[Any, ...] = ()
    grown: Callable[[Any, int], Any] | None = None
    scaled: Callable[[Any, float], Any] | None = None


@dataclass(frozen=True, slots=True)
class Saying:
    """A way in which a function may want a keyword.

    expression: in Python.  says: what that means.  limits: those that come with it.  posed: the
    value with which `attnspec init` tries it.
    """

    expression: str
    says: str = ""
    limits: Mapping[str, bool | str] = field(default_factory=dict)
    posed: object = None


@dataclass(frozen=True, slots=True)
class RareValues:
    """Values of a keyword that few functions take.

    pattern: the pattern that makes them.  limit: the limit of a function that does not take them.
    name: what a verdict calls them.
    """

    pattern: str
    limit: str
    name: str


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword of `attend(query, key, value, *, ...)`. Its default is in KeywordArguments.

    The contract: shape, meaning;  profile: a subject that claims it promises to take the keyword;
    promise: what that profile says;
    kinds: the kinds of subjects that may take it, none if it belongs to another form than the
    dense one;  required: those that must take it.
    in_layers: whether layers are given problems that have it.

    The mathematics: acts; hides: whether it can hide a key; axes: the axes of (B,H,T,S) that an
    array has, or of (B,H,P,D) if it is a cache; along these it is cut, permuted and repeated with
    queries and keys; some arrays may lack the first. as_causal: if the keyword counts from the
    query's own place, the value that hides later keys as the causal flag does.

    The cases: values;  sample: the one that a diagnosis looks at.
    is_uncommon: few functions take it: the seeds of clauses, and faults of anything else, are the
    same as if there were no such keyword; its own faults are in its aspect.
    pool: of the clauses that are about it, where that is not everybody's: what clauses of other
    pools meet is counted without it, and faults of other pools do not take it.
    counts: of an array of lengths, the axis of which it counts the first entries.
    is_from_place: it counts from the query's own place, and hides nothing.
    beside: the keyword without which it is never given.
    is_drawn: a whole number that a recipe draws by its own seed.
    meaning_of: the array whose entries it gives another meaning.
    identity: the value that leaves those entries unchanged: 1 for a scale, 0 for a zero point.
    is_factor: each entry is multiplied by its own.
    rare: values that few take.
    numbers: by its name in a sentence, a number of a value at which a mistake may begin.
    misfit: what of a value a subject with these limits cannot take, with the causal flag or
    without; empty if it takes it.
    needs_causal: the limit that says that it comes together with the causal flag only.
    comes_with: the keywords together with which a subject with these limits takes it.

    For readers: called: its name in a sentence; questions: what a probe asks about it, by the
    question's name; asks: what the audit's column about it asks.

    For `attnspec init`:  other_names: what libraries call it, the usual name first;
    parameters: all names under which it is looked for;  sayings: how it may be handed over;
    annotation: its type, "{0}" the framework's array.
    """

    name: str
    shape: str
    meaning: str
    profile: str
    acts: Acts
    annotation: str
    promise: str = ""
    kinds: frozenset[Kind] = frozenset({Kind.ATTENTION, Kind.LAYER})
    required: frozenset[Kind] = frozenset()
    in_layers: bool = True
    hides: bool = False
    axes: str = ""
    as_causal: object = None
    values: Values | None = None
    sample: object = None
    is_uncommon: bool = False
    pool: str = ""
    counts: str = ""
    is_from_place: bool = False
    is_drawn: bool = False
    beside: str = ""
    misfit: Callable[[KeywordLimits, Any, bool], str] | None = None
    meaning_of: str = ""
    identity: float = 1.0
    is_factor: bool = False
    rare: RareValues | None = None
    numbers: Mapping[str, Callable[[Any], float]] = field(default_factory=dict)
    needs_causal: str = ""
    comes_with: Callable[[KeywordLimits], frozenset[str]] | None = None
    called: str = ""
    questions: Mapping[str, str] = field(default_factory=dict)
    asks: str = ""
    other_names: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    sayings: tuple[Saying, ...] = ()


def read_number(name: str, text: str) -> float:
    """A number in a recipe. Raises ValueError that names the field."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} should be a number, not {text!r}") from None


def _pattern_reader(keyword: str, known: tuple[str, ...]) -> Callable[[str], str]:
    """Reads the name of a pattern from a recipe.

    It raises ValueError, with the nearest name, for any other text.
    """
    def read(text: str) -> str:
        if text not in known:
            raise ValueError(f"{keyword}={text} names no pattern.{hint(text, known)}".rstrip("."))
        return text
    return read


def make_pattern_values(keyword: str, known: Mapping[Any, str], usual: tuple[Any, ...], what: str,
                        plural: str = "") -> Values:
    """The values of a keyword with arrays made by patterns; the first usual one is the default."""
    def taken(name: str) -> str:
        if name not in known:
            raise SpecError.unknown(f"pattern of {what}", name, known)
        return name

    plural = plural or f"{keyword.removesuffix('s')}_patterns"
    return Values(usual, plural, usual[0], str, _pattern_reader(keyword, tuple(known)), taken)
