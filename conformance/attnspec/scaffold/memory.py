"""A layer's memory: the second input that is its key and value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attnspec.core.nouns import Kind
from attnspec.scaffold.form import CallForm, Site
from attnspec.scaffold.lookup import TheirParameter, find_parameters
from attnspec.scaffold.meaning import find_unknown
from attnspec.scaffold.probe_problems import expect_usual, plain_problem
from attnspec.scaffold.trial_adapter import Trier


def find_query(parameters: Sequence[TheirParameter]) -> str:
    """The name of the first input; empty if there is none."""
    first = (*find_parameters("query", parameters), *(each for each in parameters if each.by_position))
    return next((each.name for each in first), "")


def find_memory(parameters: Sequence[TheirParameter]) -> str:
    """The parameter that takes a memory: its name says so, or it takes keys where none takes values, or it is the one
    of which nothing else is known, and has no default. Empty if there is none.
    """
    query, unknown = find_query(parameters), find_unknown(parameters, Site.CALL)
    others = [each.name for each in unknown if each.name != query]
    named = [each.name for each in find_parameters("context", parameters) if each.name != query]
    named += [each.name for each in find_parameters("key", parameters) if not find_parameters("value", parameters)]
    return next(iter((*named, *others[:len(others) == 1])), "")


def hand_memory(form: CallForm, parameters: Sequence[TheirParameter], trier: Trier) -> CallForm:
    """A layer that is right of its own input, handed a memory if it takes one: a check then tells what is wrong of it.

    Left out, wrong attention to another input would never be judged.
    """
    name = find_memory(parameters)
    if form.kind is not Kind.LAYER or not form.arrangement.is_one or not (name and find_query(parameters)):
        return form
    handed = _give_memory(form, name, find_query(parameters))
    problem = plain_problem(handed)
    answer = trier.answer(handed, problem)
    if answer is None:
        said = f"With another input as its {name} it raises: attention to that is not judged."
        return replace(form, remarks=(*form.remarks, said))
    gap = expect_usual(handed, problem).gap(answer.output.astype(np.float64))[1]
    said = (f"Its {name} is handed another input, but its output is then {gap}: attnspec check says what is wrong. If "
            f"{name} means something else, declare self_attention_only, and take it out of the adapter.")
    return replace(handed, remarks=(*form.remarks, said))


def _give_memory(form: CallForm, memory: str, query: str) -> CallForm:
    """The form that is given the memory beside its query, both by name."""
    limits = {name: limit for name, limit in form.limits.items() if name != "self_attention_only"}
    given = {name: text for name, text in form.arguments.items() if name != memory}
    return replace(form, arrangement=replace(form.arrangement, arguments=("{q}", "{k}")), array_names=(query, memory),
                   arguments=given, limits={**limits, "one_memory": True})
