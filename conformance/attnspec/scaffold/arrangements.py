"""Lists how query, key and value lie when they are passed, and how what comes back is read, as
data.

Templates are Python. `{0}` is one array of ours: of attention (B,H,T,D), of a layer (B,T,M);
`{q}`, `{k}` and `{v}` are the three once they lie as they should. `{stack}` and `{concatenate}`
are the framework's. B, H, T, … are the lengths of our axes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from attnspec.core.nouns import Kind


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How the arrays lie.

    shape: in words, `{L}` being T of the query and S of key and value.  template: of one array.
    arguments: of the call, one template each.  mapped_axes: over how many leading axes the call is
    mapped, since the callee knows no batch (1) and no heads either (2).  is_in_turn: whether the
    call is made once for each row, `first`, since the callee answers for one row alone.
    """

    shape: str
    template: str
    arguments: tuple[str, ...] = ("{q}", "{k}", "{v}")
    mapped_axes: int = 0
    is_in_turn: bool = False

    @property
    def is_one(self) -> bool:
        """Says whether one array carries all three, or serves for them, so that T = S."""
        return len(self.arguments) == 1 and not self.is_list

    @property
    def is_list(self) -> bool:
        """Says whether the three come in one list."""
        return self.arguments[0].startswith("[")


@dataclass(frozen=True, slots=True)
class OutputLayout:
    """How an output lies: its shape in words, and the Python back to ours; `{0}` is the output."""

    shape: str
    text: str

    def lengths(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Returns the shape in numbers."""
        axes = (axis.split("·") for axis in self.shape.strip("()").split(","))
        return tuple(math.prod(1 if each == "1" else sizes[each] for each in axis) for axis in axes)


_SWAPPED_TEXT = "{0}.swapaxes(1, 2)"
_SIDE_BY_SIDE = "{0}.swapaxes(1, 2).reshape(B, {0}.shape[2], -1)"
_TIME_FIRST = "{0}.swapaxes(1, 2).swapaxes(0, 1)"
_CHANNELS_FIRST = "{0}.swapaxes(2, 3).reshape(B, -1, {0}.shape[2])"
_BY_HEAD = "{stack}(({q}, {k}, {v}), 3).reshape(B, T, -1)"

_SEPARATE_ARRANGEMENTS = (
    Arrangement("(B,H,{L},D)", "{0}"),
    Arrangement("(B,{L},H,D)", _SWAPPED_TEXT),
    Arrangement("(B·H,{L},D)", "{0}.reshape(-1, *{0}.shape[2:])"),
    Arrangement("(B,{L},H·D)", _SIDE_BY_SIDE),
    Arrangement("({L},B,H,D)", _TIME_FIRST),
    Arrangement("({L},B,H·D)", f"{_TIME_FIRST}.reshape({{0}}.shape[2], B, -1)"),
    Arrangement("(B,H·D,{L})", _CHANNELS_FIRST),
    Arrangement("(H,{L},D)", "{0}", mapped_axes=1),
    Arrangement("({L},H,D)", _SWAPPED_TEXT, mapped_axes=1),
    Arrangement("({L},D)", "{0}", mapped_axes=2),
    Arrangement("({L},H·D)", _SIDE_BY_SIDE, mapped_axes=1),
    Arrangement("(B·{L},H,D)", "{0}.swapaxes(1, 2).reshape(-1, {0}.shape[1], {0}.shape[3])"),
)


def _arrange_pages(*queries: tuple[str, str]) -> tuple[Arrangement, ...]:
    """Makes the arrangements of pages for each of these shapes and templates of a query."""
    return tuple(Arrangement(f"{query}, key and value {pool}", into, ("{q}", *arrays)) for query, into in queries
                 for pool, arrays in (("(pages,page,H,D)", ("key", "value")),
                                      ("(pages,H,page,D)", ("key.swapaxes(1, 2)", "value.swapaxes(1, 2)"))))


PAGE_ARRANGEMENTS = _arrange_pages(("(B,H,T,D)", "{0}"), ("(B,T,H,D)", _SWAPPED_TEXT))
ONE_QUERY_PAGE_ARRANGEMENTS = _arrange_pages(("(B,H,D)", "{0}[:, :, 0]"),
                                             ("(B,1,H,D)", _SWAPPED_TEXT), ("(B,H,1,D)", "{0}"),
                                             ("(B,H·D)", "{0}.reshape(B, -1)"))

ONE_QUERY_ARRANGEMENTS = tuple(
    Arrangement(f"{query}, key and value {shape}", "{0}", (into, *arrays))
    for query, into in (("(B,H,D)", "{q}[:, :, 0]"), ("(B,H·D)", "{q}.reshape(B, -1)"))
    for shape, arrays in (("(B,S,H,D)", ("{k}.swapaxes(1, 2)", "{v}.swapaxes(1, 2)")), ("(B,H,S,D)", ("{k}", "{v}"))))
"""The arrangements of a function that takes one query a sequence, and all keys."""

PACKED_ARRANGEMENT = Arrangement("(queries,H,D), key and value (keys,Hkv,D), one sequence behind the other", "{0}")

_PAIR_ARRANGEMENTS = (
    Arrangement("(B,T,H,D), (B,S,2,H,D)", _SWAPPED_TEXT, ("{q}", "{stack}(({k}, {v}), 2)")),
    Arrangement("(B,H,T,D), (2,B,H,S,D)", "{0}", ("{q}", "{stack}(({k}, {v}), 0)")),
    Arrangement("(B,T,H·D), (B,S,2·H·D)", _SIDE_BY_SIDE, ("{q}", "{concatenate}(({k}, {v}), 2)")),
)
_FUSED_ARRANGEMENTS = (
    Arrangement("(B,T,3,H,D)", _SWAPPED_TEXT, ("{stack}(({q}, {k}, {v}), 2)",)),
    Arrangement("(B,3,H,T,D)", "{0}", ("{stack}(({q}, {k}, {v}), 1)",)),
    Arrangement("(3,B,H,T,D)", "{0}", ("{stack}(({q}, {k}, {v}), 0)",)),
    Arrangement("(B·T,3,H,D)", _SWAPPED_TEXT, ("{stack}(({q}, {k}, {v}), 2).reshape(-1, 3, *{q}.shape[2:])",)),
    Arrangement("(B,T,H,3,D)", _SWAPPED_TEXT, ("{stack}(({q}, {k}, {v}), 3)",)),
    Arrangement("(B,T,3·H·D)", _SIDE_BY_SIDE, ("{concatenate}(({q}, {k}, {v}), 2)",)),
    Arrangement("(B,T,H·3·D)", _SWAPPED_TEXT, (_BY_HEAD,)),
    Arrangement("(B,3·H·D,T)", _CHANNELS_FIRST, ("{concatenate}(({q}, {k}, {v}), 1)",)),
    Arrangement("(B,H·3·D,T)", _SWAPPED_TEXT, (f"{_BY_HEAD}.swapaxes(1, 2)",)),
)
_LIST_ARRANGEMENTS: Mapping[Kind, tuple[Arrangement, ...]] = {
    kind: tuple(Arrangement(f"{shape} in a list of {order}", into, (template,)) for order, template in (
        ("query, value, key", "[{q}, {v}, {k}]"), ("query, key, value", "[{q}, {k}, {v}]")))
    for kind, shape, into in ((Kind.ATTENTION, "(B·H,{L},D)", "{0}.reshape(-1, *{0}.shape[2:])"),
                              (Kind.LAYER, "(B,{L},M)", "{0}"))}

_LAYER_ARRANGEMENTS = (
    Arrangement("(B,{L},M)", "{0}"),
    Arrangement("({L},B,M)", "{0}.swapaxes(0, 1)"),
    Arrangement("(B,M,{L})", _SWAPPED_TEXT),
    Arrangement("(B,M,{L},1)", "{0}.swapaxes(1, 2)[..., None]"),
    Arrangement("(B,1,{L},M)", "{0}[:, None]"),
    Arrangement("({L},M)", "{0}", mapped_axes=1),
)

OUTPUT_LAYOUTS: Mapping[Kind, tuple[OutputLayout, ...]] = {
    Kind.ATTENTION: (
        OutputLayout("(B,H,T,D)", "{0}"),
        OutputLayout("(B,T,H,D)", "{0}.swapaxes(1, 2)"),
        OutputLayout("(B·H,T,D)", "{0}.reshape(B, H, T, -1)"),
        OutputLayout("(B,T,H·D)", "{0}.reshape(B, T, H, -1).swapaxes(1, 2)"),
        OutputLayout("(T,B,H,D)", "{0}.swapaxes(0, 1).swapaxes(1, 2)"),
        OutputLayout("(T,B,H·D)", "{0}.reshape(T, B, H, -1).swapaxes(0, 1).swapaxes(1, 2)"),
        OutputLayout("(B,H·D,T)", "{0}.reshape(B, H, -1, T).swapaxes(2, 3)"),
        OutputLayout("(B,H,D)", "{0}[:, :, None]"),
        OutputLayout("(B,H·D)", "{0}.reshape(B, H, 1, -1)"),
        OutputLayout("(B·T,H,D)", "{0}.reshape(B, T, H, -1).swapaxes(1, 2)")),
    Kind.LAYER: (
        OutputLayout("(B,T,M)", "{0}"),
        OutputLayout("(T,B,M)", "{0}.swapaxes(0, 1)"),
        OutputLayout("(B,M,T)", "{0}.swapaxes(1, 2)"),
        OutputLayout("(B,M,T,1)", "{0}[..., 0].swapaxes(1, 2)"),
        OutputLayout("(B,1,T,M)", "{0}[:, 0]")),
}

PACKED_LAYOUT = OutputLayout("(queries,H,D)", "{0}")
"""The layout of a packed output, which an adapter returns as it is."""
EQUAL_LENGTHS_SHAPE = "(B·T,H,D)"
"""The shape of such an output, where all sequences are of one length."""

WEIGHTS_LAYOUTS: tuple[OutputLayout, ...] = (
    OutputLayout("(B,H,T,S)", "{0}"),
    OutputLayout("(B·H,T,S)", "{0}.reshape(B, -1, *{0}.shape[1:])"),
    OutputLayout("(H,B,T,S)", "{0}.swapaxes(0, 1)"),
    OutputLayout("(B,T,S)", "{0}"),
)

LSE_LAYOUTS: tuple[OutputLayout, ...] = (
    OutputLayout("(B,H,T)", "{0}"),
    OutputLayout("(B,T,H)", "{0}.swapaxes(1, 2)"),
    OutputLayout("(B·H,T)", "{0}.reshape(B, -1, {0}.shape[-1])"),
    OutputLayout("(B,H,T,1)", "{0}[..., 0]"),
)


def list_arrangements(kind: Kind, arrays: int, *, in_list: bool = False) -> tuple[Arrangement, ...]:
    """Lists the arrangements worth a try for so many arrays, the usual first."""
    if in_list:
        return _LIST_ARRANGEMENTS[kind]
    if kind is Kind.LAYER:
        return tuple(Arrangement(each.shape, each.template, each.arguments[:arrays], each.mapped_axes)
                     for each in _LAYER_ARRANGEMENTS)
    return {3: _SEPARATE_ARRANGEMENTS, 2: _PAIR_ARRANGEMENTS,
            1: _FUSED_ARRANGEMENTS}.get(arrays, ())
