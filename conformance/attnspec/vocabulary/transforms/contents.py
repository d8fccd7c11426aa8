"""Transforms that put other numbers into the arrays of a problem."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from attnspec.core.keywords import CACHED
from attnspec.numerics.expectation import visible_keys
from attnspec.numerics.precision import unit
from attnspec.problems.problem import Array
from attnspec.vocabulary.hints import DrawnRow, DrawnSeed, DrawnStep, PowerOfTwo
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.transforms.axes import ArrayName, Attention, product, shifted


def multiply(posed: Attention, *, array: ArrayName, by: Annotated[float, PowerOfTwo()]) -> Attention:
    """Multiply one array by a power of two, positive or negative; no claim where that is not exact in the dtype."""
    problem = posed.one
    return posed.but(**{array: product(getattr(problem, array), by, problem.dtype)})


def shift_keys(posed: Attention, *, by: DrawnStep) -> Attention:
    """Add one number to every entry of every key, so that all logits of a row change by the same amount."""
    problem = posed.one
    return posed.but(key=shifted(problem.key, by, problem.dtype))


def shift_bias(posed: Attention, *, by: DrawnStep) -> Attention:
    """Add one number to every entry of the bias; entries of -inf stay as they are."""
    problem = posed.one
    if problem.bias is None:
        raise NoClaim("there is no bias")
    hides = np.isneginf(problem.bias)
    # -inf less -inf is NaN, which would count as not exact
    moved = shifted(np.where(hides, np.zeros_like(problem.bias), problem.bias), by, problem.dtype)
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

    def stirred(array: Array) -> Array:
        """An array of any shape, with its entries in another order."""
        return random.permutation(array.reshape(-1)).reshape(array.shape)

    return posed.but(**{name: stirred(getattr(posed.one, name)) for name in arrays})


LARGE = 256.0


def replace_hidden(posed: Attention, *, arrays: tuple[Literal["key", "value", "past_key", "past_value"], ...],
                   content: Literal["large", "nan", "inf"]) -> Attention:
    """Put other content into the keys and values that are masked for every query, new or past ones.

    `large` is 256 with alternating signs; no claim where a dot product with it would leave the dtype's range.
    """
    problem = posed.one
    # query heads share their keys here, and one may see what another does not
    if problem.sizes.Hkv < problem.sizes.H:
        raise NoClaim("heads are grouped")
    hidden = np.asarray(~visible_keys(problem, posed.conventions).any(axis=2))
    places = {name: hidden[..., : problem.past] if name in CACHED else hidden[..., problem.past :] for name in arrays}
    if not any(each.any() for each in places.values()):
        raise NoClaim("no key is masked for every query")
    reach = np.abs(problem.query.astype(np.float64)).sum(axis=-1).max() * LARGE
    if content == "large" and reach > unit(problem.dtype).largest:
        raise NoClaim("a dot product with the new keys would overflow")
    return posed.but(**{name: poisoned(getattr(problem, name), each, content) for name, each in places.items()})


def poisoned(array: Array, hidden: Array, content: str) -> Array:
    """A query (B,H,T,D), key (B,H,S,D) or value (B,H,S,Dv) with this content, its signs alternating, at the `hidden`
    places (B,H,S), (B,1,S) or (B,1,T).
    """
    poison = {"nan": np.nan, "inf": np.inf, "large": LARGE}[content]
    signs = np.where(np.arange(array.shape[-1]) % 2, -1.0, 1.0)
    return np.where(hidden[..., None], (poison * signs).astype(array.dtype), array)


def replace_last_entry(posed: Attention, *, content: Literal["nothing", "large", "nan"]) -> Attention:
    """Put other content into query, key and value of the last batch entry; of the output, the other entries are
    compared. `nothing`: its content stays.
    """
    problem = posed.one
    B = problem.sizes.B
    if B == 1:
        raise NoClaim("there is one batch entry")
    reach = np.abs(problem.query.astype(np.float64)).sum(axis=-1).max() * LARGE
    if content == "large" and reach > unit(problem.dtype).largest:
        raise NoClaim("a dot product with the new keys would overflow")
    arrays = {name: getattr(problem, name) for name in ("query", "key", "value")}
    is_last = np.arange(B)[:, None, None] == B - 1
    changed = {} if content == "nothing" else {
        name: poisoned(array, np.broadcast_to(is_last, (B, 1, array.shape[2])), content)
        for name, array in arrays.items()}
    return posed.but(**changed).reading("B", np.arange(B - 1))


def replace_after(posed: Attention, *, arrays: tuple[ArrayName, ...], cut: DrawnRow) -> Attention:
    """Negate every entry of the named arrays after position `cut` (zeros become ones)."""

    def moved(array: Array) -> Array:
        """(B,H,T,·) or (B,H,S,·), negated after position `cut`."""
        # the negative of 0 is 0 in effect: ones take its place, so that every entry does change
        later = array[..., cut + 1 :, :]
        return np.concatenate([array[..., : cut + 1, :], np.where(later == 0, np.ones_like(later), -later)], axis=2)

    return posed.but(**{name: moved(getattr(posed.one, name)) for name in arrays})


def move_unseen(posed: Attention, *, arrays: tuple[Literal["key", "value"], ...], row: DrawnRow) -> Attention:
    """Negate every key and value that the query at `row` does not see in any head (zeros become ones)."""
    problem = posed.one
    unseen = np.asarray(~visible_keys(problem, posed.conventions)[:, :, row].any(axis=1))  # (B,S)
    if not unseen.any():
        raise NoClaim("the query sees every key")

    def moved(array: Array) -> Array:
        """(B,Hkv,S,·), negated at the places that the query does not see."""
        return np.where(unseen[:, None, :, None], np.where(array == 0, np.ones_like(array), -array), array)

    return posed.but(**{name: moved(getattr(problem, name)) for name in arrays})


def share_heads(posed: Attention) -> Attention:
    """Give every head the arrays of the first head, at full shape."""
    problem = posed.one

    def shared(array: Array) -> Array:
        """(B,H,T,·) or (B,H,S,·), with the first head in the place of each."""
        return np.ascontiguousarray(np.broadcast_to(array[:, :1], array.shape))

    return posed.but(query=shared(problem.query), key=shared(problem.key), value=shared(problem.value))
