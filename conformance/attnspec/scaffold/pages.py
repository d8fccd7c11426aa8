"""Forms of a function that reads keys and values from pages: its table and its lengths are handed on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from attnspec.core.forms import EXPRESSED, HELD_IN_PAGES, NUMBER, TABLE
from attnspec.core.keywords import KEYWORDS
from attnspec.problems.problem import Problem
from attnspec.scaffold.arrangements import ONE_QUERY_PAGE_ARRANGEMENTS, PAGE_ARRANGEMENTS
from attnspec.scaffold.beside import LSE_KEYWORD
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import Binding, CallForm, Site
from attnspec.scaffold.layers import ONE_QUERY_REMARK, find_array_names, give_arguments, list_given_names, list_lifts
from attnspec.scaffold.lookup import TheirParameter, find_parameters, normalise_name
from attnspec.scaffold.meaning import find_roles, find_unknown, list_choices, list_combinations
from attnspec.scaffold.probe_problems import plain_problem
from attnspec.scaffold.trial_adapter import Trier

PAGE_MULTIPLES = (1, 16, 256)
"""Of what the slots of a page may have to be a multiple."""

_KEY_COUNT_NAMES = ("context_lens", "context_lengths", "seq_lens", "seqlens", "seq_lengths", "sequence_lengths",
                    "kv_seq_lens",
                    "kv_seqlens", "seqlens_k", "cache_lens", "ctx_lens", "lengths", "seqused")
"""Names of numbers of keys, beside a table of pages; elsewhere they may mean anything."""
_TABLE_NAME = re.compile(r"table|(page|block)_(map|ind|ids|list)|kv_indices")
"""What the name of a table has in it."""
_SLOT_NAMES = frozenset({"block_size", "page_size", "page_len", "block_len"})
"""Names of the number of slots of a page."""


def list_paged_forms(callee: ExaminedCallable, trier: Trier) -> Iterator[CallForm]:
    """Every form of a function that has parameters for a table and for numbers of keys; none for any other.

    With as many queries as there are, and with one query a sequence, as in decoding.
    """
    parameters = callee.parameters
    for table, number in _find_table_and_counts(parameters):
        passed = (Binding(TABLE, table, TABLE), Binding(NUMBER, number, NUMBER))
        names = find_array_names([each for each in parameters if each.name not in (table, number)])
        known = {*names, table, number}
        rest = tuple(each for each in parameters if each.name not in known)
        for lift in list_lifts(callee, trier.process):
            form = CallForm(callee.target, lift=lift, bindings=passed, array_names=list_given_names(names, parameters))
            yield from _list_page_arrangements(form, rest)


def _find_table_and_counts(parameters: Sequence[TheirParameter]) -> Iterator[tuple[str, str]]:
    """Which parameters may be the table and the numbers of keys: by their names, and else one that has to be given and
    of which nothing else is known.
    """
    told = [each.name for each in (*find_parameters(TABLE, parameters), *parameters)
            if each in find_parameters(TABLE, parameters) or _TABLE_NAME.search(normalise_name(each.name))]
    for table in list(dict.fromkeys(told))[:1]:
        others = [each for each in parameters if each.name != table]
        named_so = [*find_parameters(NUMBER, others),
                    *(each for each in others if normalise_name(each.name) in _KEY_COUNT_NAMES)]
        unknown = [each for each in find_unknown(others, Site.CALL) if each.name not in find_array_names(others)]
        yield from ((table, each.name) for each in dict.fromkeys(named_so or unknown))


def _list_page_arrangements(form: CallForm, rest: Sequence[TheirParameter]) -> Iterator[CallForm]:
    """The form in every arrangement of pages."""
    slots = {each.name: "key.shape[1]" for each in rest if normalise_name(each.name) in _SLOT_NAMES}
    for given in list_combinations(list_choices(rest, find_roles(rest, Site.CALL), form.kind, Site.CALL, form.lift)):
        posed = give_arguments(form, rest, {**given, **slots})
        alone = replace(posed, sizes={"T": 1}, remarks=(ONE_QUERY_REMARK,))
        for known, each in (*product([posed], PAGE_ARRANGEMENTS), *product([alone], ONE_QUERY_PAGE_ARRANGEMENTS)):
            yield from (replace(known, arrangement=each, limits=_page_limits(multiple)) for multiple in PAGE_MULTIPLES)


def _page_limits(multiple: int) -> dict[str, bool | int | str]:
    return {} if multiple == 1 else {"page_multiple": multiple}


def limit_to_named_pages(form: CallForm, trier: Trier) -> CallForm:
    """The form with the limit of who fetches all pages of a table, and raises at numbers of no page."""
    rare, problem = KEYWORDS[TABLE].rare, plain_problem(form)
    if rare is None or not form.parameter_for(TABLE) or not isinstance(problem, Problem):
        return form
    if trier.answer(form, problem.but(**{TABLE: rare.pattern})) is not None or trier.answer(form, problem) is None:
        return form
    said = (f"It raises unless every number in its {form.parameter_for(TABLE)} names a page, also beyond an "
            "entry's keys.")
    return replace(form, limits={**form.limits, rare.limit: True}, remarks=(*form.remarks, said))


def may_learn_keyword(form: CallForm, keyword: str) -> bool:
    """Whether a form has a place for a keyword that is not known yet."""
    if form.is_packed:
        return not keyword or (keyword in EXPRESSED and keyword != LSE_KEYWORD)
    return not form.parameter_for(TABLE) or (keyword in HELD_IN_PAGES and keyword != NUMBER) or not keyword
