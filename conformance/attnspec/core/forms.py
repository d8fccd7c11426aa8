"""Defines forms of functions, their variants, and rotary embeddings.

Problems are dense; those for other forms are put into these. A variant that attnspec has a
framework make must be as the plain function; variants have clauses, a profile and a pool of sizes
of their own, and are judged only where they are asked for. A rotary embedding, `rotate(x,
positions, *, ...)`, is another kind of subject than attention, with keywords of its own. A recipe
spells them as it spells those of attention, and has S = T, Hkv = H and Dv = D. In shapes, R is the
number of pairs that are turned: r = 2R features.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

from attnspec.core.errors import SpecError, UsageError
from attnspec.core.keyword import Acts, Keyword, Saying, Values, make_pattern_values
from attnspec.core.keywords import CACHED, COUNTS, KEYWORDS, VALUED, Lists
from attnspec.core.nouns import Kind
from attnspec.core.plan import Plan


class InputForm(enum.Enum):
    """How query, key and value are laid out."""

    DENSE = "dense"    # query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv)
    # query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv): the sequences one behind the other
    PACKED = "packed"
    # as dense; behind the output it hands back a cache, which the next call takes
    DECODER = "decoder"
    # query (B,H,T,D), key (pages,page,Hkv,D), value (pages,page,Hkv,Dv): a table names the pages
    PAGED = "paged"


BORDERS = ("cu_query", "cu_key")
"""The parameters by which a packed function is known; it has both."""

GIVEN_TO_PACKED: Mapping[str, str] = {
    "cu_query": "(B+1,) int32: sequence b has the queries cu_query[b] … cu_query[b+1]-1",
    "cu_key": "(B+1,) int32: sequence b has the keys cu_key[b] … cu_key[b+1]-1",
    "max_query": "int: the most queries that a sequence has",
    "max_key": "int: the most keys that a sequence has",
}
"""What a packed function gets beside the arrays, if it has parameters for it; borders always."""

SAID_BY_BORDERS = frozenset(COUNTS)
"""The keywords that borders say, for which a packed function has no parameter."""

_WHOLE = "return_weights"  # their shape is (B,H,T,S)

OF_ENTRIES = frozenset(word.name for word in KEYWORDS.values() if word.acts is Acts.ENTRIES)
"""The keywords that say which numbers an array's entries stand for; they lie as it does."""

EXPRESSED = OF_ENTRIES | frozenset(
    word.name for word in KEYWORDS.values() if Kind.ATTENTION in word.kinds and word.name != _WHOLE
    and word.name not in SAID_BY_BORDERS and not set(word.axes) & set("TSP")
    and word.acts is not Acts.WEIGHTS)
"""The keywords that a packed function may take.

What has the shape of B, T and S has no place in packed arrays, and neither has what is drawn for
each weight of such a shape; what belongs to the entries of an array is packed as it is.
"""

TABLE = "block_table"
"""The parameter by which a paged function is known."""

KEY_COUNTS = next(name for name, axis in COUNTS.items() if axis == "S")
"""The number of keys of each batch entry. A paged function takes it and the table in each call."""

QUERY_COUNTS = next(name for name, axis in COUNTS.items() if axis == "T")
"""The keyword of the number of queries of each batch entry."""

HELD_IN_PAGES = EXPRESSED | SAID_BY_BORDERS
"""The keywords that a paged function may take.

A table does not say how many keys the longest entry has, so that what has S columns has no place.
"""

CACHE = "cache"
"""The parameter by which a decoder is known. It is given in every call, None in the first."""

HELD_IN_CACHE = frozenset(CACHED)
"""The keywords that a cache says; a decoder has no parameter for them."""

BESIDE_CACHE = frozenset(word.name for word in KEYWORDS.values() if Kind.ATTENTION in word.kinds
                         and word.name not in HELD_IN_CACHE and word.axes not in {"BT", "BS"})
"""The keywords that a decoder's attention may take. Segments come without a past."""


