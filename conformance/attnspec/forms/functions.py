"""The forms that a function on arrays may have, and one that is constructed first and has no parameters of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnspec.forms.arrangements import arrangements
from attnspec.forms.form import At, Form
from attnspec.forms.lookup import Parameter, lifts_of, parameters_of, theirs
from attnspec.forms.meaning import choices, combinations, roles

LISTED = ("inputs", "input")


def function_forms(target: str, function: Callable[..., Any]) -> Iterator[Form]:
    """Every form of a function worth a try, the likeliest first."""
    for lift in lifts_of(function):
        yield from array_forms(Form(target, lift=lift), parameters_of(function))


def array_forms(form: Form, parameters: Sequence[Parameter]) -> Iterator[Form]:
    """The form with its arrays in every arrangement, and its other parameters as their names say."""
    names = array_names(parameters)
    rest = tuple(each for each in parameters if each.name not in names)
    in_list = len(names) == 1 and names[0] in LISTED
    options = choices(rest, roles(rest, At.CALL), form.kind, At.CALL, form.lift)
    for given in combinations(options):
        known = with_given(form, rest, given)
        for arrangement in arrangements(form.kind, len(names), in_list=in_list):
            yield replace(known, arrangement=arrangement, names=named(names, parameters))


def with_given(form: Form, rest: Sequence[Parameter], given: Mapping[str, str]) -> Form:
    """The form whose call is given this, and leaves the rest at its defaults."""
    left = {each.name: each.text for each in rest if each.name not in given and not each.is_required}
    only_by_position = any(each.kind is each.kind.POSITIONAL_ONLY for each in rest)
    if not only_by_position:
        return replace(form, given=given, left={**form.left, **left})
    everything = {each.name: given.get(each.name) or each.text or "None" for each in rest}
    return replace(form, given=everything, by_position=tuple(everything))


def array_names(parameters: Sequence[Parameter]) -> tuple[str, ...]:
    """The parameters that are arrays: query, key and value; query and a pair; all in one; or the first three."""
    query, key, value = (theirs(word, parameters) for word in ("query", "key", "value"))
    packed, pair = theirs("packed", parameters), theirs("packed_pair", parameters)
    if packed:
        return (packed[0].name,)
    if query and pair:
        return query[0].name, pair[0].name
    if query and key and value:
        return query[0].name, key[0].name, value[0].name
    if query and query[0].name in LISTED:
        return (query[0].name,)
    return tuple(each.name for each in parameters if each.by_position)[:3]


def named(names: Sequence[str], parameters: Sequence[Parameter]) -> tuple[str, ...]:
    """The names by which the arrays are given; none where they come first, in our order, and may be given so."""
    first = parameters[:len(names)]
    is_usual = tuple(each.name for each in first) == tuple(names) and all(each.by_position for each in first)
    return () if is_usual else tuple(names)
