"""Adds rounding to codes to the bound of chance: errors of many entries, of both signs, partly
cancel.

The model is that of all roundings: independent, without a mean, no larger than what is known of
each. The derivation is in docs/quantised.md.
"""

from __future__ import annotations

import numpy as np

from attnspec.numerics.bound import WeightError
from attnspec.numerics.operands import EntryErrors, Operands
from attnspec.numerics.precision import WEIGHTS
from attnspec.numerics.reference import Truth
from attnspec.numerics.roundings import Roundings
from attnspec.numerics.stored import stored_weight_error
from attnspec.problems.problem import Array

JOINT_ENTRIES_AT_ONCE = 2**20  # entries of weight·value that are formed at once


def shared_query_squares(operands: Operands, truth: Truth, p: Array, sizes: Array) -> Array:
    """(B,H,T,Dv): the sum over the query's features of (size·Cov(key entry, value))².

    sizes (B,H,T,D).  p (B,H,T,S): the weights, with a bend times its slope at each logit.
    """
    key, value = operands.key, operands.value
    square, T = np.empty_like(truth.output), sizes.shape[2]
    step = max(1, JOINT_ENTRIES_AT_ONCE // max(1, p[:, :, :1].size * value.shape[-1]))
    for start in range(0, T, step):
        rows = slice(start, start + step)
        # with D and Dv as axes of their own, some queries at a time
        joint = key.swapaxes(-1, -2)[:, :, None] @ (p[:, :, rows, :, None] * value[:, :, None])
        mean = (p[:, :, rows] @ key)[..., None]
        covariance = joint - mean * truth.output[:, :, rows, None, :]
        square[:, :, rows] = (np.square(sizes[:, :, rows, None, :])
                              @ np.square(covariance))[..., 0, :]
    return square


def squares_of_stored(operands: Operands, errors: EntryErrors) -> Array:
    """(B,H,T,S): the squared errors of a dot product that no other key shares.

    They come from the key's codes, and from the products of both errors.
    """
    query = np.square(operands.query) + np.square(errors.query)
    return np.asarray(query @ np.square(errors.key).swapaxes(-1, -2))


def strain_of_query(operands: Operands) -> Array | float:
    """(B,H,T,1): the root of the largest squared error of a logit by the query's codes."""
    if operands.entry_errors is None:
        return 0.0
    squares = np.square(operands.entry_errors.query) @ np.square(operands.key).swapaxes(-1, -2)
    if operands.visible is not None:
        squares = np.where(operands.visible, squares, 0.0)
    root = np.sqrt(squares.max(axis=-1, keepdims=True, initial=0.0))
    return np.asarray(abs(float(operands.scale)) * root)


def spread_of_stored(operands: Operands, truth: Truth, weights: tuple[Array, Array], r: Roundings,
                     unit: Array) -> Array:
    """(B,H,T,Dv): the squared errors of an output, in units (B,H,1,1) of its values.

    An entry of the query is stored once for all keys, and moves the output by a covariance; a
    value, and a weight, is stored by itself.  weights (B,H,T,S): those of the keys, and the same
    times how steep a bend is at each logit.
    """
    p, steep = weights
    square = np.zeros_like(truth.output)
    if operands.entry_errors is not None:
        of_query = shared_query_squares(operands, truth, steep, operands.entry_errors.query)
        square += of_query * float(operands.scale) ** 2
        square += (p * p) @ np.square(operands.entry_errors.value / unit)
    if WEIGHTS in r.stored_formats:  # less the output, or not
        squares = p * p
        products = (squares @ np.square(operands.value)
                    + truth.output**2 * squares.sum(axis=-1, keepdims=True))
        square += 2 * r.stored_formats[WEIGHTS].relative ** 2 * products
    return square


def sure_of_stored(operands: Operands, truth: Truth, r: Roundings,
                   errors: WeightError) -> Array | float:
    """(B,H,T,Dv): errors by storage that chance does not damp.

    Weights that are too small for a code become 0, always; and rounding has a mean of a fifth of
    its square, since codes just above a power of two lie twice as far apart. Where the largest
    entries of blocks may be clipped, all in the same direction, chance says nothing.
    """
    if any(each.clips for each in r.stored_formats.values()):
        return np.inf
    if WEIGHTS not in r.stored_formats:
        return 0.0
    form = r.stored_formats[WEIGHTS]
    attended_weights = np.where(operands.visible_array(), truth.weights, 0.0)
    # what is lost always has one sign, which chance does not damp
    small = stored_weight_error(form, attended_weights, truth.total, errors.least, only_small=True)
    size = np.abs(truth.output)
    return np.asarray(small.distances @ operands.sizes.value + size * small.mass
                      + form.relative**2 * size)
