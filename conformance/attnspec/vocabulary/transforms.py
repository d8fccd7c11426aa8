"""Words of `runs`: a posed attention problem to another. Pure; none touches the subject.

A transform that would not be exact in the dtype raises NoClaim.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from attnspec.numerics.expectation import visible_keys
from attnspec.problems.problem import Array, Layout, Problem
from attnspec.vocabulary.posed import NoClaim, Posed
from attnspec.vocabulary.signature import Drawn

Attention = Posed[Problem]
ArrayName = Literal["query", "key", "value"]


def _permutation(seed: int, length: int) -> Array:
    return np.random.RandomState(seed).permutation(length)


def _taken(array: Array | None, index: Array, axis: int) -> Array | None:
    return None if array is None else np.ascontiguousarray(np.take(array, index, axis=axis))


def permute_keys(posed: Attention, *, by: Drawn) -> Attention:
    """Reorder the keys with their values, and the columns of mask and bias with them."""
    problem = posed.one
    order = _permutation(by, problem.sizes.S)
    moved = posed.but(key=_taken(problem.key, order, 2), value=_taken(problem.value, order, 2),
                      mask=_taken(problem.mask, order, 3), bias=_taken(problem.bias, order, 3))
    return moved.reading("S", np.argsort(order))


def permute_queries(posed: Attention, *, by: Drawn) -> Attention:
    """Reorder the queries, and the rows of mask and bias with them; answers are read back in the old order."""
    problem = posed.one
    order = _permutation(by, problem.sizes.T)
    moved = posed.but(query=_taken(problem.query, order, 2), mask=_taken(problem.mask, order, 2),
                      bias=_taken(problem.bias, order, 2))
    return moved.reading("T", np.argsort(order))


def permute_batch(posed: Attention, *, by: Drawn) -> Attention:
    """Reorder the batch; answers are read back in the old order."""
    problem = posed.one
    order = _permutation(by, problem.sizes.B)
    names = ("query", "key", "value", "mask", "bias")
    return posed.but(**{name: _taken(getattr(problem, name), order, 0) for name in names}).reading("B", np.argsort(order))


def permute_heads(posed: Attention, *, by: Drawn) -> Attention:
    """Reorder the heads of queries, keys and values alike (no grouped heads); answers are read back in the old order."""
    problem = posed.one
    if problem.sizes.H != problem.sizes.Hkv:
        raise NoClaim("heads are grouped")
    order = _permutation(by, problem.sizes.H)
    names = ("query", "key", "value", "mask", "bias")
    return posed.but(**{name: _taken(getattr(problem, name), order, 1) for name in names}).reading("H", np.argsort(order))


def split(posed: Attention, *, along: Literal["batch", "heads", "queries"]) -> Attention:
    """Take the problem apart along an axis: one call a piece, the answers joined again."""
    axis, join = {"batch": (0, "B"), "heads": (1, "H"), "queries": (2, "T")}[along]
    problem = posed.one
    if along == "heads" and problem.sizes.H != problem.sizes.Hkv:
        raise NoClaim("heads are grouped")
    names = ("query", "mask", "bias") if along == "queries" else ("query", "key", "value", "mask", "bias")
    parts = tuple(problem.but(**{name: _taken(getattr(problem, name), np.array([i]), axis) for name in names})
                  for i in range(problem.query.shape[axis]))
    return replace(posed, parts=parts, join=join)


def repeat_keys(posed: Attention) -> Attention:
    """Give every key and value a twin at the end, visible to whom the first is."""
    problem = posed.one
    twice = np.concatenate([np.arange(problem.sizes.S)] * 2)
    return posed.but(key=_taken(problem.key, twice, 2), value=_taken(problem.value, twice, 2),
                     mask=_taken(problem.mask, twice, 3), bias=_taken(problem.bias, twice, 3))


def multiply(posed: Attention, *, array: ArrayName, by: float) -> Attention:
    """Multiply one array by a number; no claim where that is not exact in the dtype."""
    old = getattr(posed.one, array)
    new = (old.astype(np.float64) * by).astype(old.dtype)
    return posed.but(**{array: _exactly(new, old.astype(np.float64) * by)})


def shift_keys(posed: Attention, *, by: Drawn) -> Attention:
    """Add one number to every entry of every key: each logit of a row moves by the same amount."""
    old = posed.one.key
    return posed.but(key=_exactly((old.astype(np.float64) + by).astype(old.dtype), old.astype(np.float64) + by))


def shift_bias(posed: Attention, *, by: Drawn) -> Attention:
    """Add one number to every entry of the bias."""
    old = posed.one.bias
    if old is None:
        raise NoClaim("there is no bias")
    return posed.but(bias=_exactly((old.astype(np.float64) + by).astype(old.dtype), old.astype(np.float64) + by))


def _exactly(rounded: Array, wanted: Array) -> Array:
    if not np.array_equal(rounded.astype(np.float64), wanted):
        raise NoClaim("the change is not exact in the dtype")
    return rounded


def widen(posed: Attention, *, by: int) -> Attention:
    """Append zero features until queries, keys and values are `by` times as wide; the old value columns are reported."""
    problem = posed.one

    def wider(array: Array) -> Array:
        return np.pad(array, [(0, 0)] * 3 + [(0, array.shape[-1] * (by - 1))])

    wide = posed.but(query=wider(problem.query), key=wider(problem.key), value=wider(problem.value))
    return wide.reading("Dv", np.arange(problem.sizes.Dv))


def fill(posed: Attention, *, array: ArrayName, number: float) -> Attention:
    """Put one number into every entry of an array."""
    return posed.but(**{array: np.full_like(getattr(posed.one, array), number)})


def other_content(posed: Attention, *, by: Drawn, arrays: tuple[ArrayName, ...]) -> Attention:
    """Reorder the batch, heads, positions and features of the named arrays: other content of the same kind and shape."""
    random = np.random.RandomState(by)

    def stirred(array: Array) -> Array:
        return random.permutation(array.reshape(-1)).reshape(array.shape)

    return posed.but(**{name: stirred(getattr(posed.one, name)) for name in arrays})


def keep_values(posed: Attention, *, of: Literal["even_keys", "odd_keys"]) -> Attention:
    """Set the values of the other keys to zero; even and odd keys' values add up to all of them, exactly."""
    value = posed.one.value.copy()
    value[:, :, 1 if of == "even_keys" else 0 :: 2, :] = 0
    return posed.but(value=value)


