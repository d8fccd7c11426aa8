"""Transforms of contents: other numbers, other keywords, other memory, or the same call again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np

from attnspec.core.dtype import DTYPES
from attnspec.core.forms import OF_ENTRIES
from attnspec.core.keyword import Acts
from attnspec.core.keywords import BESIDE, CACHED, OFF, acting_on
from attnspec.numerics.operands import visible_keys
from attnspec.problems.problem import INPUTS, Array, Problem, heads_last, with_gaps
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.signature import Drawn, DrawnCount, DrawnRow, DrawnSeed, DrawnStep, KeywordLeftOut, PowerOfTwo
from attnspec.vocabulary.transforms.axes import (
    ARRAYS,
    ArrayName,
    Attention,
    keep_prefix,
    product,
    score_shape,
    shift_exactly,
)


def _change_arrays(posed: Attention, names: Iterable[str], change: Callable[[Array], Array]) -> Attention:
    """The same with some arrays, of any shape, changed in one way."""
    return posed.but(**{name: change(getattr(posed.one, name)) for name in names})


def multiply(posed: Attention, *, array: ArrayName, by: Annotated[float, PowerOfTwo()]) -> Attention:
    """Multiply one array by a power of two, positive or negative; no claim where that is not exact in the dtype."""
    problem = posed.one
    return posed.but(**{array: product(getattr(problem, array), by, problem.dtype)})


def shift_keys(posed: Attention, *, by: DrawnStep) -> Attention:
    """Add one number to every entry of every key, so that all logits of a row change by the same amount."""
    problem = posed.one
    return posed.but(key=shift_exactly(problem.key, by, problem.dtype))


def shift_bias(posed: Attention, *, by: DrawnStep) -> Attention:
    """Add one number to every entry of the bias; entries of -inf stay as they are."""
    problem = posed.one
    if problem.bias is None:
        raise NoClaim("there is no bias")
    hides = np.isneginf(problem.bias)
    # -inf less -inf is NaN, which would count as not exact
    moved = shift_exactly(np.where(hides, np.zeros_like(problem.bias), problem.bias), by, problem.dtype)
    return posed.but(bias=np.where(hides, problem.bias, moved))


def fill(posed: Attention, *, array: ArrayName, number: float) -> Attention:
    """Put one number into every entry of an array."""
    with np.errstate(over="ignore"):
        filled = np.full_like(getattr(posed.one, array), number)
    if not np.isfinite(filled).all():
        raise NoClaim(f"{number:g} is too large for the dtype")
    return posed.but(**{array: filled})


def keep_values(posed: Attention, *, of: Literal["even_keys", "odd_keys"]) -> Attention:
    """Keep the values of the even keys, or of the odd keys, and set the others to zero."""
    value = posed.one.value.copy()
    value[:, :, 1 if of == "even_keys" else 0 :: 2, :] = 0
    return posed.but(value=value)


def other_content(posed: Attention, *, by: DrawnSeed, arrays: tuple[ArrayName, ...]) -> Attention:
    """Shuffle the entries of each named array: other content of the same shape."""
    random = np.random.RandomState(by)

    def shuffle_entries(array: Array) -> Array:
        """An array of any shape, with its entries in another order."""
        return random.permutation(array.reshape(-1)).reshape(array.shape)

    return _change_arrays(posed, arrays, shuffle_entries)


LARGE = 256.0


def replace_hidden(posed: Attention, *, arrays: tuple[Literal["key", "value", "past_key", "past_value"], ...],
                   content: Literal["large", "nan", "inf"]) -> Attention:
    """Put other content into the keys and values that are masked for every query, new or past
    ones.

    `large` is 256 with alternating signs; no claim where a dot product with it would leave the
    dtype's range.
    """
    problem = posed.one
    # query heads share their keys here, and one may see what another does not
    if problem.sizes.Hkv < problem.sizes.H:
        raise NoClaim("heads are grouped")
    hidden = np.asarray(~visible_keys(problem, posed.conventions).any(axis=2))
    past, new = hidden[..., :problem.past], hidden[..., problem.past:]
    places = {name: past if name in CACHED else new for name in arrays}
    if not any(each.any() for each in places.values()):
        raise NoClaim("no key is masked for every query")
    reach = np.abs(problem.query.astype(np.float64)).sum(axis=-1).max() * LARGE
    if content == "large" and reach > DTYPES[problem.dtype].largest:
        raise NoClaim("a dot product with the new keys would overflow")
    return posed.but(**{name: poison_hidden(getattr(problem, name), each, content) for name, each in places.items()})


def poison_hidden(array: Array, hidden: Array, content: str) -> Array:
    """An array with this content at the `hidden` places, (B,H,S), (B,1,S) or (B,1,T), signs
    alternating.

    The array is a query (B,H,T,D), key (B,H,S,D) or value (B,H,S,Dv).
    """
    poison = {"nan": np.nan, "inf": np.inf, "large": LARGE}[content]
    signs = np.where(np.arange(array.shape[-1]) % 2, -1.0, 1.0)
    return np.where(hidden[..., None], (poison * signs).astype(array.dtype), array)


def replace_last_entry(posed: Attention, *, content: Literal["nothing", "large", "nan"]) -> Attention:
    """Put other content into query, key and value of the last batch entry; of the output, the
    other entries are compared. `nothing`: its content stays.
    """
    problem = posed.one
    B = problem.sizes.B
    if B == 1:
        raise NoClaim("there is one batch entry")
    reach = np.abs(problem.query.astype(np.float64)).sum(axis=-1).max() * LARGE
    if content == "large" and reach > DTYPES[problem.dtype].largest:
        raise NoClaim("a dot product with the new keys would overflow")
    changes = dict[str, Array]()
    if content != "nothing":
        is_last = np.arange(B)[:, None, None] == B - 1
        for name in INPUTS:
            array = getattr(problem, name)
            places = np.broadcast_to(is_last, (B, 1, array.shape[2]))
            changes[name] = poison_hidden(array, places, content)
    return posed.but(**changes).reading("B", np.arange(B - 1))


def replace_after(posed: Attention, *, arrays: tuple[ArrayName, ...], cut: DrawnRow) -> Attention:
    """Negate every entry of the named arrays after position `cut` (zeros become ones)."""

    def negate_later(array: Array) -> Array:
        """An array (B,H,T,·) or (B,H,S,·), negated after position `cut`."""
        # the negative of 0 is 0 in effect: ones take its place, so that every entry does change
        later = array[..., cut + 1:, :]
        return np.concatenate([array[..., :cut + 1, :], np.where(later == 0, np.ones_like(later), -later)], axis=2)

    return _change_arrays(posed, arrays, negate_later)


def move_unseen(posed: Attention, *, arrays: tuple[Literal["key", "value"], ...], row: DrawnRow) -> Attention:
    """Negate every key and value that the query at `row` does not see in any head (zeros become ones)."""
    problem = posed.one
    unseen = np.asarray(~visible_keys(problem, posed.conventions)[:, :, row].any(axis=1))  # (B,S)
    if not unseen.any():
        raise NoClaim("the query sees every key")

    def negate_unseen(array: Array) -> Array:
        """An array (B,Hkv,S,·), negated at the places that the query does not see."""
        return np.where(unseen[:, None, :, None], np.where(array == 0, np.ones_like(array), -array), array)

    return _change_arrays(posed, arrays, negate_unseen)


def share_heads(posed: Attention) -> Attention:
    """Give every head the arrays of the first head, at full shape."""
    def copy_first(array: Array) -> Array:
        """An array (B,H,T,·) or (B,H,S,·), with the first head in the place of each."""
        return np.ascontiguousarray(np.broadcast_to(array[:, :1], array.shape))

    return _change_arrays(posed, INPUTS, copy_first)


# How a problem is asked: again, after other calls, from other memory


FULL = 4
"""Axes of the arrays that are laid out otherwise: lengths have one."""


def again(posed: Attention) -> Attention:
    """Make the same call once more; no earlier answer is used again."""
    return replace(posed, fresh=True)


def after_another(posed: Attention, *, by: DrawnSeed) -> Attention:
    """Make the call after one with other arrays of the same shapes; if T = S, also after one of a
    single position.

    If a scale is given, it is larger by 1 in the earlier calls; scales and zero points of codes
    are in opposite order.
    """
    other = other_content(posed, by=by, arrays=("query", "key", "value"))
    for name in OF_ENTRIES:
        array = getattr(posed.one, name)
        if array is not None:
            other = other.but(**{name: np.flip(array, axis=2)})
    # a scale that is remembered from the call before shows only where it was another
    other = other.but(scale=None if other.one.scale is None else other.one.scale + 1)
    square = other.one.sizes.T == other.one.sizes.S
    shorter = (keep_prefix(other, cut=Drawn(0)).one,) if square else ()
    return replace(posed, fresh=True, before=(other.one, *shorter))


def lay_out(posed: Attention, *, layout: Literal["strided", "transposed", "broadcast"]) -> Attention:
    """Pass the same arrays in another memory layout.

    strided: with gaps along every axis.  transposed: (B,H,T,D) as a view of memory that lies
    (B,T,H,D), as split heads do.  broadcast: heads whose entries are all equal share one head's
    memory, at stride 0. No claim where arrays of such sizes can lie in one way only.
    """
    view = {"strided": with_gaps, "transposed": heads_last, "broadcast": _one_head}[layout]
    arrays = {name: getattr(posed.one, name) for name in ARRAYS}
    laid = {name: view(array) for name, array in arrays.items() if array is not None and array.ndim == FULL}
    if layout != "broadcast" and all(array.flags.c_contiguous for array in laid.values()):
        raise NoClaim("arrays of these sizes have one layout")
    return replace(posed.but(**laid), fresh=True)


def _one_head(array: Array) -> Array:
    """An array (B,H,T,D) or its like; if all heads are equal, a view of one head's memory."""
    # bits, not numbers: NaN is no reason to differ, and -0 is not 0
    is_shared = array.tobytes() == np.broadcast_to(array[:, :1], array.shape).tobytes()
    return np.broadcast_to(array[:, :1].copy(), array.shape) if is_shared else array


