"""A callee that hands its cache back is called step after step: which parameter takes it, and where it is returned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from attnspec.core.forms import BESIDE_CACHE, STATE
from attnspec.core.nouns import Kind
from attnspec.problems.caches import divided
from attnspec.problems.problem import Problem
from attnspec.scaffold.form import CallForm, Passed
from attnspec.scaffold.lookup import TheirParameter, plain, theirs
from attnspec.scaffold.probe_problems import CROSS, problem_of
from attnspec.scaffold.trial_adapter import Attempt, Progress, Trier

_NAMES = re.compile(r"cache|past|state|memory|^kv")
"""What the name of a parameter has in it that is a cache."""
PATHS = ("[-1]", "[1]", ".cache", ".past_key_values", ".past_key_value", '["cache"]')
"""Where in an answer a cache may be, the likeliest first."""

EQUAL = {"past_lengths": "equal"}


def stepping(form: CallForm, called: tuple[TheirParameter, ...], trier: Trier) -> CallForm:
    """The form as a decoder, if it is right behind what its last call handed back; else the form as it is. One that
    answers behind it, wrongly, is a decoder too: a check tells why, if the name of its parameter says that it is one.
    """
    if form.reading is None or form.arrangement.mapped or not set(form.keywords) <= BESIDE_CACHE:
        return form
    trier.nearest = None
    found = next((each for each in _decoders(form, called) if _is_right(each, trier)), None)
    if found is None:
        return _at_nearest(form, called, trier.nearest)
    is_free = not form.attends_to_itself and _is_right(found, trier, past=CROSS.S - CROSS.T - 1)
    return found if is_free or form.attends_to_itself else replace(found, limits={**found.limits, **EQUAL})


def _at_nearest(form: CallForm, called: tuple[TheirParameter, ...], nearest: Attempt | None) -> CallForm:
    """The nearest of the wrong decoders; the form as it is where none has answered, or no name says that it is one."""
    names = [each.name for each in theirs(STATE, called) if not each.tried_as or _NAMES.search(plain(each.name))]
    if not names or nearest is None or nearest.form.parameter(STATE) not in names:
        return form
    if nearest.step is not Progress.OTHER_NUMBERS:
        warning = (f"NOT JUDGED: {names[0]}. It could not be used as `{STATE}`: behind what a call hands back, "
                   f"{nearest.against}.")
        return replace(form, warnings=(*form.warnings, warning), demanded=(*form.demanded, STATE))
    said = (f"Its {names[0]} is handed on as `{STATE}`, but behind what a call hands back {nearest.against}: attnspec "
            f"check says what is wrong. If {names[0]} means something else, take it out of the adapter.")
    limits = {**nearest.form.limits, **({} if form.attends_to_itself else EQUAL)}
    return replace(nearest.form, limits=limits, remarks=(*form.remarks, said))


def _decoders(form: CallForm, called: tuple[TheirParameter, ...]) -> Iterator[CallForm]:
    """With each parameter that may be a cache, and each place where the next one may be."""
    limits = {**form.limits, **({"self_attention_only": True} if form.attends_to_itself else {})}
    for parameter in theirs(STATE, called):
        passed = (*form.passed, Passed(STATE, parameter.name, STATE))
        given = {name: text for name, text in form.given.items() if name != parameter.name or form.by_position}
        for path in PATHS:
            yield from (replace(form, passed=passed, given=given, cache=path, compiled=compiled, limits=limits)
                        for compiled in dict.fromkeys((form.compiled, False)))


def _is_right(form: CallForm, trier: Trier, past: int = CROSS.S - CROSS.T) -> bool:
    """Whether it is right with a past: of as many new keys as queries, unless another number is past."""
    sizes = replace(CROSS, **{axis: length for axis, length in form.sizes.items() if axis in ("D", "Dv")})
    sizes = replace(sizes, H=1, Hkv=1) if form.limits.get("single_head") else sizes
    problem = problem_of(Kind.ATTENTION, sizes, form.dtype)
    assert isinstance(problem, Problem)  # it is what was asked for
    posed = divided(problem.but(causal=bool(form.limits.get("causal_only"))), past)
    scale = trier.subject(form).scale_width(posed)**-0.5 if form.kind is Kind.LAYER else None
    return trier.is_right(form, posed, scale)