def hide_keys(posed: Attention, *, kept: Drawn) -> Attention:
    """Let the mask hide every key from `kept` on, from every query."""
    problem = posed.one
    mask = np.ones(_scores(problem), bool) if problem.mask is None else problem.mask.copy()
    mask[..., kept:] = False
    return posed.but(mask=mask)


def drop_keys(posed: Attention, *, kept: Drawn) -> Attention:
    """Cut keys and values off from `kept` on."""
    problem = posed.one
    index = np.arange(kept)
    return posed.but(key=_taken(problem.key, index, 2), value=_taken(problem.value, index, 2),
                     mask=_taken(problem.mask, index, 3), bias=_taken(problem.bias, index, 3))


def show_all(posed: Attention) -> Attention:
    """Hand over a mask that hides nothing."""
    return posed.but(mask=np.ones(_scores(posed.one), bool))


def drop_mask(posed: Attention) -> Attention:
    """Hand over no mask."""
    return posed.but(mask=None)


def zero_bias(posed: Attention) -> Attention:
    """Hand over a bias of zeros."""
    return posed.but(bias=np.zeros(_scores(posed.one), posed.one.query.dtype))


def mask_as_bias(posed: Attention) -> Attention:
    """Hand the mask over as an additive bias that holds -inf where it hides."""
    problem = posed.one
    if problem.mask is None:
        raise NoClaim("there is no mask")
    bias = np.zeros(_scores(problem), problem.query.dtype) if problem.bias is None else problem.bias
    return posed.but(mask=None, bias=np.where(problem.mask, bias, np.array(-np.inf, bias.dtype)))


def causal_as_mask(posed: Attention) -> Attention:
    """Hand the causal flag over as an explicit mask, joined with the mask that is there as the conventions say."""
    problem = posed.one
    return posed.but(causal=False, mask=visible_keys(problem.but(bias=None), posed.conventions))


def share_mask(posed: Attention, *, over: Literal["batch", "heads", "queries"]) -> Attention:
    """Make all of an axis use the mask of its first entry, still at full shape."""
    return posed.but(mask=np.ascontiguousarray(np.broadcast_to(_first(posed.one, over), _scores(posed.one))))


def broadcast_mask(posed: Attention, *, over: Literal["batch", "heads", "queries"]) -> Attention:
    """The same mask as `share_mask`, handed over with that axis of length 1."""
    return posed.but(mask=np.ascontiguousarray(_first(posed.one, over)))


def _first(problem: Problem, over: str) -> Array:
    if problem.mask is None:
        raise NoClaim("there is no mask")
    return np.take(problem.mask, [0], axis={"batch": 0, "heads": 1, "queries": 2}[over])


def replace_hidden(posed: Attention, *, arrays: tuple[ArrayName, ...], content: Literal["large", "nan", "inf"]) -> Attention:
    """Put other content into the keys and values that no query of their group may attend to."""
    problem = posed.one
    if problem.sizes.H != problem.sizes.Hkv:
        raise NoClaim("heads are grouped")
    hidden = ~visible_keys(problem, posed.conventions).any(axis=2)
    if not hidden.any():
        raise NoClaim("no key is hidden from every query")
    changed = {name: _poisoned(getattr(problem, name), hidden, content) for name in arrays}
    return posed.but(**changed)


