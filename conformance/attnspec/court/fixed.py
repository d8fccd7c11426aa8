"""Cases that are not searched for: a law of chance is tried once a shape, a documented example is what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, product

from attnspec.ground.declaration import Limits
from attnspec.ground.nouns import Effort
from attnspec.problems.domain import GENERIC_KINDS, Domain, Kind
from attnspec.problems.layers import model_width
from attnspec.problems.problem import Sizes
from attnspec.problems.recipe import Recipe
from attnspec.problems.shapes import shapes_for

FIXED_KINDS = frozenset({"gaussian", "worked_example", "acceptance", "score"}) | GENERIC_KINDS
CHANCES: Mapping[Kind, Mapping[Effort, int]] = {
    "generic": {Effort.GLANCE: 2, Effort.QUICK: 2, Effort.DEFAULT: 4, Effort.THOROUGH: 12},
    "long": {Effort.GLANCE: 1, Effort.QUICK: 2, Effort.DEFAULT: 3, Effort.THOROUGH: 4},
    "panel": dict.fromkeys(Effort, 1)}
"""How many problems of each shape a law of independent roundings is tried on, each with its own values and keywords."""


def fixed_recipes(domain: Domain, limits: Limits, effort: Effort, seed: int,
                  offered: frozenset[str] = frozenset()) -> tuple[Recipe, ...]:
    """The recipes of the kinds that are not searched, none for the others. offered: keywords that the subject takes.

    A statistical clause must not be searched: looking for the worst of many draws would void its false-alarm rate.
    """
    if domain.kind not in FIXED_KINDS:
        return ()
    domain = replace(domain, masks=domain.masks_within(limits))
    shapes = shapes_for(domain, limits, effort)
    if domain.kind in GENERIC_KINDS:
        features = _combinations(sorted(domain.sometimes & offered))
        return tuple(_generic(domain, sizes, features, index, seed)
                     for index, (sizes, _) in enumerate(product(shapes, range(CHANCES[domain.kind][effort]))))
    mask = domain.masks[0] if "mask" in domain.always else "none"
    inputs = "one" if limits.self_attention_only else "separate"
    return tuple(
        Recipe(sizes, domain.families[:1], mask, domain.always, seed % 2**24, inputs=inputs,
               M=model_width(sizes, limits) if domain.is_layer else 0)
        for sizes in shapes)


def _combinations(optional: Sequence[str]) -> tuple[frozenset[str], ...]:
    """No keyword, each alone, then all pairs."""
    return tuple(map(frozenset, chain([()], combinations(optional, 1), combinations(optional, 2))))


def _generic(domain: Domain, sizes: Sizes, features: Sequence[frozenset[str]], index: int, seed: int) -> Recipe:
    """The index-th problem: keywords, masks, scales and the family of the first head all take turns."""
    used = domain.always | features[index % len(features)]
    first = index * sizes.Hkv % len(domain.families)
    return Recipe(
        sizes, (*domain.families[first:], *domain.families[:first]),
        domain.masks[index % len(domain.masks)] if "mask" in used else "none", used, (seed + index) % 2**24,
        bias=domain.biases[index % len(domain.biases)] if "bias" in used else "normal",
        scale=domain.scales[index % len(domain.scales)] if "scale" in used else 1.0,
        values={name: each[index % len(each)] for name, each in domain.values.items() if name in used})
