"""Forms of a function that reads keys and values from pages: its table and its lengths are handed on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from attnspec.core.forms import EXPRESSED, HELD_IN_PAGES, NUMBER, TABLE
from attnspec.core.keywords import KEYWORDS
from attnspec.problems.problem import Problem
from attnspec.scaffold.arrangements import PAGES, PAGES_OF_ONE_QUERY
from attnspec.scaffold.beside import LSE
from attnspec.scaffold.examined import Examined
from attnspec.scaffold.form import At, CallForm, Passed
from attnspec.scaffold.layers import ONE_QUERY, array_names, lifts_of, named, with_given
from attnspec.scaffold.lookup import TheirParameter, plain, theirs
from attnspec.scaffold.meaning import choices, combinations, roles, unknown_ones
from attnspec.scaffold.probe_problems import plain as plain_problem
from attnspec.scaffold.trial_adapter import Trier

MULTIPLES = (1, 16, 256)
"""Of what the slots of a page may have to be a multiple."""

_NUMBERS = ("context_lens", "context_lengths", "seq_lens", "seqlens", "seq_lengths", "sequence_lengths", "kv_seq_lens",
            "kv_seqlens", "seqlens_k", "cache_lens", "ctx_lens", "lengths", "seqused")
"""Names of numbers of keys, beside a table of pages; elsewhere they may mean anything."""
_TABLES = re.compile(r"table|(page|block)_(map|ind|ids|list)|kv_indices")
"""What the name of a table has in it."""
_SLOTS = frozenset({"block_size", "page_size", "page_len", "block_len"})
"""Names of the number of slots of a page."""


def paged_forms(callee: Examined, trier: Trier) -> Iterator[CallForm]:
    """Every form of a function that has parameters for a table and for numbers of keys; none for any other.

    With as many queries as there are, and with one query a sequence, as in decoding.
    """
    parameters = callee.parameters
    for table, number in _read(parameters):
        passed = (Passed(TABLE, table, TABLE), Passed(NUMBER, number, NUMBER))
        names = array_names([each for each in parameters if each.name not in (table, number)])
        known = {*names, table, number}
        rest = tuple(each for each in parameters if each.name not in known)
        for lift in lifts_of(callee, trier.there):
            form = CallForm(callee.target, lift=lift, passed=passed, names=named(names, parameters))
            yield from _in_pages(form, rest)


def _read(parameters: Sequence[TheirParameter]) -> Iterator[tuple[str, str]]:
    """Which parameters may be the table and the numbers of keys: by their names, and else one that has to be given and
    of which nothing else is known.
    """
    told = [each.name for each in (*theirs(TABLE, parameters), *parameters)
            if each in theirs(TABLE, parameters) or _TABLES.search(plain(each.name))]
    for table in list(dict.fromkeys(told))[:1]:
        others = [each for each in parameters if each.name != table]
        named_so = [*theirs(NUMBER, others), *(each for each in others if plain(each.name) in _NUMBERS)]
        unknown = [each for each in unknown_ones(others, At.CALL) if each.name not in array_names(others)]
        yield from ((table, each.name) for each in dict.fromkeys(named_so or unknown))


def _in_pages(form: CallForm, rest: Sequence[TheirParameter]) -> Iterator[CallForm]:
    """The form in every arrangement of pages."""
    slots = {each.name: "key.shape[1]" for each in rest if plain(each.name) in _SLOTS}
    for given in combinations(choices(rest, roles(rest, At.CALL), form.kind, At.CALL, form.lift)):
        posed = with_given(form, rest, {**given, **slots})
        alone = replace(posed, sizes={"T": 1}, remarks=(ONE_QUERY,))
        for known, each in (*product([posed], PAGES), *product([alone], PAGES_OF_ONE_QUERY)):
            yield from (replace(known, arrangement=each, limits=_limits(multiple)) for multiple in MULTIPLES)


def _limits(multiple: int) -> dict[str, bool | int | str]:
    return {} if multiple == 1 else {"page_multiple": multiple}


def with_named_pages(form: CallForm, trier: Trier) -> CallForm:
    """The form with the limit of who fetches all pages of a table, and raises at numbers of no page."""
    rare, problem = KEYWORDS[TABLE].rare, plain_problem(form)
    if rare is None or not form.parameter(TABLE) or not isinstance(problem, Problem):
        return form
    if trier.answer(form, problem.but(**{TABLE: rare.pattern})) is not None or trier.answer(form, problem) is None:
        return form
    said = f"It raises unless every number in its {form.parameter(TABLE)} names a page, also beyond an entry's keys."
    return replace(form, limits={**form.limits, rare.limit: True}, remarks=(*form.remarks, said))


def may_learn(form: CallForm, keyword: str) -> bool:
    """Whether a form has a place for a keyword that is not known yet."""
    if form.is_packed:
        return not keyword or (keyword in EXPRESSED and keyword != LSE)
    return not form.parameter(TABLE) or (keyword in HELD_IN_PAGES and keyword != NUMBER) or not keyword
