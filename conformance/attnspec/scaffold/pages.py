"""Forms of a function that reads keys and values from pages: its table and its lengths are handed on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from attnspec.core.forms import EXPRESSED, HELD_IN_PAGES, NUMBER, TABLE
from attnspec.scaffold.arrangements import PAGES
from attnspec.scaffold.beside import LSE
from attnspec.scaffold.examined import Examined
from attnspec.scaffold.form import At, Form, Passed
from attnspec.scaffold.layers import array_names, lifts_of, named, with_given
from attnspec.scaffold.lookup import theirs
from attnspec.scaffold.meaning import choices, combinations, roles
from attnspec.scaffold.trial_adapter import Trier

MULTIPLES = (1, 16, 256)
"""Of what the slots of a page may have to be a multiple."""


def paged_forms(callee: Examined, trier: Trier) -> Iterator[Form]:
    """Every form of a function that has parameters for a table and for numbers of keys; none for any other."""
    parameters = callee.parameters
    tables, numbers = (theirs(word, parameters) for word in (TABLE, NUMBER))
    if not tables or not numbers:
        return
    passed = (Passed(TABLE, tables[0].name, TABLE), Passed(NUMBER, numbers[0].name, NUMBER))
    names = array_names(parameters)
    known = {*names, *(each.parameter for each in passed)}
    rest = tuple(each for each in parameters if each.name not in known)
    for lift in lifts_of(callee, trier.there):
        form = Form(callee.target, lift=lift, passed=passed, names=named(names, parameters))
        for given in combinations(choices(rest, roles(rest, At.CALL), form.kind, At.CALL, lift)):
            posed = with_given(form, rest, given)
            yield from (replace(posed, arrangement=each, limits=_limits(multiple))
                        for each in PAGES for multiple in MULTIPLES)


def _limits(multiple: int) -> dict[str, bool | int | str]:
    return {} if multiple == 1 else {"page_multiple": multiple}


def may_learn(form: Form, keyword: str) -> bool:
    """Whether a form has a place for a keyword that is not known yet."""
    if form.is_packed:
        return not keyword or (keyword in EXPRESSED and keyword != LSE)
    return not form.parameter(TABLE) or (keyword in HELD_IN_PAGES and keyword != NUMBER) or not keyword
