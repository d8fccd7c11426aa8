"""Forms and variants of functions: as which a function takes attention's arrays, and what a framework makes of one.

Problems are dense; those for other forms are put into these. A variant that attnspec makes itself must be as the plain
function; variants have clauses, a profile and a pool of sizes of their own, and are judged only where they are asked
for.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from attnspec.core.errors import UsageError
from attnspec.core.keyword import Acts
from attnspec.core.keywords import CACHED, COUNTS, KEYWORDS
from attnspec.core.nouns import Kind
from attnspec.core.plan import Plan


class InputForm(enum.Enum):
    """How query, key and value are laid out."""

    DENSE = "dense"    # query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv)
    PACKED = "packed"  # query (Nq,H,D), key (Nk,Hkv,D), value (Nk,Hkv,Dv): the sequences one behind the other
    DECODER = "decoder"  # as dense; behind the output it hands back a cache, which the next call takes
    PAGED = "paged"    # query (B,H,T,D), key (pages,page,Hkv,D), value (pages,page,Hkv,Dv): a table names the pages


BORDERS = ("cu_query", "cu_key")
"""The parameters by which a packed function is known; it has both."""

GIVES: Mapping[str, str] = {
    "cu_query": "(B+1,) int32: sequence b has the queries cu_query[b] … cu_query[b+1]-1",
    "cu_key": "(B+1,) int32: sequence b has the keys cu_key[b] … cu_key[b+1]-1",
    "max_query": "int: the most queries that a sequence has",
    "max_key": "int: the most keys that a sequence has",
}
"""What a packed function is given beside the arrays: the borders always, the others if it has a parameter for them."""

SAID = frozenset(COUNTS)
"""The keywords that the borders of packed sequences say; a packed function has no parameter for them."""

_WHOLE = "return_weights"  # their shape is (B,H,T,S)

OF_ENTRIES = frozenset(word.name for word in KEYWORDS.values() if word.acts is Acts.STORAGE)
"""The keywords that say which numbers the entries of an array stand for: they lie as it does, in any form."""

EXPRESSED = OF_ENTRIES | frozenset(
    word.name for word in KEYWORDS.values() if Kind.ATTENTION in word.kinds and word.name != _WHOLE
    and word.name not in SAID and not set(word.axes) & set("TSP") and word.acts is not Acts.WEIGHTS)
"""The keywords that a packed function may take. What has the shape of B, T and S has no place in packed arrays, and
neither has what is drawn for each weight of such a shape; what belongs to the entries of an array is packed as it is.
"""

TABLE = "block_table"
"""The parameter by which a paged function is known."""

NUMBER = next(name for name, axis in COUNTS.items() if axis == "S")
"""The parameter of the number of keys of each batch entry. A paged function takes both, and is given both each time."""

ROWS = next(name for name, axis in COUNTS.items() if axis == "T")
"""The keyword of the number of queries of each batch entry."""

HELD_IN_PAGES = EXPRESSED | SAID
"""The keywords that a paged function may take. A table does not say how many keys the longest entry has, so that what
has S columns has no place.
"""

STATE = "cache"
"""The parameter by which a decoder is known. It is given in every call, None in the first."""

HELD_IN_CACHE = frozenset(CACHED)
"""The keywords that a cache says; a decoder has no parameter for them."""

BESIDE_CACHE = frozenset(word.name for word in KEYWORDS.values() if Kind.ATTENTION in word.kinds
                         and word.name not in HELD_IN_CACHE and word.axes not in {"BT", "BS"})
"""The keywords that a decoder's attention may take. Segments come without a past."""


THEME = "variants"
PROFILE = "variants"
POOL = "variants"

MadeForm = Literal["compile", "export", "onnx", "vmap", "checkpoint"]

VARIANTS: Mapping[str, tuple[MadeForm, ...]] = {
    "compile": ("compile",), "export": ("export", "onnx"), "vmap": ("vmap",), "checkpoint": ("checkpoint",)}
"""What `--variants` names, and the forms that are made for it."""

FORMS: tuple[MadeForm, ...] = tuple(form for forms in VARIANTS.values() for form in forms)

COMPILING: frozenset[str] = frozenset({"compile", "export", "onnx"})
"""Forms for which a compiler runs at every new shape, whatever the framework."""

_NAMES: Mapping[str, Mapping[str, str]] = {
    "torch": {"compile": "torch.compile", "export": "torch.export", "onnx": "the export to ONNX",
              "vmap": "torch.func.vmap", "checkpoint": "torch.utils.checkpoint"},
    "jax": {"compile": "jax.jit", "export": "jax.export", "onnx": "the export to ONNX", "vmap": "jax.vmap",
            "checkpoint": "jax.checkpoint"}}

SHAPES = 5
"""At so many shapes a clause asks for what compiles."""

AS_DECLARED = "declared"
"""In the place of names, in an audit: of each subject those that its manifest asks for."""


def called_there(form: str, lift: str) -> str:
    """What makes the form in a framework: `torch.compile`."""
    return _NAMES[lift][form] if lift in _NAMES else form


def read_variants(texts: Iterable[str]) -> tuple[str, ...]:
    """Names that are separated by commas or stand alone, each once. Raises UsageError for one that there is not."""
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    for name in names:
        if name not in VARIANTS:
            raise UsageError.unknown("variant", name, VARIANTS)
    return tuple(dict.fromkeys(names))


def forms_asked(plan: Plan, declared: Iterable[str] = ()) -> frozenset[str]:
    """The forms that a plan asks for: those that it names; else all, if it names the profile or clauses of the theme.

    declared: of a subject, the variants that its manifest asks for.
    """
    if plan.variants:
        names = declared if plan.variants == (AS_DECLARED,) else plan.variants
        return frozenset(form for name in names for form in VARIANTS[name])
    is_named = PROFILE in plan.asked_for or any(name.partition(".")[0] == THEME for name in plan.clauses)
    return frozenset(FORMS) if is_named else frozenset()


def foretold_variants(names: Iterable[str]) -> Iterator[str]:
    """What the variants are to cost, a line for those that compile, to be told before they are tried."""
    compiling = [name for name in names if name in VARIANTS and COMPILING & {*VARIANTS[name]}]
    if compiling:
        yield (f"variants: {' and '.join(compiling)} run a compiler for every shape, some seconds each, "
               f"up to {SHAPES} shapes a clause and dtype")
