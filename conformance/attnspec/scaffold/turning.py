"""Switches off a rotary embedding inside of a layer, so that everything else is judged.

With the rotation on, it judges what needs no definition: turning all places alike changes nothing,
and steps give what the whole gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from attnspec.core.forms import CACHE
from attnspec.problems.problem import join_past
from attnspec.scaffold.decoders import is_right_behind_past, pose_step
from attnspec.scaffold.form import QUARTER_TURN, CallableKind, CallForm, Parameters, Site
from attnspec.scaffold.inner_bias import depends_on_distance, list_call_replacements, list_tensors
from attnspec.scaffold.lookup import find_parameters, normalise_name
from attnspec.scaffold.meaning import find_roles
from attnspec.scaffold.probe_problems import plain_problem, tolerance_of
from attnspec.scaffold.replaced import TURNING_NAME
from attnspec.scaffold.trial_adapter import Trier

_COSINE_NAME, _SINE_NAME = re.compile(r"(^|_)cos(_|$|ines?)"), re.compile(r"(^|_)sin(_|$|es?$)")
_COMPLEX_NAME = re.compile(r"(^|_)cis(_|$)|^freqs_complex")
_FREQUENCY_NAME = re.compile(r"inv_?freq|^freqs?$|frequencies|^thetas?$|^angles?$")
_ROTATION_FLAG = re.compile(r"rope|rotary|rotat")


@dataclass(frozen=True, slots=True)
class RotationSwitch:
    """A way to switch off a rotation.

    says: what is done.  switch_off: changes a form so.  quarter_turn: tensors, and what fills them
    so that everything is turned by a quarter, exactly; empty where nothing does that.
    """

    says: str
    switch_off: Callable[[CallForm], CallForm]
    quarter_turn: Mapping[str, str] = field(default_factory=dict)


def list_rotation_switches(form: CallForm, parameters: Parameters,
                           trier: Trier) -> Iterator[RotationSwitch]:
    """Lists the ways in which a layer, in its nearest form, may switch off its rotation."""
    for at, listed in parameters.items():
        for each in listed:
            if each.default is True and _ROTATION_FLAG.search(normalise_name(each.name)):
                yield RotationSwitch(f"{each.name} is False",
                                     _give_argument(at, each.name, "False"))
    for each in find_parameters("positions", parameters[Site.CALL]):
        if not each.is_required and form.lift == "torch":
            zeros = "torch.zeros((B, T), dtype=torch.int32)"
            yield RotationSwitch(f"{each.name} is 0 everywhere",
                                 _give_argument(Site.CALL, each.name, zeros))
    if form.family is CallableKind.TORCH:
        yield from _list_tensor_switches(list_tensors(form, trier))
    for places, names in list_call_replacements(form, trier, TURNING_NAME):
        off = partial(replace, replacements=places, stopped_rotations=tuple(names),
                      even_heads=True)
        yield RotationSwitch(f"{_join_names(names)} is replaced by what turns nothing", off)


def _give_argument(at: Site, name: str, text: str) -> Callable[[CallForm], CallForm]:
    """Makes a change that passes this to a parameter of the call or of the constructor."""
    def give(form: CallForm) -> CallForm:
        if at is Site.CALL:
            return replace(form, arguments={**form.arguments, name: text}, even_heads=True)
        return replace(form, construction={**form.construction, name: text}, even_heads=True)

    return give


def _list_tensor_switches(names: list[str]) -> Iterator[RotationSwitch]:
    """Lists switches by a module's tensors: cosines and sines, complex numbers, or frequencies."""
    cosines, sines, numbers, frequencies = (
        [name for name in names if pattern.search(normalise_name(name.rpartition(".")[2]))]
        for pattern in (_COSINE_NAME, _SINE_NAME, _COMPLEX_NAME, _FREQUENCY_NAME))
    zeros, still = dict.fromkeys(frequencies, "0.0"), ", and its {} to 0" if frequencies else ""
    also = still.format(_join_names(frequencies))
    if cosines and sines:
        filled = {**dict.fromkeys(cosines, "1.0"), **dict.fromkeys(sines, "0.0"), **zeros}
        turned = {**filled, **dict.fromkeys(cosines, "0.0"), **dict.fromkeys(sines, "1.0")}
        says = f"{_join_names(cosines)} is set to 1, its {_join_names(sines)} to 0{also}"
        yield RotationSwitch(says, _fill_tensors(filled), turned)
    if numbers:
        yield RotationSwitch(f"{_join_names(numbers)} is set to 1{also}",
                             _fill_tensors(dict.fromkeys(numbers, "1.0") | zeros),
                             dict.fromkeys(numbers, "1j") | zeros)
    if frequencies:
        yield RotationSwitch(f"{_join_names(frequencies)} is set to 0", _fill_tensors(zeros))


