"""A form with one keyword more, in every way in which a parameter may be handed it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from attnspec.core.keyword import Saying
from attnspec.scaffold.form import At, CallForm, Passed
from attnspec.scaffold.lookup import TheirParameter, theirs

Parameters = Mapping[At, Sequence[TheirParameter]]


def extended(form: CallForm, keyword: str, parameters: Parameters, sayings: Iterable[Saying]) -> Iterator[CallForm]:
    """The form with one keyword more, in every way in which it may be handed over."""
    for saying in sayings:
        for at, listed in parameters.items():
            for parameter in theirs(keyword, listed):
                if parameter.text or parameter.name in (form.given if at is At.CALL else form.construction):
                    passed = Passed(keyword, parameter.name, saying.expression, saying.says, at)
                    yield replace(form, passed=(*form.passed, passed), limits={**form.limits, **saying.limits})
