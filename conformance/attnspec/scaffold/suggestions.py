"""What an answer that is no attention suggests to try: flags off that the callee complains of; each row put first where
it answers for the first row alone; and parameters of its own, which keep their initial values, set to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from attnspec.scaffold.examined import Examined
from attnspec.scaffold.form import CallableKind, CallForm
from attnspec.scaffold.lookup import REQUIRED
from attnspec.scaffold.trial_adapter import Attempt, Progress


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The callee as it is to be seen, what is changed in every form of it, and what is said of that; is_missing:
    whether something that it does is then not judged.
    """

    callee: Examined
    says: str
    change: Callable[[CallForm], CallForm] | None = None
    is_missing: bool = False

    def told(self, form: CallForm) -> CallForm:
        """A form that is right with it, and what is said."""
        if self.is_missing:
            return replace(form, warnings=(self.says, *form.warnings))
        return replace(form, remarks=(*form.remarks, self.says))


def suggestions_of(callee: Examined, nearest: Attempt | None) -> Iterator[Suggestion]:
    """What the nearest attempt suggests; nothing for a function."""
    if nearest is None or not callee.is_class:
        return
    if nearest.step is Progress.RAISED and (flags := _flags_named(callee, nearest)):
        yield Suggestion(_requiring(callee, flags),
                         f"Its {' and '.join(flags)} is False: at its default {nearest.against}.")
    if nearest.step is Progress.NO_OUTPUT and _may_put_first(nearest.form):
        yield Suggestion(callee, "It answers for its first row alone: each row is put first in turn.", _each_first)
    if nearest.step is Progress.OTHER_NUMBERS:
        yield from _without_own(callee, nearest.form)


def _flags_named(callee: Examined, nearest: Attempt) -> Sequence[str]:
    """The flags of its constructor that are on, and that are named where it raises."""
    return [each.name for each in callee.constructor if each.default is True
            and nearest.form.construction.get(each.name) != "False"
            and re.search(rf"\b{re.escape(each.name)}\b", nearest.against)]


def _requiring(callee: Examined, flags: Sequence[str]) -> Examined:
    """The callee whose constructor has to be given these flags, so that each is False."""
    made = tuple(replace(each, default=REQUIRED, annotation="bool") if each.name in flags else each
                 for each in callee.constructor)
    return replace(callee, parameters=made)


def _may_put_first(form: CallForm) -> bool:
    """Whether it has one input, which a framework that rolls arrays may turn round."""
    return form.lift == "torch" and form.arrangement.is_one and not form.arrangement.mapped


def _each_first(form: CallForm) -> CallForm:
    """The form that is called once for each row (B,T,M), with that row first; other keys' order is no matter."""
    if not _may_put_first(form) or form.arrangement.in_turn:
        return form
    into = form.arrangement.into.format("{0}.roll(-first, 1)")
    return replace(form, arrangement=replace(form.arrangement, into=into, in_turn=True))


_NOTHING = (("0.0", "0"), ('float("-inf")', "-inf"), ("1.0", "1"))
"""What a parameter may be filled with that is then nothing: a bias, a logit more, a factor; in Python and in words."""


def _without_own(callee: Examined, nearest: CallForm) -> Iterator[Suggestion]:
    """With the parameters that keep their initial values set to nothing, each way."""
    names = [name for name in nearest.initial if "norm" not in name.lower()]
    if nearest.family is not CallableKind.TORCH or not names or nearest.filled:
        return
    for number, words in _NOTHING:
        says = (f"WITHOUT ITS {' AND '.join(names)}: set to {words} in the adapter, so that everything else is judged. "
                "What it does is not.")
        yield Suggestion(callee, says, _filling(dict.fromkeys(names, number)), is_missing=True)


def _filling(filled: dict[str, str]) -> Callable[[CallForm], CallForm]:
    return lambda form: replace(form, filled={**form.filled, **filled})
