"""A form with one keyword more, in every way in which a parameter may be handed it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from attnspec.core.keyword import Saying
from attnspec.scaffold.form import Binding, CallForm, Site
from attnspec.scaffold.lookup import TheirParameter, find_parameters

Parameters = Mapping[Site, Sequence[TheirParameter]]


def bind_keyword(form: CallForm, keyword: str, parameters: Parameters, sayings: Iterable[Saying]) -> Iterator[CallForm]:
    """The form with one keyword more, in every way in which it may be handed over."""
    for saying in sayings:
        for at, listed in parameters.items():
            for parameter in find_parameters(keyword, listed):
                if parameter.text or parameter.name in (form.arguments if at is Site.CALL else form.construction):
                    passed = Binding(keyword, parameter.name, saying.expression, saying.says, at)
                    yield replace(form, bindings=(*form.bindings, passed), limits={**form.limits, **saying.limits})
