"""The words of the spec language that are about decoders: how the past came into a cache, and what a full one does."""

from __future__ import annotations

from dataclasses import replace

from attnspec.core.conventions import UNDEFINED
from attnspec.core.keyword import StepPattern
from attnspec.problems.keyword_arrays import filled, last_keys
from attnspec.problems.problem import Problem
from attnspec.record.outcome import Measured
from attnspec.subjects.subject import SubjectAnswer, SubjectRaised, UnusableAnswer
from attnspec.vocabulary.observables import measure, verdict
from attnspec.vocabulary.scene import OutsideLimits, Scene
from attnspec.vocabulary.signature import ORIGINAL, RunName
from attnspec.vocabulary.transforms.axes import Attention

LARGEST = 4096
"""Slots of a cache that is filled to its end."""


def with_steps(posed: Attention, *, to: StepPattern) -> Attention:
    """Store the same past in other calls. `tried_before` is put only to decoders that leave a used cache as it was."""
    if to == "tried_before" and posed.conventions.get("used_cache", UNDEFINED) != "kept":
        raise OutsideLimits("it does not promise that a cache can be continued a second time")
    return posed.but(cache=to)


def overfull_cache_follows_convention(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """A call for whose key the cache has no room does what the subject declares: it is refused with a message, or the
    oldest key is forgotten.
    """
    name, convention = "overfull_cache_follows_convention", scene.conventions.get("overfull_cache", UNDEFINED)
    capacity = _capacity(scene)
    if convention not in {"refuses", "forgets_oldest"}:
        raise OutsideLimits("it does not say what an overfull cache does")
    problem = filled(scene.problem(run), capacity + 1)
    try:
        answer = _answer(scene, problem)
    except SubjectRaised as raised:
        return verdict(name, f"the call was refused with {raised}", broken=raised.is_mute or convention != "refuses")
    except UnusableAnswer as unusable:
        return verdict(name, f"the call was answered, although there is no room: {unusable}", broken=True)
    if convention == "refuses":
        return verdict(name, "the call was answered, although there is no room", broken=True)
    return _compared(scene, name, answer, last_keys(problem, capacity), "the last keys, as many as the cache holds")


def full_cache_agrees_with_definition(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """A call whose key takes the last slot of the cache is answered, and by the definition."""
    problem = filled(scene.problem(run), _capacity(scene))
    return _compared(scene, "full_cache_agrees_with_definition", _answer(scene, problem), problem, "all keys")


def _capacity(scene: Scene) -> int:
    """How many keys the cache holds. Raises OutsideLimits where nobody says it, and for more than are made."""
    capacity = scene.subject.declaration.limits.cache
    if capacity < 2:
        raise OutsideLimits("it declares no number of keys that its cache holds")
    if capacity > LARGEST:
        raise OutsideLimits(f"its cache holds more than {LARGEST} keys")
    return capacity


def _answer(scene: Scene, problem: Problem) -> SubjectAnswer:
    """What the subject makes of it, whatever its cache is declared to hold."""
    declaration = scene.subject.declaration
    boundless = replace(declaration, limits=replace(declaration.limits, cache=0))
    subject = replace(scene.subject, declaration=boundless)
    if reason := subject.refuses(problem):
        raise OutsideLimits(reason)
    return subject.answer(problem)


def _compared(scene: Scene, name: str, answer: SubjectAnswer, problem: Problem, seen: str) -> Measured:
    expected = scene.evaluator.expect(problem, "", "output")
    output = answer.output.astype(expected.output.dtype)
    return measure(name, output, expected.output, expected.output_allowance, expected.output_claimed[..., None],
                   what=f"the output over {seen}")


TRANSFORMS = (with_steps,)
RELATIONS = (overfull_cache_follows_convention, full_cache_agrees_with_definition)