THEME = "variants"
VARIANTS_PROFILE = "variants"
POOL = "variants"

MadeForm = Literal["compile", "export", "onnx", "vmap", "checkpoint"]

VARIANTS: Mapping[str, tuple[MadeForm, ...]] = {
    "compile": ("compile",), "export": ("export", "onnx"), "vmap": ("vmap",),
    "checkpoint": ("checkpoint",)}
"""By name for `--variants`, the forms that are made for it."""

FORMS: tuple[MadeForm, ...] = tuple(form for forms in VARIANTS.values() for form in forms)

COMPILING: frozenset[str] = frozenset({"compile", "export", "onnx"})
"""Forms for which a compiler runs at every new shape, whatever the framework."""

_NAMES: Mapping[str, Mapping[str, str]] = {
    "torch": {"compile": "torch.compile", "export": "torch.export", "onnx": "the export to ONNX",
              "vmap": "torch.func.vmap", "checkpoint": "torch.utils.checkpoint"},
    "jax": {"compile": "jax.jit", "export": "jax.export", "onnx": "the export to ONNX",
            "vmap": "jax.vmap", "checkpoint": "jax.checkpoint"}}

SHAPES = 5
"""The number of shapes at which a clause asks for what compiles."""

AS_DECLARED = "declared"
"""In an audit, in place of names: those that each subject's manifest asks for."""


def called_there(form: str, lift: str) -> str:
    """What makes the form in a framework: `torch.compile`."""
    return _NAMES[lift][form] if lift in _NAMES else form


def read_variants(texts: Iterable[str]) -> tuple[str, ...]:
    """Names that are separated by commas or stand alone, each once.

    Raises UsageError for a name that does not exist.
    """
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    for name in names:
        if name not in VARIANTS:
            raise UsageError.unknown("variant", name, VARIANTS)
    return tuple(dict.fromkeys(names))


def forms_asked(plan: Plan, declared_variants: Iterable[str] = ()) -> frozenset[str]:
    """The forms that a plan asks for: those that it names, or all with the profile or a clause of
    the theme.

    declared_variants: of a subject, the variants that its manifest asks for.
    """
    if plan.variants:
        names = declared_variants if plan.variants == (AS_DECLARED,) else plan.variants
        return frozenset(form for name in names for form in VARIANTS[name])
    themes = {name.partition(".")[0] for name in plan.clauses}
    if VARIANTS_PROFILE in plan.asked_for or THEME in themes:
        return frozenset(FORMS)
    return frozenset()


def foretold_variants(names: Iterable[str]) -> Iterator[str]:
    """What variants that compile will cost, a line to be told before they are tried."""
    compiling = [name for name in names if name in VARIANTS and COMPILING & {*VARIANTS[name]}]
    if compiling:
        yield (f"variants: {' and '.join(compiling)} run a compiler for every shape, "
               "some seconds each, "
               f"up to {SHAPES} shapes a clause and dtype")


POSITIONS = "positions"
"""The name of the second parameter, by which a rotary embedding is known."""

ROTARY_PROFILE = "rotary"
DEFAULT_BASE = 10000.0
FARTHEST = 131_072
"""The largest position that is put: the length of context of current models."""

PositionPattern = Literal["counted", "offset", "scattered", "far", "packed", "zero"]
POSITION_PATTERNS: Mapping[PositionPattern, str] = {
    "counted": "0 … T-1 in every batch entry",
    "offset": "each batch entry counts on from a place of its own, up to 4,095",
    "scattered": "in any order, from 0 to 4,095, for each batch entry its own",
    "far": "each batch entry ends with a place of its own, the first one with 131,072",
    "packed": "counting begins at 0 again within each batch entry, at a place of its own",
    "zero": "0 everywhere",
}
"""How positions are made. A clause asks for `zero`, where nothing is turned."""
USUAL_POSITIONS: tuple[PositionPattern, ...] = ("counted", "offset", "scattered", "far", "packed")

