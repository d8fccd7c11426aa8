"""What an answer that is no attention suggests to try: flags off that the callee complains of; each row put first where
it answers for the first row alone; and parameters of its own, which keep their initial values, set to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from attnspec.scaffold.examined import Examined
from attnspec.scaffold.form import At, CallableKind, CallForm
from attnspec.scaffold.lookup import REQUIRED
from attnspec.scaffold.meaning import BY_PLACE, roles
from attnspec.scaffold.probe_problems import plain
from attnspec.scaffold.trial_adapter import Attempt, Progress, Trier


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
    for name, other in _flags_named(callee, nearest) if nearest.step is Progress.RAISED else ():
        yield Suggestion(_told_flag(callee, name, other), f"Its {name} is {other}: at its default {nearest.against}.")
    if nearest.step is Progress.RAISED and "NoneType" in nearest.against and (names := _wanted_none(callee, _PLACED)):
        says = f"WITHOUT ITS {' AND '.join(names)}: handed over so that it changes nothing. What it does is not judged."
        yield Suggestion(_wanting(callee, names), says, _in_pairs, is_missing=True)
    for name in _wanted_none(callee, ("mask",)) if nearest.step is Progress.RAISED else ():
        yield Suggestion(_wanting(callee, [name]), f"It wants its {name}: without it, {nearest.against}.")
    if nearest.step is Progress.NO_OUTPUT and _may_put_first(nearest.form):
        yield Suggestion(callee, "It answers for its first row alone: each row is put first in turn.", _each_first)
    if nearest.step is Progress.OTHER_NUMBERS:
        yield from _without_own(callee, nearest.form)


def _flags_named(callee: Examined, nearest: Attempt) -> Iterator[tuple[str, str]]:
    """The flags of its constructor that are named where it raises, each with what is not its default; those that are on
    first.
    """
    flags = [each for each in callee.constructor if isinstance(each.default, bool)
             and each.name not in nearest.form.construction
             and re.search(rf"\b{re.escape(each.name)}\b", nearest.against)]
    yield from ((each.name, repr(not each.default)) for each in sorted(flags, key=lambda each: not each.default))


def _told_flag(callee: Examined, name: str, other: str) -> Examined:
    """The callee whose constructor has to be given this flag, which can be nothing else."""
    made = tuple(replace(each, default=REQUIRED, annotation=f"Literal[{other}]") if each.name == name else each
                 for each in callee.constructor)
    return replace(callee, parameters=made)


_PLACED = ("positions", "angles", "cosines", "sines", "turns", *BY_PLACE)
"""What parameters mean that tell places, and may be told so that places change nothing."""


def _wanted_none(callee: Examined, meanings: Sequence[str]) -> Sequence[str]:
    """The parameters of its call that mean one of these and are None unless they are given."""
    means = roles(callee.call, At.CALL)
    return [each.name for each in callee.call if each.default is None and means.get(each.name) in meanings]


def _wanting(callee: Examined, names: Sequence[str]) -> Examined:
    """The callee whose call has to be given these."""
    called = tuple(replace(each, default=REQUIRED) if each.name in names else each for each in callee.call)
    return replace(callee, methods={**callee.methods, callee.called: called})


def _in_pairs(form: CallForm) -> CallForm:
    """The form whose heads have an even width: what turns by places turns features in pairs."""
    return replace(form, even_heads=True)


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


_SOMETHING = "0.75"
"""What a parameter is filled with to see whether it does anything."""


def _without_own(callee: Examined, nearest: CallForm) -> Iterator[Suggestion]:
    """With the parameters that keep their initial values set to nothing, each way."""
    for number, words in _NOTHING if _own(nearest) else ():
        yield Suggestion(callee, _tell_own(nearest, words), _filling(number), is_missing=True)


def with_own_settled(form: CallForm, trier: Trier) -> CallForm:
    """A form that is right with whatever its own parameters are when it is born, which may be chance: set to nothing
    where they do something.
    """
    if not _own(form) or trier.is_right(_filled(form, _SOMETHING), plain(form)):
        return form
    for number, words in _NOTHING:
        known = _filled(form, number)
        if trier.is_right(known, plain(known)):
            return replace(known, warnings=(_tell_own(form, words), *form.warnings))
    return form


def _own(form: CallForm) -> Sequence[str]:
    """The parameters of a module of PyTorch that keep their initial values, but for norms."""
    kept = [name for name in form.initial if "norm" not in name.lower() and name not in form.filled]
    return kept if form.family is CallableKind.TORCH else []


def _tell_own(form: CallForm, words: str) -> str:
    return (f"WITHOUT ITS {' AND '.join(_own(form))}: set to {words} in the adapter, so that everything else is "
            "judged. What it does is not.")


def _filled(form: CallForm, number: str) -> CallForm:
    return replace(form, filled={**form.filled, **dict.fromkeys(_own(form), number)})


def _filling(number: str) -> Callable[[CallForm], CallForm]:
    return lambda form: _filled(form, number)
