"""Spec words and questions about decoders: how a past came into a cache, and full caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from attnspec.core.conventions import UNDEFINED
from attnspec.core.keyword import StepPattern
from attnspec.problems.keyword_arrays import fill_cache, last_keys, split_past
from attnspec.problems.problem import Problem
from attnspec.questions.asker import (
    FAILURES,
    RAISES,
    Asker,
    Failed,
    NotAsked,
    Reply,
    convention_answers,
    declared_convention,
    is_close,
    keyword_question,
    promised_answer,
    show_numbers,
)
from attnspec.questions.inputs import name_band
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
    """A call for whose key the cache has no room does what the subject declares: it is refused
    with a message, or the oldest key is forgotten.
    """
    name, convention = "overfull_cache_follows_convention", scene.conventions.get("overfull_cache", UNDEFINED)
    capacity = _capacity(scene)
    if convention not in {"refuses", "forgets_oldest"}:
        raise OutsideLimits("it does not say what an overfull cache does")
    problem = fill_cache(scene.problem(run), capacity + 1)
    try:
        answer = _answer(scene, problem)
    except SubjectRaised as raised:
        return verdict(name, f"the call was refused with {raised}", broken=raised.is_mute or convention != "refuses")
    except UnusableAnswer as unusable:
        return verdict(name, f"the call was answered, although there is no room: {unusable}", broken=True)
    if convention == "refuses":
        return verdict(name, "the call was answered, although there is no room", broken=True)
    return _compare_answers(
        scene, name, answer, last_keys(problem, capacity), "the last keys, as many as the cache holds")


def full_cache_agrees_with_definition(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """A call whose key takes the last slot of the cache is answered, and by the definition."""
    problem = fill_cache(scene.problem(run), _capacity(scene))
    return _compare_answers(scene, "full_cache_agrees_with_definition", _answer(scene, problem), problem, "all keys")


def _capacity(scene: Scene) -> int:
    """How many keys the cache holds. Raises OutsideLimits if that is undeclared, or too many."""
    capacity = scene.subject.declaration.limits.cache
    if capacity < 2:
        raise OutsideLimits("it declares no number of keys that its cache holds")
    if capacity > LARGEST:
        raise OutsideLimits(f"its cache holds more than {LARGEST} keys")
    return capacity


def _answer(scene: Scene, problem: Problem) -> SubjectAnswer:
    """The subject's answer, whatever its cache is declared to hold."""
    declaration = scene.subject.declaration
    boundless = replace(declaration, limits=replace(declaration.limits, cache=0))
    subject = replace(scene.subject, declaration=boundless)
    if reason := subject.refuses(problem):
        raise OutsideLimits(reason)
    return subject.answer(problem)


def _compare_answers(scene: Scene, name: str, answer: SubjectAnswer, problem: Problem, seen: str) -> Measured:
    expected = scene.evaluator.expect(problem, "", "output")
    output = answer.output.astype(expected.output.dtype)
    return measure(name, output, expected.output, expected.output_allowance, expected.output_claimed[..., None],
                   what=f"the output over {seen}")


TRANSFORMS = (with_steps,)
RELATIONS = (overfull_cache_follows_convention, full_cache_agrees_with_definition)


ALL, NEW = 6, 2
"""S of the problems that are asked, and how many of the keys, and of queries, are new."""


def _steps(asker: Asker) -> Reply:
    """Asks which keys are seen; they weigh the same, and two calls have stored four of them."""
    is_causal = asker.subject.declaration.limits.causal_only
    seen = asker.ask_output(_with_past(asker, asker.make_even(NEW, ALL)).but(cache="halves"))[..., :ALL]
    own = np.tri(NEW, ALL, ALL - NEW, dtype=bool) if is_causal else np.ones((NEW, ALL), bool)
    first, second = np.arange(ALL) < (ALL - NEW) // 2, np.arange(ALL) < ALL - NEW
    groups = {"all": first | True, "last_call": ~first, "first_call": first | ~second, "new_only": ~second,
              "past_only": second}
    return Reply(name_band(seen, {name: visible & own for name, visible in groups.items()}), show_numbers(seen))


def overfull_cache(asker: Asker) -> Reply:
    """Asks what happens to one key more than the cache holds; all keys weigh the same."""
    _check(asker)
    capacity = asker.subject.declaration.limits.cache
    if not capacity:
        return Reply("grows", "it declares no number of keys that its cache holds")
    declaration = asker.subject.declaration
    problem = fill_cache(asker.make_even(1, 2).but(causal=declaration.limits.causal_only), capacity + 1)
    try:
        seen = asker.without_limits(cache=0).ask_output(problem)[0, 0, 0]
    except Failed as failed:
        return failed.reply if failed.reply.answer != RAISES else Reply("refuses", failed.reply.detail)
    # the first of two keys comes up again and again, and the new key is the second
    contents = np.arange(capacity + 1) % 2
    contents[-1] = 1
    is_forgetful = is_close(capacity * seen[:2], np.bincount(contents[1:], minlength=2))
    return Reply("forgets_oldest" if is_forgetful else "unspecified", show_numbers(seen[None]))


def used_cache(asker: Asker) -> Reply:
    """Asks whether a cache may be continued that another call has been handed before."""
    _check(asker)
    sloped = asker.make_sloped(NEW, ALL)
    # what is tried has keys of the opposite sign: so turned, it weighs more than all others wherever it is left
    problem = _with_past(asker, sloped.but(key=-sloped.key))
    first = asker.ask_output(problem)
    try:
        second = asker.ask_output(problem.but(cache="tried_before"))
    except Failed as failed:
        return Reply("changed", failed.reply.detail)
    return Reply("kept" if is_close(first, second) else "changed", show_numbers(second[..., :ALL]))


def _with_past(asker: Asker, problem: Problem) -> Problem:
    """The problem with all keys but the new ones in the past."""
    return split_past(problem.but(causal=asker.subject.declaration.limits.causal_only), ALL - NEW)


def _check(asker: Asker) -> None:
    """Raises NotAsked unless the subject is a decoder."""
    if reason := asker.subject.lacks(frozenset({"cache"})):
        raise NotAsked(reason)


QUESTIONS = (
    keyword_question("cache.steps", {
        "all": "all keys", "last_call": "those of the last call before, and new ones",
        "first_call": "those of the first call, and new ones", "new_only": "new ones only: the cache is ignored",
        "past_only": "those in the cache only", **FAILURES}, _steps, promised_answer("all", "decoder")),
    keyword_question("cache.overfull", convention_answers("overfull_cache"), overfull_cache,
                     declared_convention("overfull_cache")),
    keyword_question("cache.used", convention_answers("used_cache"), used_cache, declared_convention("used_cache")),
)

CONVENTIONS_ASKED: Mapping[str, Callable[[Asker], Reply]] = {
    "overfull_cache": overfull_cache, "used_cache": used_cache}
"""By convention, what finds out what a subject does."""
