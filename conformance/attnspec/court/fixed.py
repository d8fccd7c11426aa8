"""Cases that are not searched for: a law of chance is tried once a shape, a documented example is what it is."""

from __future__ import annotations

from attnspec.ground.declaration import Limits
from attnspec.ground.nouns import Effort
from attnspec.problems.domain import Domain
from attnspec.problems.layers import model_width
from attnspec.problems.recipe import Recipe
from attnspec.problems.shapes import shapes_for

FIXED_KINDS = frozenset({"gaussian", "worked_example", "acceptance"})


def fixed_recipes(domain: Domain, limits: Limits, effort: Effort, seed: int) -> tuple[Recipe, ...]:
    """One recipe a shape for the kinds that are not searched, none for the others.

    A statistical clause must not be searched: looking for the worst of many draws would void its false-alarm rate.
    """
    if domain.kind not in FIXED_KINDS:
        return ()
    mask = domain.masks[0] if "mask" in domain.always else "none"
    inputs = "one" if limits.self_attention_only else "separate"
    return tuple(
        Recipe(sizes, domain.families[:1], mask, domain.always, seed % 2**24, inputs=inputs,
               M=model_width(sizes, limits) if domain.is_layer else 0)
        for sizes in shapes_for(domain, limits, effort))
