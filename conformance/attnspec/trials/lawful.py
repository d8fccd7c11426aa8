"""A drawn case without the keywords that the subject does not take there."""

from __future__ import annotations

from dataclasses import replace

from attnspec.core.conventions import UNDEFINED, unfound
from attnspec.core.declaration import Limits, with_groups
from attnspec.problems.domain import Domain
from attnspec.problems.recipe import Recipe
from attnspec.trials.evaluator import Evaluator
from attnspec.vocabulary.scene import OutsideLimits


def lawful(recipe: Recipe, domain: Domain, evaluator: Evaluator) -> Recipe:
    """The causal flag is not put where lengths forbid it, nor beside mask or bias to a subject that refuses both or
    promises nothing; nor is any keyword where it is refused. Raises OutsideLimits where the clause needs both.
    """
    limits = evaluator.subject.declaration.limits
    recipe = _of_refusals(_of_causal_lengths(recipe, domain, limits), domain, limits)
    together = {"mask", "bias"} & recipe.features and "causal" in recipe.features
    if not together or evaluator.conventions.get("mask_with_causal") not in {"raises", "undefined"}:
        return recipe
    for spare in ({"causal"}, {"mask", "bias"}):
        if not spare & domain.always:
            return replace(recipe, features=recipe.features - spare)
    raise OutsideLimits(_refused_together(evaluator))


def _refused_together(evaluator: Evaluator) -> str:
    subject, name = evaluator.subject, "mask_with_causal"
    if name not in subject.declaration.conventions and evaluator.conventions[name] == UNDEFINED:
        return unfound(name, subject.id)
    return "it does not say what mask or bias do together with the causal flag"


def _of_causal_lengths(recipe: Recipe, domain: Domain, limits: Limits) -> Recipe:
    """Without the causal flag where the subject takes it at other lengths only, unless the clause needs it."""
    is_spare = "causal" in recipe.features - domain.always
    if is_spare and not limits.takes_lengths(recipe.sizes.T, recipe.sizes.S, causal=True):
        return replace(recipe, features=recipe.features - {"causal"})
    return recipe


def _of_refusals(recipe: Recipe, domain: Domain, limits: Limits) -> Recipe:
    """Without the keywords that the subject refuses beside others or at these sizes, unless the clause needs them."""
    for each in limits.refuses:
        if each.meets(with_groups(recipe.sizes.by_axis), recipe.features):
            recipe = replace(recipe, features=recipe.features - (each.keywords - domain.always))
    return recipe
