"""A rotary embedding inside of a layer: switched off, so that everything else is judged, and judged where it is on by
what needs no definition: turned alike at all places, nothing changes; and steps give what the whole gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from attnspec.core.forms import STATE
from attnspec.problems.problem import join_past
from attnspec.scaffold.decoders import is_right_behind, posed_step
from attnspec.scaffold.extended import Parameters
from attnspec.scaffold.form import TURNED, At, CallableKind, CallForm
from attnspec.scaffold.inner_bias import depends_on_distance, places_by_calls, tensors_in
from attnspec.scaffold.lookup import plain as plain_name
from attnspec.scaffold.lookup import theirs
from attnspec.scaffold.meaning import roles
from attnspec.scaffold.probe_problems import close, plain
from attnspec.scaffold.replaced import TURNS
from attnspec.scaffold.trial_adapter import Trier

_COSINES, _SINES = re.compile(r"(^|_)cos(_|$|ines?)"), re.compile(r"(^|_)sin(_|$|es?$)")
_COMPLEX = re.compile(r"(^|_)cis(_|$)|^freqs_complex")
_FREQUENCIES = re.compile(r"inv_?freq|^freqs?$|frequencies|^thetas?$|^angles?$")
_FLAG = re.compile(r"rope|rotary|rotat")


@dataclass(frozen=True, slots=True)
class RotationSwitch:
    """A way to turn by nothing. says: what is done.  off: the form with it.  turned: tensors that are filled otherwise,
    so that everything is turned by a quarter, exactly; empty where nothing does that.
    """

    says: str
    off: Callable[[CallForm], CallForm]
    turned: Mapping[str, str] = field(default_factory=dict)


def rotation_switches(form: CallForm, parameters: Parameters, trier: Trier) -> Iterator[RotationSwitch]:
    """Every way in which a layer may let its rotation be switched off. form: the nearest, as far as it is known."""
    for at, listed in parameters.items():
        for each in listed:
            if each.default is True and _FLAG.search(plain_name(each.name)):
                yield RotationSwitch(f"{each.name} is False", _giving(at, each.name, "False"))
    for each in theirs("positions", parameters[At.CALL]):
        if not each.is_required and form.lift == "torch":
            zeros = "torch.zeros((B, T), dtype=torch.int32)"
            yield RotationSwitch(f"{each.name} is 0 everywhere", _giving(At.CALL, each.name, zeros))
    if form.family is CallableKind.TORCH:
        yield from _of_tensors(tensors_in(form, trier))
    yield from _of_calls(form, trier)


def _giving(at: At, name: str, text: str) -> Callable[[CallForm], CallForm]:
    """What gives a parameter this, in the call or in the constructor."""
    def give(form: CallForm) -> CallForm:
        if at is At.CALL:
            return replace(form, given={**form.given, name: text}, even_heads=True)
        return replace(form, construction={**form.construction, name: text}, even_heads=True)

    return give


def _of_tensors(names: list[str]) -> Iterator[RotationSwitch]:
    """By the tensors that a module keeps: cosines and sines, complex numbers, or frequencies."""
    cosines, sines, numbers, frequencies = (
        [name for name in names if pattern.search(plain_name(name.rpartition(".")[2]))]
        for pattern in (_COSINES, _SINES, _COMPLEX, _FREQUENCIES))
    zeros, still = dict.fromkeys(frequencies, "0.0"), ", and its {} to 0" if frequencies else ""
    also = still.format(_listed(frequencies))
    if cosines and sines:
        filled = {**dict.fromkeys(cosines, "1.0"), **dict.fromkeys(sines, "0.0"), **zeros}
        turned = {**filled, **dict.fromkeys(cosines, "0.0"), **dict.fromkeys(sines, "1.0")}
        says = f"{_listed(cosines)} is set to 1, its {_listed(sines)} to 0{also}"
        yield RotationSwitch(says, _filling(filled), turned)
    if numbers:
        yield RotationSwitch(f"{_listed(numbers)} is set to 1{also}", _filling(dict.fromkeys(numbers, "1.0") | zeros),
                             dict.fromkeys(numbers, "1j") | zeros)
    if frequencies:
        yield RotationSwitch(f"{_listed(frequencies)} is set to 0", _filling(zeros))


def _of_calls(form: CallForm, trier: Trier) -> Iterator[RotationSwitch]:
    """By the functions, methods and submodules that are named for turning: others stand in their place in a call."""
    for places, names in places_by_calls(form, trier, TURNS):
        yield RotationSwitch(f"{_listed(names)} is replaced by what turns nothing", _replacing(places, names))


def _replacing(places: Mapping[str, str], names: list[str]) -> Callable[[CallForm], CallForm]:
    return lambda form: replace(form, replaced=places, unturned=tuple(names), even_heads=True)


def _listed(names: list[str]) -> str:
    return " and ".join(names)


def _filling(filled: Mapping[str, str]) -> Callable[[CallForm], CallForm]:
    return lambda form: replace(form, filled=filled, unturned=tuple(filled), even_heads=True)


def with_angles_handed(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """A form that is handed cosines of 1 and sines of 0, apart or as a pair: what is said of that, and the variant that
    turns by a quarter.
    """
    means = roles(parameters[At.CALL], At.CALL)
    handed = {name: text for name, text in form.given.items() if means.get(name) in ("cosines", "sines", "angles")}
    both = " ".join(handed.values())
    if "ones(" not in both or "zeros(" not in both:
        return form
    exchanged = {name: _exchanged(text) for name, text in handed.items()}
    turned = replace(form, given={**form.given, **exchanged}, even_heads=True, variants={})
    listed = _listed([*handed])
    said = (f"WITHOUT A ROTATION: it is handed angles of 0 as {listed}, so that attention is judged. What they are "
            "else is its caller's.")
    known = replace(form, even_heads=True, remarks=(*form.remarks, said))
    return _with_variant(known, turned, trier)


def _exchanged(text: str) -> str:
    """Python with ones for zeros, and zeros for ones."""
    return re.sub(r"(ones|zeros)\(", lambda found: "zeros(" if found[1] == "ones" else "ones(", text)


def with_rotation_off(form: CallForm, switch: RotationSwitch, trier: Trier) -> CallForm:
    """A form that is right with its rotation switched off: what is said of that, the variant that turns by a quarter,
    and whether its positions go on behind a cache.
    """
    said = (f"WITHOUT ITS ROTATION: its {switch.says} in the adapter, so that everything else is judged. What the "
            f"angles are is not: judge its rotary embedding by itself (docs/serving.md).")
    form = replace(form, warnings=(said, *form.warnings))
    form = form if switch.turned else _with_distances(form, trier)
    return _with_quarter_turn(_with_steps_turned(form, trier), switch, trier)


def _with_distances(form: CallForm, trier: Trier) -> CallForm:
    """The form; with a warning where its rotation, once it is on, turns equal tokens so that their weights do not
    depend on their distance alone.
    """
    if not form.replaced and not form.filled:
        return form
    if depends_on_distance(replace(form, filled={}, replaced={}, variants={}), trier) is not False:
        return form
    warning = ("TURNED DIFFERENTLY: with its rotation on, tokens that have all the same query and the same key do not "
               "weigh by their distance alone. Queries and keys are not turned alike, or from other places. attnspec "
               "check does not judge that.")
    return replace(form, warnings=(warning, *form.warnings))


def _with_quarter_turn(form: CallForm, switch: RotationSwitch, trier: Trier) -> CallForm:
    """With the variant that turns queries and keys alike, after which nothing is otherwise."""
    if not switch.turned:
        return form
    return _with_variant(form, replace(form, filled=switch.turned, variants={}), trier)


def _with_variant(form: CallForm, variant: CallForm, trier: Trier) -> CallForm:
    """With a variant that turns by a quarter, and a warning where it answers otherwise."""
    trier.nearest = None
    if trier.is_right(variant, plain(variant)):
        return replace(form, variants={**form.variants, TURNED: variant})
    against = trier.nearest.against if trier.nearest else "its output is another"
    warning = (f"TURNED DIFFERENTLY: turned by a quarter at all places, {against}. Queries and keys are not turned "
               f"alike: attnspec check says what is wrong.")
    return replace(form, variants={**form.variants, TURNED: variant}, warnings=(warning, *form.warnings))


def _with_steps_turned(form: CallForm, trier: Trier) -> CallForm:
    """With its cache left out, and demanded, if steps do not give what the whole gives where its rotation is on; one
    that is wrong without it, too, is judged so.
    """
    name = form.parameter(STATE)
    if not name or not is_right_behind(form, trier):
        return form
    turning = replace(form, filled={}, replaced={}, variants={})
    step = posed_step(turning)
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
    if apart.max() <= close(step.dtype):
        return form
    why = ("With its rotation on, a call behind a past gives another output than one call on the whole sequence, as "
           "where positions restart at 0 in each call. So it is left out.")
    dense = replace(form, passed=tuple(each for each in form.passed if each.keyword != STATE), cache="", kept=None)
    return dense.leave_out(name, why, [STATE])

