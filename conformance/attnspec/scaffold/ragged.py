"""Forms of a function whose sequences lie one behind the other: the borders between them are handed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from attnspec.core.forms import BORDERS
from attnspec.core.keywords import COUNTS
from attnspec.problems.keyword_arrays import sample_array
from attnspec.problems.problem import Problem
from attnspec.scaffold.arrangements import PACKED_ARRANGEMENT
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import Binding, CallForm, Site
from attnspec.scaffold.layers import find_array_names, give_arguments, list_given_names, list_lifts
from attnspec.scaffold.lookup import find_parameters
from attnspec.scaffold.meaning import EQUAL_BORDERS, find_roles, list_choices, list_combinations
from attnspec.scaffold.probe_problems import plain_problem
from attnspec.scaffold.trial_adapter import Trier

_BORDER_ROLES: Mapping[str, str] = {"query_ends": "cu_query", "key_ends": "cu_key", "queries": "max_query",
                                    "keys": "max_key"}
"""By what a parameter of theirs means, ours."""


def list_packed_forms(callee: ExaminedCallable, trier: Trier) -> Iterator[CallForm]:
    """Every form of a function that has parameters for the borders of queries and of keys; none for any other."""
    parameters = callee.parameters
    found = {ours: find_parameters(role, parameters)[:1] for role, ours in _BORDER_ROLES.items()}
    passed = tuple(Binding(ours, each.name, ours) for ours, named_so in found.items() for each in named_so)
    if not all(found[border] for border in BORDERS):
        return
    names = find_array_names(parameters)
    known = {*names, *(each.parameter for each in passed)}
    rest = tuple(each for each in parameters if each.name not in known)
    for lift in list_lifts(callee, trier.process):
        form = CallForm(callee.target, lift=lift, bindings=passed, array_names=list_given_names(names, parameters),
                        arrangement=PACKED_ARRANGEMENT)
        for given in list_combinations(list_choices(rest, find_roles(rest, Site.CALL), form.kind, Site.CALL, lift)):
            yield give_arguments(form, rest, given)


def note_ragged_batches(form: CallForm, trier: Trier) -> CallForm:
    """The form, and what is to be said of sequences of unequal lengths: a check judges them where it can."""
    if any(EQUAL_BORDERS in text for text in form.arguments.values()):
        said = "Its sequences are all of one length: ragged batches are not judged."
        return replace(form, remarks=(*form.remarks, said))
    problem = plain_problem(form)
    if not form.is_packed or not isinstance(problem, Problem):
        return form
    lengths = {name: sample_array(name, problem.sizes, problem.dtype) for name in COUNTS}
    trier.nearest = None
    if trier.is_right(form, problem.but(**lengths)):
        return form
    against = trier.nearest.objection if trier.nearest else "its output is another"
    said = f"With sequences of unequal lengths, {against}: attnspec check says what is wrong."
    return replace(form, remarks=(*form.remarks, said))
