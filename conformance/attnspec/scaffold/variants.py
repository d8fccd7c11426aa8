"""Adds variants that must answer as the layer itself.

They are in training, in evaluation with rates of dropout, and with padding that its lengths hide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from attnspec.core.nouns import Kind
from attnspec.scaffold.form import CallableKind, CallForm, ModuleMode, Parameters, Site
from attnspec.scaffold.lookup import TheirParameter, normalise_name
from attnspec.scaffold.meaning import NO_DROPOUT, find_roles
from attnspec.scaffold.probe_problems import plain_problem
from attnspec.scaffold.trial_adapter import Progress, Trier

TRAINING_VARIANT, DROPOUT_VARIANT = "training", "dropout_rate"
"""Names of variants: the layer in training, and in evaluation though its constructor was given a rate."""
DROPOUT_RATE = "0.5"
_FAMILIES_WITH_MODES = (CallableKind.TORCH, CallableKind.LAZY)
_MODE_FLAGS: Mapping[str, tuple[str, str]] = {"training": ("False", "True"), "deterministic": ("True", "False")}
"""By role, what a parameter is given in evaluation and in training."""


def add_mode_variants(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds the variants of modes that a layer has, and a remark where one cannot be judged."""
    if form.positional_order or form.is_packed or not (form.is_class or _drops_by_flag(form, parameters)):
        return form
    return _add_dropout(_add_training(form, parameters, trier), parameters, trier)


def _drops_by_flag(form: CallForm, parameters: Parameters) -> bool:
    """Says whether a function takes a rate of dropout and a flag, but no random key."""
    means = set(find_roles(parameters[Site.CALL], Site.CALL).values())
    if form.family is not CallableKind.FUNCTION or "random_key" in means:
        return False
    return "dropout" in means and not means.isdisjoint(_MODE_FLAGS)


def _add_training(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds the layer in training, with whatever it drops switched off."""
    if form.family in _FAMILIES_WITH_MODES:
        modes = (ModuleMode.TRAINING, ModuleMode.TRAINING_WITHOUT_DROPOUT)
        tried = [replace(form, mode=mode) for mode in modes]
    else:
        tried = [flagged] if (flagged := _give_mode(form, parameters, ModuleMode.TRAINING)) else []
    against = ""
    for variant in tried:
        against = _object_to_training(variant, trier)
        if not against:
            return form.with_variant(TRAINING_VARIANT, variant)
    said = f"In training {against}: that is not judged."
    return form.with_remarks(said) if against else form


def _add_dropout(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds the layer in evaluation, constructed with every rate of dropout at a half."""
    evaluated: CallForm | None = form
    if form.family not in _FAMILIES_WITH_MODES:
        evaluated = _give_mode(form, parameters, ModuleMode.EVALUATION)
    if evaluated is None and form.family is CallableKind.KERAS:
        evaluated = form  # which evaluates unless it is told otherwise
    variant = None if evaluated is None else _give_rates(evaluated, parameters)
    if variant is None:
        return form
    wrong = trier.find_wrong(variant, plain_problem(variant))
    if wrong is not None and wrong.progress is not Progress.OTHER_NUMBERS:
        said = (f"Constructed with a rate of dropout of {DROPOUT_RATE}, {wrong.objection}: "
                "dropout in evaluation is not judged.")
        return form.with_remarks(said)
    if wrong is not None:
        warning = (f"DROPS IN EVALUATION: constructed with a rate of dropout of {DROPOUT_RATE}, "
                   f"{wrong.objection}. Dropout seems to be on in evaluation: attnspec check says "
                   "what is wrong.")
        form = form.with_warning(warning)
    return form.with_variant(DROPOUT_VARIANT, variant)


def _give_rates(form: CallForm, parameters: Parameters) -> CallForm | None:
    """Passes rates to the constructor, or to a function's call; None where neither takes any."""
    at = Site.CONSTRUCTOR if form.is_class else Site.CALL
    made = parameters.get(at, ())
    means = find_roles(made, at)
    flags = {each.name for each in made if each.annotation == "bool" or isinstance(each.default, bool)}
    rates = {name: DROPOUT_RATE for name, role in means.items()
             if role == "dropout" and name not in flags}
    config, fields = form.config, {}
    if config is not None:
        fields = {name: DROPOUT_RATE for name, text in config.fields.items() if text == NO_DROPOUT}
        config = replace(config, fields={**config.fields, **fields})
    if not rates and not fields:
        return None
    return replace(_give_texts(form, at, rates), config=config)


def _give_texts(form: CallForm, at: Site, texts: Mapping[str, str]) -> CallForm:
    """Passes these to the call or the constructor of a form, which has no variants then."""
    if at is Site.CALL:
        return replace(form, arguments={**form.arguments, **texts}, variants={})
    return replace(form, construction={**form.construction, **texts}, variants={})


def _give_mode(form: CallForm, parameters: Parameters, mode: ModuleMode) -> CallForm | None:
    """Passes the mode to its call, or else to its constructor; None where neither takes a flag."""
    is_training = mode is not ModuleMode.EVALUATION
    for at in (Site.CALL, Site.CONSTRUCTOR):
        means = find_roles(parameters.get(at, ()), at)
        flags = {name: role for name, role in means.items() if role in _MODE_FLAGS}
        if flags:
            return _give_texts(form, at, {name: _MODE_FLAGS[role][is_training]
                                          for name, role in flags.items()})
    return None


def _object_to_training(variant: CallForm, trier: Trier) -> str:
    """Says why a layer in training cannot be judged: it raises or is random; empty if it can."""
    trier.nearest, problem = None, plain_problem(variant)
    first, second = trier.answer(variant, problem), trier.answer(variant, problem)
    if first is None or second is None:
        return trier.nearest.objection if trier.nearest else "it returns nothing"
    is_alike = np.array_equal(first.output.astype(np.float64), second.output.astype(np.float64),
                              equal_nan=True)
    return "" if is_alike else "it drops at random, at a rate that its constructor does not take"


PADDED_VARIANT = "padded"
"""The variant that is handed padding, and told so by its lengths."""
_LENGTH_NAME = re.compile(r"(^|_)(lens?|lengths?|seqlens?|valid_lens?)(_|$)")


def add_padded_variant(form: CallForm, parameter: TheirParameter, trier: Trier) -> CallForm:
    """Adds a variant by which a layer's parameter for lengths is judged. The form stays as it is
    where the parameter is none, or where something else would have to be padded too.
    """
    is_one = form.arrangement.is_one and form.arrangement.shape == "(B,{L},M)" and not form.next_cache
    is_length = bool(_LENGTH_NAME.search(normalise_name(parameter.name)))
    if form.kind is not Kind.LAYER or not is_one or form.bindings or not is_length:
        return form
    ragged = replace(form, padded_parameter=parameter.name, variants={})
    wrong = trier.find_wrong(ragged, plain_problem(ragged))
    if wrong is None:
        return form.with_variant(PADDED_VARIANT, ragged)
    if wrong.progress is not Progress.OTHER_NUMBERS:
        return form
    alike, why = replace(ragged, is_padded_alike=True), "what lies beyond is not hidden"
    if trier.is_right(alike, plain_problem(alike)):
        why = "the length of the first entry of the batch serves for all"
    warning = (f"LENGTHS: its {parameter.name} are wrong: {why}. Handed padding behind its input, "
               f"{wrong.objection}: attnspec check says what is wrong.")
    return form.with_variant(PADDED_VARIANT, ragged).with_warning(warning)
