"""A layer in training, and in evaluation with rates of dropout: variants, which must answer as the layer itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from attnspec.scaffold.extended import Parameters
from attnspec.scaffold.form import At, CallableKind, CallForm, ModuleMode
from attnspec.scaffold.meaning import NO_DROPOUT, roles
from attnspec.scaffold.probe_problems import plain
from attnspec.scaffold.trial_adapter import Trier

TRAINING, DROPOUT = "training", "dropout_rate"
"""Names of variants: the layer in training, and in evaluation though its constructor was given a rate."""
RATE = "0.5"
_HAVE_MODES = (CallableKind.TORCH, CallableKind.LAZY)
_FLAGS: Mapping[str, tuple[str, str]] = {"training": ("False", "True"), "deterministic": ("True", "False")}
"""By what a parameter means, what it is given in evaluation and in training."""


def with_modes(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """The form of a layer with these variants, as far as it has them; a remark where one cannot be judged."""
    if form.by_position or form.is_packed or not (form.is_class or _drops_by_flag(form, parameters)):
        return form
    return _with_dropout(_with_training(form, parameters, trier), parameters, trier)


def _drops_by_flag(form: CallForm, parameters: Parameters) -> bool:
    """Whether a function is told a rate of dropout, whether it trains, and nothing else of that, such as a random
    key.
    """
    means = set(roles(parameters[At.CALL], At.CALL).values())
    return form.family is CallableKind.FUNCTION and "dropout" in means and bool(means & _FLAGS.keys()) and (
        "random_key" not in means)


def _with_training(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """With the layer in training, where whatever it drops is switched off."""
    if form.family in _HAVE_MODES:
        tried = [replace(form, mode=mode) for mode in (ModuleMode.TRAINING, ModuleMode.TRAINING_WITHOUT_DROPOUT)]
    else:
        tried = [flagged] if (flagged := _flagged(form, parameters, ModuleMode.TRAINING)) else []
    against = ""
    for variant in tried:
        against = _against(variant, trier)
        if not against:
            return replace(form, variants={**form.variants, TRAINING: variant})
    said = f"In training {against}: that is not judged."
    return replace(form, remarks=(*form.remarks, said)) if against else form


def _with_dropout(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """With the layer in evaluation that was constructed with every rate of dropout at a half."""
    evaluated = form if form.family in _HAVE_MODES else _flagged(form, parameters, ModuleMode.EVALUATION)
    if evaluated is None and form.family is CallableKind.KERAS:
        evaluated = form  # which evaluates unless it is told otherwise
    variant = None if evaluated is None else _dropping(evaluated, parameters)
    if variant is None:
        return form
    trier.nearest = None
    answer = trier.answer(variant, plain(variant))
    if answer is not None and not trier.is_right(variant, plain(variant)) and trier.nearest:
        warning = (f"DROPS IN EVALUATION: constructed with a rate of dropout of {RATE}, {trier.nearest.against}. "
                   f"Dropout seems to be on in evaluation: attnspec check says what is wrong.")
        form = replace(form, warnings=(warning, *form.warnings))
    if answer is None:
        against = trier.nearest.against if trier.nearest else "it returns nothing"
        said = f"Constructed with a rate of dropout of {RATE}, {against}: dropout in evaluation is not judged."
        return replace(form, remarks=(*form.remarks, said))
    return replace(form, variants={**form.variants, DROPOUT: variant})


def _dropping(form: CallForm, parameters: Parameters) -> CallForm | None:
    """The form constructed with rates, or called with them if it is a function; None for one that takes none."""
    at = At.CONSTRUCTOR if form.is_class else At.CALL
    made = parameters.get(at, ())
    means = roles(made, at)
    rates = {each.name: RATE for each in made if means.get(each.name) == "dropout" and each.annotation != "bool"
             and not isinstance(each.default, bool)}
    config, fields = form.config, {}
    if config is not None:
        fields = {name: RATE for name, text in config.fields.items() if text == NO_DROPOUT}
        config = replace(config, fields={**config.fields, **fields})
    if not rates and not fields:
        return None
    if not form.is_class:
        return replace(form, given={**form.given, **rates}, variants={})
    return replace(form, construction={**form.construction, **rates}, config=config, variants={})


def _flagged(form: CallForm, parameters: Parameters, mode: ModuleMode) -> CallForm | None:
    """The form that is told its mode, by its call or else by its constructor; None where neither takes a flag."""
    is_training = mode is not ModuleMode.EVALUATION
    for at in (At.CALL, At.CONSTRUCTOR):
        means = roles(parameters.get(at, ()), at)
        told = {name: _FLAGS[role][is_training] for name, role in means.items() if role in _FLAGS}
        if told and at is At.CALL:
            return replace(form, given={**form.given, **told}, variants={})
        if told:
            return replace(form, construction={**form.construction, **told}, variants={})
    return None


def _against(variant: CallForm, trier: Trier) -> str:
    """Why a layer in training cannot be judged: it raises, or answers at random; empty where it can."""
    trier.nearest, problem = None, plain(variant)
    first, second = trier.answer(variant, problem), trier.answer(variant, problem)
    if first is None or second is None:
        return trier.nearest.against if trier.nearest else "it returns nothing"
    is_alike = np.array_equal(first.output.astype(np.float64), second.output.astype(np.float64), equal_nan=True)
    return "" if is_alike else "it drops at random, at a rate that its constructor does not take"
