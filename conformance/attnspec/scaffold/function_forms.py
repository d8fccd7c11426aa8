"""Lists the forms that a function on arrays may have.

Its arrays come apart or together in every arrangement, packed with the borders between sequences,
or with keys and values in pages beside their table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from attnspec.core.forms import BORDERS, KEY_COUNTS, TABLE
from attnspec.core.keywords import COUNTS, KEYWORDS
from attnspec.host.lifts import LIFTS
from attnspec.problems.keyword_arrays import sample_array
from attnspec.problems.problem import Problem
from attnspec.scaffold.arrangements import (
    ONE_QUERY_ARRANGEMENTS,
    ONE_QUERY_PAGE_ARRANGEMENTS,
    PACKED_ARRANGEMENT,
    PAGE_ARRANGEMENTS,
    list_arrangements,
)
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import Binding, CallForm, Site
from attnspec.scaffold.lookup import TheirParameter, find_parameters, normalise_name
from attnspec.scaffold.meaning import EQUAL_BORDERS, find_roles, find_unknown, list_choices, list_combinations
from attnspec.scaffold.probe_problems import plain_problem
from attnspec.scaffold.trial_adapter import Progress, Trier

LIST_NAMES = ("inputs", "input")
ONE_QUERY_REMARK = "It takes one query a sequence only: T = 1."


def list_function_forms(callee: ExaminedCallable, trier: Trier) -> Iterator[CallForm]:
    """Lists every form of a function that is worth a try, the likeliest first."""
    lifts = list_lifts(callee, trier.process)
    for lift in lifts:
        yield from list_array_forms(CallForm(callee.target, lift=lift), callee.parameters)
    for lift in lifts if trier.nearest is None or trier.nearest.progress is not Progress.OTHER_NUMBERS else ():
        yield from _list_one_query_forms(CallForm(callee.target, lift=lift), callee.parameters)


def _list_one_query_forms(form: CallForm, parameters: Sequence[TheirParameter]) -> Iterator[CallForm]:
    """Lists the forms without an axis of queries, for what answers nothing else."""
    names = find_array_names(parameters)
    rest = tuple(each for each in parameters if each.name not in names)
    for given in list_combinations(list_choices(rest, find_roles(rest, Site.CALL), form.kind, Site.CALL, form.lift)):
        alone = replace(give_arguments(form, rest, given), sizes={"T": 1},
                        remarks=(*form.remarks, ONE_QUERY_REMARK))
        for arrangement in ONE_QUERY_ARRANGEMENTS if len(names) == 3 else ():  # query, key and value
            yield replace(alone, arrangement=arrangement, array_names=list_given_names(names, parameters))


def list_lifts(callee: ExaminedCallable, process: CalleeProcess) -> tuple[str, ...]:
    """Lists the frameworks whose tensors it may take: those its module mentions, else all."""
    root = callee.module.partition(".")[0]
    meant = [lift for lift in LIFTS if lift in (root, *callee.packages)]
    present = [] if meant else ["", *(lift for lift in LIFTS if process.has_module(lift))]
    return tuple(dict.fromkeys((*meant, *present, "")))


def list_array_forms(form: CallForm, parameters: Sequence[TheirParameter]) -> Iterator[CallForm]:
    """Lists the form with its arrays in every arrangement, and other parameters by their names."""
    names = find_array_names(parameters)
    rest = tuple(each for each in parameters if each.name not in names)
    in_list = len(names) == 1 and names[0] in LIST_NAMES
    options = list_choices(rest, find_roles(rest, Site.CALL), form.kind, Site.CALL, form.lift)
    for given in list_combinations(options):
        known = give_arguments(form, rest, given)
        for arrangement in list_arrangements(form.kind, len(names), in_list=in_list):
            yield replace(known, arrangement=arrangement, array_names=list_given_names(names, parameters))


def give_arguments(form: CallForm, rest: Sequence[TheirParameter],
                   given: Mapping[str, str]) -> CallForm:
    """Passes these arguments, and leaves the rest at their defaults."""
    left = {each.name: each.text for each in rest if each.name not in given and not each.is_required}
    only_by_position = any(each.kind is each.kind.POSITIONAL_ONLY for each in rest)
    if not only_by_position:
        return replace(form, arguments=given, left_defaults={**form.left_defaults, **left})
    everything = {each.name: given.get(each.name) or each.text or "None" for each in rest}
    return replace(form, arguments=everything, positional_order=tuple(everything))


def find_array_names(parameters: Sequence[TheirParameter]) -> tuple[str, ...]:
    """Returns the array parameters: query, key and value, or fewer that hold them."""
    query, key, value = (find_parameters(word, parameters) for word in ("query", "key", "value"))
    packed, pair = find_parameters("packed", parameters), find_parameters("packed_pair", parameters)
    if query and key and value:
        return query[0].name, key[0].name, value[0].name
    if packed:
        return (packed[0].name,)
    if query and pair:
        return query[0].name, pair[0].name
    if query and query[0].name in LIST_NAMES:
        return (query[0].name,)
    return tuple(each.name for each in parameters if each.by_position)[:3]


STARRED_NAMES = ("",)
"""The name of the one input of what takes it by `*args`."""


def list_given_names(names: Sequence[str], parameters: Sequence[TheirParameter]) -> tuple[str, ...]:
    """Returns the names by which arrays are given; none if positions do, in our order."""
    if tuple(names) == STARRED_NAMES:
        return ()
    first = parameters[:len(names)]
    is_usual = tuple(each.name for each in first) == tuple(names) and all(each.by_position for each in first)
    return () if is_usual else tuple(names)


_BORDER_ROLES: Mapping[str, str] = {"query_ends": "cu_query", "key_ends": "cu_key",
                                    "queries": "max_query", "keys": "max_key"}
"""By what a parameter of theirs means, ours."""


def list_packed_forms(callee: ExaminedCallable, trier: Trier) -> Iterator[CallForm]:
    """Lists the forms of a function with parameters for the borders of queries and of keys."""
    parameters = callee.parameters
    found = {ours: find_parameters(role, parameters)[:1] for role, ours in _BORDER_ROLES.items()}
    passed = tuple(Binding(ours, each.name, ours) for ours, named_so in found.items() for each in named_so)
    if not all(found[border] for border in BORDERS):
        return
    names = find_array_names(parameters)
    known = {*names, *(each.parameter for each in passed)}
    rest = tuple(each for each in parameters if each.name not in known)
    for lift in list_lifts(callee, trier.process):
        form = CallForm(callee.target, lift=lift, bindings=passed,
                        array_names=list_given_names(names, parameters),
                        arrangement=PACKED_ARRANGEMENT)
        for given in list_combinations(list_choices(rest, find_roles(rest, Site.CALL), form.kind, Site.CALL, lift)):
            yield give_arguments(form, rest, given)


def note_ragged_batches(form: CallForm, trier: Trier) -> CallForm:
    """Adds a remark on sequences of unequal lengths, which a check judges where it can."""
    if any(EQUAL_BORDERS in text for text in form.arguments.values()):
        said = "Its sequences are all of one length: ragged batches are not judged."
        return form.with_remarks(said)
    problem = plain_problem(form)
    if not form.is_packed or not isinstance(problem, Problem):
        return form
    lengths = {name: sample_array(name, problem.sizes, problem.dtype) for name in COUNTS}
    wrong = trier.find_wrong(form, problem.but(**lengths))
    if wrong is None:
        return form
    said = f"With sequences of unequal lengths, {wrong.objection}: attnspec check says what is wrong."
    return form.with_remarks(said)


PAGE_MULTIPLES = (16, 256)
"""Of what the slots of a page may have to be a multiple."""

_KEY_COUNT_NAMES = ("context_lens", "context_lengths", "seq_lens", "seqlens", "seq_lengths",
                    "sequence_lengths", "kv_seq_lens", "kv_seqlens", "seqlens_k", "cache_lens",
                    "ctx_lens", "lengths", "seqused")
"""Names of numbers of keys beside a table of pages; elsewhere they may mean anything."""
_TABLE_NAME = re.compile(r"table|(page|block)_(map|ind|ids|list)|kv_indices")
_SLOT_NAMES = frozenset({"block_size", "page_size", "page_len", "block_len"})
"""Names of the number of slots of a page."""


def list_paged_forms(callee: ExaminedCallable, trier: Trier) -> Iterator[CallForm]:
    """Lists the forms of a function with parameters for a table and for numbers of keys. Each is
    tried with any number of queries, and with one query a sequence, as in decoding.
    """
    parameters = callee.parameters
    for table, number in _find_table_and_counts(parameters):
        passed = (Binding(TABLE, table, TABLE), Binding(KEY_COUNTS, number, KEY_COUNTS))
        names = find_array_names([each for each in parameters if each.name not in (table, number)])
        known = {*names, table, number}
        rest = tuple(each for each in parameters if each.name not in known)
        for lift in list_lifts(callee, trier.process):
            form = CallForm(callee.target, lift=lift, bindings=passed,
                            array_names=list_given_names(names, parameters))
            yield from _list_page_arrangements(form, rest)


def _find_table_and_counts(parameters: Sequence[TheirParameter]) -> Iterator[tuple[str, str]]:
    """Lists possible tables and numbers of keys, by names or as unknown parameters."""
    told = [each.name for each in (*find_parameters(TABLE, parameters), *parameters)
            if each in find_parameters(TABLE, parameters) or _TABLE_NAME.search(normalise_name(each.name))]
    for table in list(dict.fromkeys(told))[:1]:
        others = [each for each in parameters if each.name != table]
        named_so = [*find_parameters(KEY_COUNTS, others),
                    *(each for each in others if normalise_name(each.name) in _KEY_COUNT_NAMES)]
        unknown = [each for each in find_unknown(others, Site.CALL) if each.name not in find_array_names(others)]
        for each in dict.fromkeys(named_so or unknown):
            yield table, each.name


def _list_page_arrangements(form: CallForm, rest: Sequence[TheirParameter]) -> Iterator[CallForm]:
    slots = {each.name: "key.shape[1]" for each in rest if normalise_name(each.name) in _SLOT_NAMES}
    for given in list_combinations(list_choices(rest, find_roles(rest, Site.CALL), form.kind, Site.CALL, form.lift)):
        posed = give_arguments(form, rest, {**given, **slots})
        alone = replace(posed, sizes={"T": 1}, remarks=(ONE_QUERY_REMARK,))
        for known, each in (*product([posed], PAGE_ARRANGEMENTS),
                            *product([alone], ONE_QUERY_PAGE_ARRANGEMENTS)):
            yield replace(known, arrangement=each, limits={})
            for multiple in PAGE_MULTIPLES:
                yield replace(known, arrangement=each, limits={"page_multiple": multiple})


def limit_to_named_pages(form: CallForm, trier: Trier) -> CallForm:
    """Adds the limit of a callee that fetches all pages of a table and raises at unnamed ones."""
    rare, problem = KEYWORDS[TABLE].rare, plain_problem(form)
    if rare is None or not form.parameter_for(TABLE) or not isinstance(problem, Problem):
        return form
    if trier.answer(form, problem.but(**{TABLE: rare.pattern})) is not None or trier.answer(form, problem) is None:
        return form
    said = (f"It raises unless every number in its {form.parameter_for(TABLE)} names a page, also "
            "beyond an entry's keys.")
    return replace(form, limits={**form.limits, rare.limit: True}, remarks=(*form.remarks, said))
