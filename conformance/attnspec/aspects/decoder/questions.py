"""What a probe asks about caches of decoders: what they hold, and what happens where they are full, or used twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.core.conventions import CONVENTIONS, UNDEFINED
from attnspec.problems.keyword_arrays import divided, filled
from attnspec.problems.problem import Problem
from attnspec.questions.asker import (
    FAILURES,
    RAISES,
    Asker,
    Failed,
    NotAsked,
    Reply,
    convention,
    is_close,
    keyword_question,
    promised,
    shown,
)
from attnspec.questions.masks import band

ALL, NEW = 6, 2
"""S of the problems that are asked, and how many of the keys are new. There are as many queries."""


def _steps(asker: Asker) -> Reply:
    """Of keys that weigh the same, four of which two calls have stored."""
    is_causal = asker.subject.declaration.limits.causal_only
    seen = asker.output(_with_past(asker, asker.even(NEW, ALL)).but(cache="halves"))[..., :ALL]
    own = np.tri(NEW, ALL, ALL - NEW, dtype=bool) if is_causal else np.ones((NEW, ALL), bool)
    first, second = np.arange(ALL) < (ALL - NEW) // 2, np.arange(ALL) < ALL - NEW
    groups = {"all": first | True, "last_call": ~first, "first_call": first | ~second, "new_only": ~second,
              "past_only": second}
    return Reply(band(seen, {name: visible & own for name, visible in groups.items()}), shown(seen))


def overfull_cache(asker: Asker) -> Reply:
    """Of keys that weigh the same, one more than the cache holds."""
    _check(asker)
    capacity = asker.subject.declaration.limits.cache
    if not capacity:
        return Reply("grows", "it declares no number of keys that its cache holds")
    try:
        seen = asker.without_limits(cache=0).output(
            filled(asker.even(1, 2).but(causal=asker.subject.declaration.limits.causal_only), capacity + 1))[0, 0, 0]
    except Failed as failed:
        return failed.reply if failed.reply.answer != RAISES else Reply("refuses", failed.reply.detail)
    # the first of two keys comes up again and again, and the new key is the second
    kept = np.arange(capacity + 1) % 2
    kept[-1] = 1
    forgetful = is_close(capacity * seen[:2], np.bincount(kept[1:], minlength=2))
    return Reply("forgets_oldest" if forgetful else "unspecified", shown(seen[None]))


def used_cache(asker: Asker) -> Reply:
    """The same call behind a cache that another call was handed before."""
    _check(asker)
    sloped = asker.sloped(NEW, ALL)
    # what is tried has keys of the opposite sign: so turned, it weighs more than all others wherever it is left
    problem = _with_past(asker, sloped.but(key=-sloped.key))
    first = asker.output(problem)
    try:
        second = asker.output(problem.but(cache="tried_before"))
    except Failed as failed:
        return Reply("changed", failed.reply.detail)
    return Reply("kept" if is_close(first, second) else "changed", shown(second[..., :ALL]))


def _with_past(asker: Asker, problem: Problem) -> Problem:
    """All keys but the new ones are past; what is always causal is so here."""
    return divided(problem.but(causal=asker.subject.declaration.limits.causal_only), ALL - NEW)


def _check(asker: Asker) -> None:
    """Raise NotAsked of anything but a decoder."""
    if reason := asker.subject.lacks(frozenset({"cache"})):
        raise NotAsked(reason)


def _answers(name: str) -> dict[str, str]:
    return {**{answer: says for answer, says in CONVENTIONS[name].answers.items() if answer != UNDEFINED}, **FAILURES}


QUESTIONS = (
    keyword_question("cache.steps", {
        "all": "all keys", "last_call": "those of the last call before, and new ones",
        "first_call": "those of the first call, and new ones", "new_only": "new ones only: the cache is ignored",
        "past_only": "those in the cache only", **FAILURES}, _steps, promised("all", "decoder")),
    keyword_question("cache.overfull", _answers("overfull_cache"), overfull_cache,
             convention("overfull_cache")),
    keyword_question("cache.used", _answers("used_cache"), used_cache, convention("used_cache")),
)

CONVENTIONS_ASKED: Mapping[str, Callable[[Asker], Reply]] = {
    "overfull_cache": overfull_cache, "used_cache": used_cache}
"""By convention, what finds out what a subject does."""
