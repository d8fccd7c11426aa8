"""Suggests what to try by an answer that is no attention.

Flags that the callee complains of are switched; each row is put first where it answers for the
first row alone; parameters of its own, which keep their initial values, are set to nothing; and
the output projection is judged where the layer adds its input to that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import CallableKind, CallForm, Site
from attnspec.scaffold.lookup import REQUIRED
from attnspec.scaffold.meaning import PLACE_KEYWORDS, find_roles
from attnspec.scaffold.probe_problems import list_expected, plain_problem, tolerance_of
from attnspec.scaffold.trial_adapter import Attempt, Progress, Trier


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change to try.

    callee: as it is to be seen.  says: what is said of the change.  change: what changes every
    form of it.  is_missing: whether something that it does is then not judged.
    """

    callee: ExaminedCallable
    says: str
    change: Callable[[CallForm], CallForm] | None = None
    is_missing: bool = False

    def apply_to(self, form: CallForm) -> CallForm:
        """Adds what is said to a form that is right with the change."""
        if self.is_missing:
            return form.with_warning(self.says)
        return form.with_remarks(self.says)


def list_suggestions(callee: ExaminedCallable, nearest: Attempt | None) -> Iterator[Suggestion]:
    """Lists what the nearest attempt suggests; nothing for a function."""
    if nearest is None or not callee.is_class:
        return
    if nearest.progress is Progress.RAISED:
        yield from _list_for_raised(callee, nearest)
    if nearest.progress is Progress.NO_OUTPUT and _may_put_first(nearest.form):
        yield Suggestion(callee, "It answers for its first row alone: each row is put first in turn.", _put_each_first)
    if nearest.progress is Progress.OTHER_NUMBERS:
        for number, words in _NOTHING_TEXTS if _list_own_parameters(nearest.form) else ():
            fill = partial(_fill_own, number=number)
            yield Suggestion(callee, _tell_own(nearest.form, words), fill, is_missing=True)


def _list_for_raised(callee: ExaminedCallable, nearest: Attempt) -> Iterator[Suggestion]:
    for name, other in _list_named_flags(callee, nearest):
        yield Suggestion(_require_flag(callee, name, other),
                         f"Its {name} is {other}: at its default {nearest.objection}.")
    names = _list_none_defaults(callee, _PLACE_ROLES)
    if names and "NoneType" in nearest.objection:
        says = f"WITHOUT ITS {' AND '.join(names)}: handed over so that it changes nothing. What it does is not judged."
        use_even_heads = partial(replace, even_heads=True)  # what turns by places turns features in pairs
        yield Suggestion(_require_parameters(callee, names), says, use_even_heads, is_missing=True)
    for name in _list_none_defaults(callee, ("mask",)):
        yield Suggestion(_require_parameters(callee, [name]),
                         f"It wants its {name}: without it, {nearest.objection}.")


def _list_named_flags(callee: ExaminedCallable, nearest: Attempt) -> Iterator[tuple[str, str]]:
    """Lists the flags that an exception names, with their opposites, first those that are on."""
    flags = [each for each in callee.constructor_parameters if isinstance(each.default, bool)
             and each.name not in nearest.form.construction
             and re.search(rf"\b{re.escape(each.name)}\b", nearest.objection)]
    for each in sorted(flags, key=lambda each: not each.default):
        yield each.name, repr(not each.default)


def _require_flag(callee: ExaminedCallable, name: str, other: str) -> ExaminedCallable:
    made = tuple(replace(each, default=REQUIRED, annotation=f"Literal[{other}]") if each.name == name else each
                 for each in callee.constructor_parameters)
    return replace(callee, parameters=made)


_PLACE_ROLES = ("positions", "angles", "cosines", "sines", "turns", *PLACE_KEYWORDS)
"""The roles of parameters that tell places, and may be told so that places change nothing."""


def _list_none_defaults(callee: ExaminedCallable, meanings: Sequence[str]) -> Sequence[str]:
    """Lists the call's parameters of these roles that are None by default."""
    means = find_roles(callee.call_parameters, Site.CALL)
    return [each.name for each in callee.call_parameters if each.default is None and means.get(each.name) in meanings]


def _require_parameters(callee: ExaminedCallable, names: Sequence[str]) -> ExaminedCallable:
    called = tuple(replace(each, default=REQUIRED) if each.name in names else each for each in callee.call_parameters)
    return replace(callee, methods={**callee.methods, callee.call_method: called})


def _may_put_first(form: CallForm) -> bool:
    """Says whether it has one input, which a framework that rolls arrays may rotate."""
    return form.lift == "torch" and form.arrangement.is_one and not form.arrangement.mapped_axes


def _put_each_first(form: CallForm) -> CallForm:
    """Calls the form once for each row (B,T,M), with that row first; keys' order is free."""
    if not _may_put_first(form) or form.arrangement.is_in_turn:
        return form
    into = form.arrangement.template.format("{0}.roll(-first, 1)")
    return replace(form, arrangement=replace(form.arrangement, template=into, is_in_turn=True))


_NOTHING_TEXTS = (("0.0", "0"), ('float("-inf")', "-inf"), ("1.0", "1"))
"""What makes a parameter do nothing, in Python and in words: a bias, an extra logit, a factor."""


_SOMETHING_TEXT = "0.75"
"""What a parameter is filled with to see whether it does anything."""


def settle_own_parameters(form: CallForm, trier: Trier) -> CallForm:
    """Sets the layer's own parameters to nothing where they do something: they may be chance."""
    if not _list_own_parameters(form) or trier.is_right(_fill_own(form, _SOMETHING_TEXT), plain_problem(form)):
        return form
    for number, words in _NOTHING_TEXTS:
        known = _fill_own(form, number)
        if trier.is_right(known, plain_problem(known)):
            return replace(known, warnings=(_tell_own(form, words), *form.warnings))
    return form


def _list_own_parameters(form: CallForm) -> Sequence[str]:
    """Lists the parameters of a PyTorch module that keep their initial values, without norms."""
    kept = [name for name in form.initial_parameters if "norm" not in name.lower() and name not in form.filled_tensors]
    return kept if form.family is CallableKind.TORCH else []


def _tell_own(form: CallForm, words: str) -> str:
    return (f"WITHOUT ITS {' AND '.join(_list_own_parameters(form))}: set to {words} in the "
            "adapter, so that everything else is judged. What it does is not.")


def _fill_own(form: CallForm, number: str) -> CallForm:
    return replace(form, filled_tensors={**form.filled_tensors, **dict.fromkeys(_list_own_parameters(form), number)})


def find_output_projection(form: CallForm) -> str:
    """Returns the PyTorch submodule that projects the output, such as `proj`; else empty."""
    if form.family is not CallableKind.TORCH:
        return ""
    paths = ["".join(path).lstrip(".") for path, text in (form.state or {}).items() if 'params["w_out"]' in text]
    return next((path.rpartition(".")[0] for path in paths if path.count(".")), "")


def adds_its_input(form: CallForm, trier: Trier) -> bool:
    """Says whether a form that is right before the sum adds its input as a whole."""
    problem = plain_problem(form)
    answer = trier.answer(replace(form, judged_part=""), problem)
    if answer is None or answer.output.shape != problem.query.shape:
        return False
    rest = answer.output.astype(np.float64) - problem.query.astype(np.float64)
    return any(truth.gap(rest)[0] <= tolerance_of(problem.dtype) for truth in list_expected(problem,
                                                                                            form.default_scale,
                                                                                            form.mistake))