WidthPattern = Literal["half", "two", "all_but_two", "all"]
WIDTH_PATTERNS: Mapping[WidthPattern, str] = {
    "half": "half of the features, an even number of them",
    "two": "the first two features",
    "all_but_two": "all features but the last two, or both",
    "all": "all features",
}
USUAL_WIDTHS: tuple[WidthPattern, ...] = ("half", "all_but_two", "two", "all")


class RotaryLists(Lists, total=False):
    """The lists of values that a clause may draw keywords from, of a rotary embedding too."""

    position_patterns: Literal["any"] | tuple[PositionPattern, ...]
    bases: Literal["any"] | tuple[float, ...]
    rotary_width_patterns: Literal["any"] | tuple[WidthPattern, ...]


def _base(text: str) -> float:
    """A base in a recipe. Raises ValueError for what is none."""
    try:
        base = float(text)
    except ValueError:
        base = 0.0
    if not 1 < base < math.inf:
        raise ValueError(f"base should be a number above 1, not {text!r}")
    return base


def _taken_base(base: float) -> float:
    if not 1 < base < math.inf:
        raise SpecError(f"a base is above 1, not {base:g}.")
    return float(base)


_ROTARY = frozenset({Kind.ROTARY})
# who claims the profile promises to take positions; the other keywords are a function's own choice
_word = partial(Keyword, acts=Acts.ROTATION, kinds=_ROTARY, in_layers=False, is_uncommon=True)

_ALL = (
    _word(POSITIONS, "(B,T) int32",
          "the place of each token; given by position, as the second argument", ROTARY_PROFILE,
          annotation="{0}", required=_ROTARY, axes="BT", values=make_pattern_values(
              POSITIONS, POSITION_PATTERNS, USUAL_POSITIONS, "positions"),
          other_names=("position_ids", "input_pos", "offset"),
          parameters=("positions", "position_ids", "input_pos", "pos", "segment_pos",
                      "input_positions")),
    _word("base", "float",
          "pair i of r/2 is turned by position · base^(-2i/r); 10000 if it is left out", "",
          annotation="float",
          values=Values((500000.0, 100.0, 1000000.0), "bases", DEFAULT_BASE, repr, _base,
                        _taken_base), other_names=("theta", "rope_theta", "max_wavelength"),
          parameters=("base", "theta", "rope_theta", "max_wavelength", "rope_base", "freq_base"),
          sayings=(Saying("base", posed=500000.0),)),
    _word("rotary_width", "int",
          "how many features are turned, the first r; all if it is left out", "",
          annotation="int | None", values=make_pattern_values(
              "rotary_width", WIDTH_PATTERNS, USUAL_WIDTHS, "rotary widths",
              "rotary_width_patterns"), other_names=("rotary_embedding_dim", "rotary_dim", "dims"),
          parameters=("rotary_width", "rotary_embedding_dim", "rotary_dim", "dims", "rope_dim",
                      "rot_dim", "n_elem"), sayings=(Saying("rotary_width"),)),
    _word("interleaved", "bool", "features 2i and 2i+1 are a pair; else i and i + r/2 are", "",
          annotation="bool", other_names=("traditional", "rotary_interleaved"),
          parameters=("interleaved", "traditional", "rotary_interleaved", "is_neox_style",
                      "is_neox"), sayings=(Saying("interleaved", posed=True),)),
)

ROTARY: Mapping[str, Keyword] = {word.name: word for word in _ALL}
"""What a rotary embedding takes: x, `positions`, and the others it has parameters for."""

EVERY_KEYWORD: Mapping[str, Keyword] = {**KEYWORDS, **ROTARY}
EVERY_VALUED: Mapping[str, Values] = {
    **VALUED, **{word.name: word.values for word in _ALL if word.values}}
"""All keywords whose values a recipe holds in a mapping."""


def width_of(pattern: str, D: int) -> int:
    """How many of D features are turned by this pattern."""
    by_pattern: Mapping[Any, int] = {"half": D // 4 * 2, "two": 2, "all_but_two": D - 2, "all": D}
    return max(2, by_pattern[pattern])
