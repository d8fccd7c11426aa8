"""Which weights a run drops, read through values that are the identity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from attnspec.core.dropout_keywords import RATE
from attnspec.core.gradient_keywords import GRAD
from attnspec.numerics.dropout import factors, rescaling
from attnspec.numerics.expectation import Expectation
from attnspec.problems.problem import Array, Problem
from attnspec.vocabulary.observables import LOOKS, expectations
from attnspec.vocabulary.scene import NoClaim, Posed, Scene, working

LARGEST = 2**28
"""Entries of weights times width: more are not held to the definition under a mask."""


@dataclass(frozen=True, slots=True, eq=False)
class Dropped:
    """What was read of a run, all (B,H,T,S). seen: the weights in effect; kept: whether each is not 0; truth,
    allowance: of one that is kept; claimed: where a claim is made; known: where, too, a weight is so large that it
    is 0 only if it was dropped.
    """

    rate: float
    seen: Array
    kept: Array
    truth: Array
    allowance: Array
    claimed: Array
    known: Array

    @property
    def factor(self) -> Array:
        """(B,H,T,S): what the weights are multiplied by. No claim where it is not known of all of them."""
        if self.rate < 1 and (self.claimed & ~self.known).any():
            raise NoClaim("some weights are too small to see whether they are dropped")
        return factors(self.kept | ~self.claimed, self.rate)


def rate_of(problem: Problem) -> float:
    """The dropout rate of a problem, 0 where none is given."""
    return float(getattr(problem, RATE) or 0.0)


def dropped(scene: Scene, run: str) -> Dropped:
    """Read once a case."""
    key = (run, "dropped")
    if key not in scene.cache:
        scene.cache[key] = _dropped(scene, scene.runs[run])
    found: Dropped = scene.cache[key]
    return found


def _dropped(scene: Scene, posed: Posed[Any]) -> Dropped:
    plain = replace(posed.but(**{GRAD: None}), key=f"{posed.key}|read")  # nothing is read of gradients
    with scene.subject.callee.meanwhile((partial(expectations, scene, plain, "weights"),)):
        [weights], _ = LOOKS["weights"].observe(scene, plain)
    [expected] = expectations(scene, plain, "weights")
    return _told(working(weights, scene.dtype), expected, rate_of(posed.one), scene)


def _told(seen: Array, expected: Expectation, rate: float, scene: Scene) -> Dropped:
    """What weights (B,H,T,S) tell of which were dropped."""
    grown = 1 / (1 - rate) if rate < 1 else 0.0
    slack = expected.weights_allowance
    added = rescaling(scene.evaluator.precision) if rate > 0 else 0.0
    truth, allowance = grown * expected.weights, grown * (slack + added * (expected.weights + slack))
    claimed = np.broadcast_to(expected.claimed[..., None], seen.shape) & expected.visible
    return Dropped(rate, seen, seen != 0, truth, np.asarray(allowance), claimed, claimed & (truth > allowance))