def _join_names(names: list[str]) -> str:
    return " and ".join(names)


def _fill_tensors(filled: Mapping[str, str]) -> Callable[[CallForm], CallForm]:
    return lambda form: replace(form, filled_tensors=filled, stopped_rotations=tuple(filled),
                                even_heads=True)


def judge_handed_angles(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds a quarter-turned variant to a form whose cosines are 1 and sines 0, and a remark."""
    means = find_roles(parameters[Site.CALL], Site.CALL)
    handed = {name: text for name, text in form.arguments.items() if means.get(name) in ("cosines", "sines", "angles")}
    both = " ".join(handed.values())
    if "ones(" not in both or "zeros(" not in both:
        return form
    exchanged = {name: re.sub(r"(ones|zeros)\(", lambda found: "zeros(" if found[1] == "ones" else "ones(", text)
                 for name, text in handed.items()}
    turned = replace(form, arguments={**form.arguments, **exchanged}, even_heads=True, variants={})
    listed = _join_names([*handed])
    said = (f"WITHOUT A ROTATION: it is handed angles of 0 as {listed}, so that attention is "
            "judged. What they are else is its caller's.")
    known = replace(form, even_heads=True, remarks=(*form.remarks, said))
    return _add_turned_variant(known, turned, trier)


def judge_without_rotation(form: CallForm, switch: RotationSwitch, trier: Trier) -> CallForm:
    """Judges a form that is right with its rotation switched off. A warning says so; a variant
    turns by a quarter; and positions have to go on behind a cache.
    """
    said = (f"WITHOUT ITS ROTATION: its {switch.says} in the adapter, so that everything else is "
            "judged. What the angles are is not: judge its rotary embedding by itself "
            "(docs/serving.md).")
    form = form.with_warning(said)
    form = form if switch.quarter_turn else _check_distances(form, trier)
    form = _check_turned_steps(form, trier)
    if not switch.quarter_turn:
        return form
    return _add_turned_variant(form, replace(form, filled_tensors=switch.quarter_turn, variants={}), trier)


def _check_distances(form: CallForm, trier: Trier) -> CallForm:
    """Adds a warning if equal tokens, once turned, are not weighed by distance alone."""
    if not form.replacements and not form.filled_tensors:
        return form
    if depends_on_distance(replace(form, filled_tensors={}, replacements={}, variants={}),
                           trier) is not False:
        return form
    warning = ("TURNED DIFFERENTLY: with its rotation on, tokens that have all the same query and "
               "the same key do not weigh by their distance alone. Queries and keys are not "
               "turned alike, or from other places. attnspec check does not judge that.")
    return form.with_warning(warning)


def _add_turned_variant(form: CallForm, variant: CallForm, trier: Trier) -> CallForm:
    """Adds a variant that turns by a quarter, and a warning where it answers otherwise."""
    wrong = trier.find_wrong(variant, plain_problem(variant))
    if wrong is None:
        return form.with_variant(QUARTER_TURN, variant)
    warning = (f"TURNED DIFFERENTLY: turned by a quarter at all places, {wrong.objection}. "
               "Queries and keys are not turned alike: attnspec check says what is wrong.")
    return form.with_variant(QUARTER_TURN, variant).with_warning(warning)


def _check_turned_steps(form: CallForm, trier: Trier) -> CallForm:
    """Leaves out and demands a right cache, if turned steps differ from the whole."""
    name = form.parameter_for(CACHE)
    if not name or not is_right_behind_past(form, trier):
        return form
    turning = replace(form, filled_tensors={}, replacements={}, variants={})
    step = pose_step(turning)
    past = step.past
    whole = join_past(step)
    before = np.zeros((*step.query.shape[:2], past, step.query.shape[3]), step.query.dtype)
    if not turning.attends_to_itself:
        return form
    first = trier.answer(turning, step)
    other = trier.answer(turning, whole.but(query=np.concatenate([before, step.query], axis=2)))
    if first is None or other is None:
        return form
    apart = np.abs(first.output.astype(np.float64) - other.output[:, :, past:].astype(np.float64))
    if apart.max() <= tolerance_of(step.dtype):
        return form
    why = ("With its rotation on, a call behind a past gives another output than one call on the "
           "whole sequence, as where positions restart at 0 in each call. So it is left out.")
    dense = replace(form, bindings=tuple(each for each in form.bindings if each.keyword != CACHE),
                    cache_path="", kept_cache=None)
    return dense.leave_out(name, why, [CACHE])
