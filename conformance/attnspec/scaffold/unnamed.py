"""Tries parameters whose names say nothing as every keyword, by what they do.

So is a mask tried that hides the rows of queries instead of keys. A warning names what stays
unexplained.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from attnspec.core.forms import CACHE, QUERY_COUNTS
from attnspec.core.keywords import KEYWORDS
from attnspec.scaffold.decoders import learn_cache
from attnspec.scaffold.form import CallForm, Parameters, Site
from attnspec.scaffold.learning import LEARNING_STEPS, hand_on, may_learn_keyword
from attnspec.scaffold.lookup import TheirParameter
from attnspec.scaffold.masks import HIDES_QUERIES, KEY_MASK_LIMITS, read_as_key_mask
from attnspec.scaffold.meaning import find_roles
from attnspec.scaffold.probe_problems import plain_problem
from attnspec.scaffold.trial_adapter import Progress, Trier
from attnspec.scaffold.variants import add_padded_variant

_FLAG_KEYWORDS = frozenset(word.name for word in KEYWORDS.values() if word.annotation == "bool")
_NUMBER_KEYWORDS = frozenset(word.name for word in KEYWORDS.values()
                             if any(isinstance(saying.posed, float | tuple) for saying in word.sayings))
_ARRAY_ROLES = frozenset({"query", "key", "value", "packed", "packed_pair", "context"})
"""Roles that names say of parameters that are not a form's arrays, and so may be anything."""
_HARMLESS_ROLES = frozenset({"dropout", "training", "deterministic", "random_key", "seed",
                             "biases", "batch_first", "place", "length", "batch", "caching"})
"""The roles of parameters that are no part of attention."""
_HARMLESS_NAMES = frozenset({"device", "dtype", "parent", "name"})
"""Names of parameters that say where, in which dtype, and under which name something is made."""
_UNKNOWN_TEXTS = ("None", "False")
"""What a required parameter is given of which nothing is known."""


def learn_unnamed(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds the call's parameters that are understood by trying; a warning names all others."""
    for parameter in _list_unnamed(form, parameters):
        form = _learn_by_trying(form, parameter, trier)
    for parameter in _list_unnamed(form, parameters):
        form = _vary_number(form, parameter, trier)
    for parameter in parameters[Site.CALL]:
        if parameter.name not in {*form.array_names, *form.arguments,
                                  *(each.parameter for each in form.bindings)}:
            form = add_padded_variant(form, parameter, trier)
    untried = _list_untried(form, parameters)
    if not untried:
        return form
    warning = (f"NOT TRIED: {', '.join(untried)}. What "
               f"{'these do' if len(untried) > 1 else 'it does'} could not be found out, and is "
               "not judged.")
    return form.with_warning(warning)


def _list_unnamed(form: CallForm, parameters: Parameters) -> Iterator[TheirParameter]:
    """Lists the parameters of the call of which nothing is known but their defaults."""
    listed = parameters[Site.CALL]
    named = (name for name, role in find_roles(listed, Site.CALL).items() if role not in _ARRAY_ROLES)
    given = (name for name, text in form.arguments.items() if text not in _UNKNOWN_TEXTS)
    known = {*named, *form.array_names, *given, *(each.parameter for each in form.bindings)}
    first = 0 if form.array_names else len(form.arrangement.arguments)
    return (each for each in listed[first:] if each.name not in known)


def _learn_by_trying(form: CallForm, parameter: TheirParameter, trier: Trier) -> CallForm:
    """Adds a parameter as the first keyword that it is right as; else the form stays as it is."""
    loose = replace(form, is_compiled=False)  # or each try would be compiled
    for keyword, learn in LEARNING_STEPS:
        if _may_be_keyword(parameter, keyword) and _has_room(form, keyword):
            tried = learn(loose, {Site.CALL: [replace(parameter, tried_as=keyword)]}, trier)
            if len(tried.bindings) > len(form.bindings):
                return replace(tried, is_compiled=form.is_compiled)
    if parameter.default is not None and not parameter.is_required:
        return form
    stepped = learn_cache(form, (replace(parameter, tried_as=CACHE),), trier)
    may_mask = stepped is form and _has_room(form, "mask")
    on_queries = read_as_key_mask(form, parameter.name, trier) if may_mask else None
    return hand_on(form, (on_queries,), KEY_MASK_LIMITS, HIDES_QUERIES) if on_queries else stepped


_OTHER_NUMBER = 3
"""A number that cuts the few keys of what is tried here into unequal parts."""
_TUNING_NAME = re.compile(r"block|chunk|tile|split|bucket|unroll")
"""Matches the name of a number that says how something is computed, and not what."""


def _vary_number(form: CallForm, parameter: TheirParameter, trier: Trier) -> CallForm:
    """Adds a variant with another number that should change nothing; a warning if it does."""
    number = parameter.default
    if not isinstance(number, int) or isinstance(number, bool) or number <= 1:
        return form
    is_told = bool(_TUNING_NAME.search(parameter.name)) and not form.positional_order
    if not is_told or form.next_cache or parameter.name in form.variants:
        return form
    variant = replace(form, arguments={**form.arguments, parameter.name: str(_OTHER_NUMBER)},
                      variants={})
    wrong = trier.find_wrong(variant, plain_problem(variant))
    if wrong is None:
        return form.with_variant(parameter.name, variant)
    if wrong.progress is not Progress.OTHER_NUMBERS:
        return form
    warning = (f"{parameter.name.upper()}: given {parameter.name}={_OTHER_NUMBER}, "
               f"{wrong.objection}. It should change nothing: attnspec check says what is wrong.")
    return form.with_variant(parameter.name, variant).with_warning(warning)


def _has_room(form: CallForm, keyword: str) -> bool:
    """Says whether a form may have one more keyword."""
    return not form.understands(keyword) and may_learn_keyword(form, keyword)


def _may_be_keyword(parameter: TheirParameter, keyword: str) -> bool:
    """Says whether a parameter's default leaves room for a keyword."""
    if keyword not in KEYWORDS or keyword == QUERY_COUNTS:
        return False
    if isinstance(parameter.default, bool):
        return keyword in _FLAG_KEYWORDS
    if isinstance(parameter.default, int | float | tuple):
        return keyword in _NUMBER_KEYWORDS
    return (parameter.default is None or parameter.is_required) and keyword != "causal"


def _list_untried(form: CallForm, parameters: Parameters) -> list[str]:
    """Lists the parameters to which no check passes anything, those of the call first."""
    known = {*form.unjudged_parameters, *_HARMLESS_NAMES, "training"}
    for at, listed in parameters.items():
        for name, role in find_roles(listed, at).items():
            is_place = role == "place" and at is Site.CALL and "layer" not in name.lower()
            if role in _HARMLESS_ROLES and not is_place:
                known.add(name)
    names = [name for name in form.defaults if name not in known]
    called = {each.name for each in parameters[Site.CALL]}
    return sorted(names, key=lambda name: name not in called)
