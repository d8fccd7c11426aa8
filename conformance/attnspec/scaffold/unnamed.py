"""Parameters whose names say nothing: each is tried as every keyword, by what it does. What stays unexplained is told.

So is a mask that hides the rows of queries where it should hide keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from attnspec.core.forms import ROWS, STATE
from attnspec.core.keywords import KEYWORDS
from attnspec.scaffold.decoders import stepping
from attnspec.scaffold.extended import Parameters
from attnspec.scaffold.form import At, CallForm
from attnspec.scaffold.learning import STEPS, handed_on
from attnspec.scaffold.lookup import TheirParameter
from attnspec.scaffold.meaning import roles
from attnspec.scaffold.padding import with_padding
from attnspec.scaffold.pages import may_learn
from attnspec.scaffold.probe_problems import plain as plain_problem
from attnspec.scaffold.row_masks import OF_KEYS, ON_QUERIES, as_mask_of_keys
from attnspec.scaffold.trial_adapter import Progress, Trier

_FLAGS = frozenset(word.name for word in KEYWORDS.values() if word.annotation == "bool")
_NUMBERS = frozenset(word.name for word in KEYWORDS.values()
                     if any(isinstance(saying.posed, float | tuple) for saying in word.sayings))
_ARRAYS = frozenset({"query", "key", "value", "packed", "packed_pair", "context"})
"""What parameters mean by name alone that are not among a form's arrays, and so may be anything."""
_SAY_NOTHING = frozenset({"dropout", "training", "deterministic", "random_key", "seed", "biases", "batch_first",
                          "place", "length", "batch", "caching"})
"""What parameters mean that are no part of attention."""
_OF_ARRAYS = frozenset({"device", "dtype", "parent", "name"})
"""Names of parameters that say where, in what numbers, and under which name something is made."""
_FOR_WANT_OF_BETTER = ("None", "False")
"""What a parameter is given that has no default and of which nothing is known."""


def with_unnamed(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """The form with every parameter of its call that was understood by what it does, whatever its name; and a warning
    that names all others.
    """
    for parameter in _unnamed(form, parameters):
        form = _understood(form, parameter, trier)
    for parameter in _unnamed(form, parameters):
        form = _with_other_number(form, parameter, trier)
    for parameter in parameters[At.CALL]:
        if parameter.name not in {*form.names, *form.given, *(each.parameter for each in form.passed)}:
            form = with_padding(form, parameter, trier)
    untried = _untried(form, parameters)
    if not untried:
        return form
    warning = (f"NOT TRIED: {', '.join(untried)}. What {'these do' if len(untried) > 1 else 'it does'} could not be "
               "found out, and is not judged.")
    return replace(form, warnings=(warning, *form.warnings))


def _unnamed(form: CallForm, parameters: Parameters) -> Iterator[TheirParameter]:
    """The parameters of the call of which nothing is known but their defaults."""
    listed = parameters[At.CALL]
    named = (name for name, role in roles(listed, At.CALL).items() if role not in _ARRAYS)
    given = (name for name, text in form.given.items() if text not in _FOR_WANT_OF_BETTER)
    known = {*named, *form.names, *given, *(each.parameter for each in form.passed)}
    first = 0 if form.names else len(form.arrangement.arguments)
    return (each for each in listed[first:] if each.name not in known)


def _understood(form: CallForm, parameter: TheirParameter, trier: Trier) -> CallForm:
    """The form with a parameter as the first keyword that it is right as; else the form as it is."""
    loose = replace(form, compiled=False)  # or each try would be compiled
    for keyword, learn in STEPS:
        if _may_be(parameter, keyword) and _has_room(form, keyword):
            tried = learn(loose, {At.CALL: [replace(parameter, tried_as=keyword)]}, trier)
            if len(tried.passed) > len(form.passed):
                return replace(tried, compiled=form.compiled)
    if parameter.default is not None and not parameter.is_required:
        return form
    stepped = stepping(form, (replace(parameter, tried_as=STATE),), trier)
    may_mask = stepped is form and _has_room(form, "mask")
    on_queries = as_mask_of_keys(form, parameter.name, trier) if may_mask else None
    return handed_on(form, (on_queries,), OF_KEYS, ON_QUERIES) if on_queries else stepped


_OTHER_NUMBER = 3
"""A number that cuts the few keys of what is tried here into unequal parts."""
_TUNES = re.compile(r"block|chunk|tile|split|bucket|unroll")
"""What the name of a number has in it that says how something is computed, and not what."""


def _with_other_number(form: CallForm, parameter: TheirParameter, trier: Trier) -> CallForm:
    """The form with a variant that is given another whole number, where the name of a parameter says that it changes
    nothing; and a warning where it does.
    """
    is_number = isinstance(parameter.default, int) and not isinstance(parameter.default, bool) and parameter.default > 1
    is_told = bool(_TUNES.search(parameter.name)) and not form.by_position
    if not is_number or not is_told or form.next_cache or parameter.name in form.variants:
        return form
    variant = replace(form, given={**form.given, parameter.name: str(_OTHER_NUMBER)}, variants={})
    trier.nearest = None
    if trier.is_right(variant, plain_problem(variant)):
        return replace(form, variants={**form.variants, parameter.name: variant})
    if trier.nearest is None or trier.nearest.step is not Progress.OTHER_NUMBERS:
        return form
    warning = (f"{parameter.name.upper()}: given {parameter.name}={_OTHER_NUMBER}, {trier.nearest.against}. It should "
               "change nothing: attnspec check says what is wrong.")
    return replace(form, variants={**form.variants, parameter.name: variant}, warnings=(warning, *form.warnings))


def _has_room(form: CallForm, keyword: str) -> bool:
    """Whether a form may have a keyword more."""
    return not form.understands(keyword) and may_learn(form, keyword)


def _may_be(parameter: TheirParameter, keyword: str) -> bool:
    """Whether its default leaves room for a keyword. By numbers of queries nothing is asked of the other rows, so that
    whoever ignores them is right, too.
    """
    if keyword not in KEYWORDS or keyword == ROWS:
        return False
    if isinstance(parameter.default, bool):
        return keyword in _FLAGS
    if isinstance(parameter.default, int | float | tuple):
        return keyword in _NUMBERS
    return (parameter.default is None or parameter.is_required) and keyword != "causal"


def _is_place(name: str, role: str, at: At) -> bool:
    """Whether a parameter of a call says where in a sequence it stands, and not which layer of a model it is."""
    return role == "place" and at is At.CALL and "layer" not in name.lower()


def _untried(form: CallForm, parameters: Parameters) -> list[str]:
    """The parameters to which no check hands anything, by name: those of the call first."""
    harmless = {name for at, listed in parameters.items() for name, role in roles(listed, at).items()
                if role in _SAY_NOTHING and not _is_place(name, role, at)}
    names = [name for name in form.defaults if name not in {*harmless, *form.unjudged, *_OF_ARRAYS, "training"}]
    called = {each.name for each in parameters[At.CALL]}
    return sorted(names, key=lambda name: name not in called)