def _poisoned(array: Array, hidden: Array, content: str) -> Array:
    poison = {"nan": np.nan, "inf": np.inf, "large": 256.0}[content]
    signs = np.where(np.arange(array.shape[-1]) % 2, -1.0, 1.0)
    return np.where(hidden[..., None], (poison * signs).astype(array.dtype), array)


def replace_after(posed: Attention, *, arrays: tuple[ArrayName, ...], cut: Drawn) -> Attention:
    """Put other finite content into the named arrays at every position after `cut`."""

    def moved(array: Array) -> Array:
        later = np.roll(array[..., cut + 1 :, :], 1, axis=-1)
        return np.concatenate([array[..., : cut + 1, :], np.where(later == 0, np.ones_like(later), -later)], axis=2)

    return posed.but(**{name: moved(getattr(posed.one, name)) for name in arrays})


def keep_prefix(posed: Attention, *, cut: Drawn) -> Attention:
    """Cut the whole sequence off after position `cut`."""
    problem = posed.one
    index = np.arange(cut + 1)

    def square(array: Array | None) -> Array | None:
        return None if array is None else np.ascontiguousarray(array[:, :, : cut + 1, : cut + 1])

    return posed.but(query=_taken(problem.query, index, 2), key=_taken(problem.key, index, 2),
                     value=_taken(problem.value, index, 2), mask=square(problem.mask), bias=square(problem.bias))


def keep_queries(posed: Attention, *, cut: Drawn) -> Attention:
    """Cut the queries off after position `cut`; keys and values stay."""
    problem = posed.one
    index = np.arange(cut + 1)
    return posed.but(query=_taken(problem.query, index, 2), mask=_taken(problem.mask, index, 2),
                     bias=_taken(problem.bias, index, 2))


def ask_weights(posed: Attention) -> Attention:
    """Ask for the weights, too."""
    return posed.but(return_weights=True)


def with_scale(posed: Attention, *, to: Literal["default", "zero", "one", "doubled", "negated"]) -> Attention:
    """Hand over an explicit scale: 1/sqrt(D), 0, 1, 2/sqrt(D) or -1/sqrt(D)."""
    default = 1 / float(np.sqrt(posed.one.sizes.D))
    scales = {"default": default, "zero": 0.0, "one": 1.0, "doubled": 2 * default, "negated": -default}
    return posed.but(scale=scales[to])


def lay_out(posed: Attention, *, layout: Literal["strided", "transposed", "broadcast"]) -> Attention:
    """Hand the same arrays over in another memory layout."""
    return replace(posed.but(layout=Layout(layout)), fresh=True)


def share_heads(posed: Attention) -> Attention:
    """Give every head of the batch the arrays of the first, at full shape."""
    problem = posed.one

    def shared(array: Array) -> Array:
        return np.ascontiguousarray(np.broadcast_to(array[:, :1], array.shape))

    return posed.but(query=shared(problem.query), key=shared(problem.key), value=shared(problem.value))


def again(posed: Attention) -> Attention:
    """Ask once more, remembering nothing."""
    return replace(posed, fresh=True)


def after_another(posed: Attention, *, by: Drawn) -> Attention:
    """Ask after another problem of the same shapes; where T = S, after a third that is one position long, too."""
    other = other_content(posed, by=by, arrays=("query", "key", "value"))
    square = other.one.sizes.T == other.one.sizes.S
    shorter = (keep_prefix(other, cut=Drawn(0)).one,) if square else ()
    return replace(posed, fresh=True, before=(other.one, *shorter))


def repeat_kv_heads(posed: Attention, *, order: Literal["declared", "repeat", "tile"]) -> Attention:
    """Give every query head a key/value head of its own: what grouped heads mean, spelled out."""
    problem = posed.one
    H, Hkv = problem.sizes.H, problem.sizes.Hkv
    answer = posed.conventions.get("grouped_heads", "") if order == "declared" else order
    if answer not in {"repeat", "tile"}:
        raise NoClaim("the order of grouped heads is undefined")
    heads = np.arange(H) // (H // Hkv) if answer == "repeat" else np.arange(H) % Hkv
    return posed.but(key=_taken(problem.key, heads, 1), value=_taken(problem.value, heads, 1))


def keep_kv_heads(posed: Attention, *, kept: Drawn) -> Attention:
    """Cut the key/value heads off from `kept` on; query heads share those that are left."""
    problem = posed.one
    index = np.arange(kept)
    return posed.but(key=_taken(problem.key, index, 1), value=_taken(problem.value, index, 1))


def _scores(problem: Problem) -> tuple[int, int, int, int]:
    size = problem.sizes
    return size.B, size.H, size.T, size.S
