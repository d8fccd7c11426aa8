"""Lengths of a layer: handed more queries than there are, and told how many are its own, it answers as without them."""

from __future__ import annotations

import re
from dataclasses import replace

from attnspec.core.nouns import Kind
from attnspec.scaffold.form import CallForm
from attnspec.scaffold.lookup import TheirParameter, normalise_name
from attnspec.scaffold.probe_problems import plain_problem
from attnspec.scaffold.trial_adapter import Progress, Trier

PADDED_VARIANT = "padded"
"""The variant that is handed padding, and told so by its lengths."""
_LENGTH_NAME = re.compile(r"(^|_)(lens?|lengths?|seqlens?|valid_lens?)(_|$)")


def add_padded_variant(form: CallForm, parameter: TheirParameter, trier: Trier) -> CallForm:
    """The form of a layer with a variant by which a parameter for lengths is judged; the form as it is where the
    parameter is none, or something else is handed over that would have to be padded as well.
    """
    is_one = form.arrangement.is_one and form.arrangement.shape == "(B,{L},M)" and not form.next_cache
    is_length = bool(_LENGTH_NAME.search(normalise_name(parameter.name)))
    if form.kind is not Kind.LAYER or not is_one or form.bindings or not is_length:
        return form
    ragged = replace(form, padded_parameter=parameter.name, variants={})
    trier.nearest = None
    if trier.is_right(ragged, plain_problem(ragged)):
        return replace(form, variants={**form.variants, PADDED_VARIANT: ragged})
    if trier.nearest is None or trier.nearest.progress is not Progress.OTHER_NUMBERS:
        return form
    against = trier.nearest.objection
    alike = replace(ragged, is_padded_alike=True)
    why = ("the length of the first entry of the batch serves for all" if trier.is_right(alike, plain_problem(alike))
           else "what lies beyond is not hidden")
    warning = (f"LENGTHS: its {parameter.name} are wrong: {why}. Handed padding behind its input, {against}: attnspec "
               "check says what is wrong.")
    return replace(form, variants={**form.variants, PADDED_VARIANT: ragged}, warnings=(warning, *form.warnings))
