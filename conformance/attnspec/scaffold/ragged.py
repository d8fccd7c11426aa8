"""Forms of a function whose sequences lie one behind the other: the borders between them are handed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from attnspec.core.forms import BORDERS
from attnspec.core.keywords import COUNTS
from attnspec.problems.keyword_arrays import sample_array
from attnspec.problems.problem import Problem
from attnspec.scaffold.arrangements import ONE_BEHIND_THE_OTHER
from attnspec.scaffold.examined import Examined
from attnspec.scaffold.form import At, CallForm, Passed
from attnspec.scaffold.layers import array_names, lifts_of, named, with_given
from attnspec.scaffold.lookup import theirs
from attnspec.scaffold.meaning import ENDS, choices, combinations, roles
from attnspec.scaffold.probe_problems import plain
from attnspec.scaffold.trial_adapter import Trier

_ROLES: Mapping[str, str] = {"query_ends": "cu_query", "key_ends": "cu_key", "queries": "max_query", "keys": "max_key"}
"""By what a parameter of theirs means, ours."""


def packed_forms(callee: Examined, trier: Trier) -> Iterator[CallForm]:
    """Every form of a function that has parameters for the borders of queries and of keys; none for any other."""
    parameters = callee.parameters
    found = {ours: theirs(role, parameters)[:1] for role, ours in _ROLES.items()}
    passed = tuple(Passed(ours, each.name, ours) for ours, named_so in found.items() for each in named_so)
    if not all(found[border] for border in BORDERS):
        return
    names = array_names(parameters)
    known = {*names, *(each.parameter for each in passed)}
    rest = tuple(each for each in parameters if each.name not in known)
    for lift in lifts_of(callee, trier.there):
        form = CallForm(callee.target, lift=lift, passed=passed, names=named(names, parameters),
                        arrangement=ONE_BEHIND_THE_OTHER)
        for given in combinations(choices(rest, roles(rest, At.CALL), form.kind, At.CALL, lift)):
            yield with_given(form, rest, given)


def with_ragged(form: CallForm, trier: Trier) -> CallForm:
    """The form, and what is to be said of sequences of unequal lengths: a check judges them where it can."""
    if any(ENDS in text for text in form.given.values()):
        said = "Its sequences are all of one length: ragged batches are not judged."
        return replace(form, remarks=(*form.remarks, said))
    problem = plain(form)
    if not form.is_packed or not isinstance(problem, Problem):
        return form
    lengths = {name: sample_array(name, problem.sizes, problem.dtype) for name in COUNTS}
    trier.nearest = None
    if trier.is_right(form, problem.but(**lengths)):
        return form
    against = trier.nearest.against if trier.nearest else "its output is another"
    said = f"With sequences of unequal lengths, {against}: attnspec check says what is wrong."
    return replace(form, remarks=(*form.remarks, said))