# The optional keywords


def hide_keys(posed: Attention, *, kept: DrawnCount) -> Attention:
    """Mask every key from position `kept` on, for all queries."""
    problem = posed.one
    mask = np.ones(score_shape(problem), bool) if problem.mask is None else problem.mask.copy()
    mask[..., kept:] = False
    return posed.but(mask=mask)


def show_all(posed: Attention) -> Attention:
    """Pass a mask that keeps every key."""
    return posed.but(mask=np.ones(score_shape(posed.one), bool))


def drop_mask(posed: Attention) -> Attention:
    """Pass no mask."""
    return posed.but(mask=None)


def share_mask(posed: Attention, *, over: Literal["batch", "heads", "queries"]) -> Attention:
    """Give all entries of an axis the mask of the first, still at full shape."""
    return posed.but(mask=np.ascontiguousarray(np.broadcast_to(_first(posed.one, over), score_shape(posed.one))))


def broadcast_mask(posed: Attention, *, over: Literal["batch", "heads", "queries"]) -> Attention:
    """Pass the mask of `share_mask` with that axis of length 1, to be broadcast."""
    return posed.but(mask=np.ascontiguousarray(_first(posed.one, over)))


def _first(problem: Problem, over: str) -> Array:
    """The mask (B,H,T,S) with one axis cut to its first entry. Raises NoClaim without a mask."""
    if problem.mask is None:
        raise NoClaim("there is no mask")
    return np.take(problem.mask, [0], axis={"batch": 0, "heads": 1, "queries": 2}[over])


def hide_by_mask(posed: Attention) -> Attention:
    """Hand over a mask in place of all that hides keys, but a bias; words are made of this."""
    mask = visible_keys(posed.one.but(bias=None), posed.conventions)
    return posed.but(**{**acting_on(Acts.VISIBILITY), "mask": mask})


def zero_bias(posed: Attention) -> Attention:
    """Pass a bias of zeros."""
    return posed.but(bias=np.zeros(score_shape(posed.one), posed.one.query.dtype))


def mask_as_bias(posed: Attention) -> Attention:
    """Pass the mask as an additive bias, with -inf for every masked key."""
    problem = posed.one
    if problem.mask is None:
        raise NoClaim("there is no mask")
    bias = np.zeros(score_shape(problem), problem.query.dtype) if problem.bias is None else problem.bias
    return posed.but(mask=None, bias=np.where(problem.mask, bias, np.array(-np.inf, bias.dtype)))


def causal_as_mask(posed: Attention) -> Attention:
    """Pass the causal flag as an explicit mask, combined with the given mask as the conventions say."""
    problem = posed.one
    # what else hides keys stays a keyword of its own, so only the flag goes into the mask
    others = {name: off for name, off in OFF.items() if name not in ("mask", "causal")}
    return posed.but(causal=False, mask=visible_keys(problem.but(**others), posed.conventions))


def leave_out(posed: Attention, *, keyword: KeywordLeftOut) -> Attention:
    """Make the same call without this keyword, and without what is given together with it. Without
    past keys, mask and bias have no columns of them.
    """
    problem = posed.one
    changes = {name: OFF[name] for name in (keyword, BESIDE.get(keyword, keyword))}
    for name in ("mask", "bias"):
        array = getattr(problem, name)
        if keyword in CACHED and array is not None:
            changes.setdefault(name, np.ascontiguousarray(array[..., problem.past:]))
    return posed.but(**changes)


def ask_weights(posed: Attention) -> Attention:
    """Ask for the weights as well."""
    return posed.but(return_weights=True)
