"""Learns how a callee that hands its cache back is called step after step.

It finds the parameter that takes the cache, where it is returned, and what an empty one is:
nothing, or a dict of arrays with a fixed room and of the next place in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from attnspec.core.forms import BESIDE_CACHE, CACHE
from attnspec.core.keywords import CACHED
from attnspec.core.nouns import Kind
from attnspec.problems.keyword_arrays import split_past
from attnspec.problems.problem import Problem
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import Binding, CallForm, KeptCache
from attnspec.scaffold.lookup import TheirParameter, find_parameters, find_role, normalise_name
from attnspec.scaffold.parameters.trees import find_parts
from attnspec.scaffold.probe_problems import CROSS_SIZES, OTHER_SCALES, plain_problem, sample_problem, tolerance_of
from attnspec.scaffold.trial_adapter import Attempt, Progress, Trier
from attnspec.scaffold.writing.telling import say_handed_on

_CACHE_NAME = re.compile(r"cache|past|state|memory|^kv")
CACHE_PATHS = ("[-1]", "[1]", ".cache", ".past_key_values", ".past_key_value", '["cache"]')
"""Where in an answer a cache may be, the likeliest first."""

EQUAL_PAST = {"past_lengths": "equal"}


def learn_cache(form: CallForm, called: tuple[TheirParameter, ...], trier: Trier) -> CallForm:
    """Returns the form as a decoder, if it is right behind what its last call handed back. One
    that answers wrongly there is a decoder too, if the name of its parameter says so: a check
    tells why. Else the form stays as it is.
    """
    if form.reading is None or form.arrangement.mapped_axes or not set(form.keywords) <= BESIDE_CACHE:
        return form
    limits = {**form.limits, **({"self_attention_only": True} if form.attends_to_itself else {})}
    bare, found, nearest = replace(form, limits=limits), None, list[Attempt]()
    for ways in (_list_decoders, _list_filled_in_place):
        trier.forget_nearest()
        found = found or next((each for each in ways(bare, called, trier) if _is_decoder(each, trier)), None)
        nearest += [trier.nearest] if trier.nearest else []
    if found is None:
        return _hand_on_wrong_decoder(form, called,
                                      sorted(nearest, key=lambda each: each.nearness, reverse=True),
                                      trier)
    found = _check_several_steps(_limit_room(found, trier), trier)
    is_free = not form.attends_to_itself and is_right_behind_past(found, trier, past=CROSS_SIZES.S - CROSS_SIZES.T - 1)
    return found if is_free or form.attends_to_itself else replace(found, limits={**found.limits, **EQUAL_PAST})


def _check_several_steps(form: CallForm, trier: Trier) -> CallForm:
    """Adds a warning to a decoder that is right behind one call and wrong behind several."""
    posed = pose_step(form).but(**{CACHE: "token_by_token"})
    wrong = trier.find_wrong(form, posed, _find_scale(form, posed, trier))
    if wrong is None:
        return form
    warning = ("CACHE: it is right behind one call that filled its cache, but not behind several, "
               f"one token each: {wrong.objection}. What later calls store in the cache is lost, "
               "or stands in another place: attnspec check says what is wrong.")
    return form.with_warning(warning)


def _limit_room(form: CallForm, trier: Trier) -> CallForm:
    """Adds the most keys that its module holds, if its constructor has a default for that."""
    if form.kept_cache is None or form.kept_cache.empty_text:
        return form
    listed = find_parameters("length", trier.process.examine(form.target).constructor_parameters)
    most = next((each.default for each in listed if each.name not in form.construction), None)
    return replace(form, limits={**form.limits, "cache": most}) if isinstance(most, int) and most > 0 else form


def _hand_on_wrong_decoder(form: CallForm, called: tuple[TheirParameter, ...],
                           nearest: Sequence[Attempt], trier: Trier) -> CallForm:
    """Returns the nearest wrong decoder whose cache counts; else what the nearest says."""
    wrong = [each for each in nearest if each.progress is Progress.OTHER_NUMBERS]
    for each in (*wrong, *nearest[:1]):
        known = _hand_on_decoder(form, called, each, trier)
        if known is not form:
            return known
    return form


def _hand_on_decoder(form: CallForm, called: tuple[TheirParameter, ...], nearest: Attempt,
                     trier: Trier) -> CallForm:
    """Returns the nearest wrong decoder that heeds its cache and is named so; else the form."""
    names = [each.name for each in find_parameters(CACHE, called) if not each.tried_as
             or _CACHE_NAME.search(normalise_name(each.name))]
    places = [each.name for each in _list_place_parameters(called)]
    if nearest.form.parameter_for(CACHE) in places:
        names = places if nearest.progress is Progress.OTHER_NUMBERS else []
    if not names or nearest.form.parameter_for(CACHE) not in names:
        return form
    if nearest.progress is not Progress.OTHER_NUMBERS:
        return _leave_out_cache(form, names[0], nearest, trier)
    step = pose_step(nearest.form)
    explained = trier.explain(nearest.form, step, _find_scale(nearest.form, step, trier))
    is_wanted = bool(explained) and nearest.form.arguments.get(nearest.form.parameter_for(CACHE), "").startswith("{")
    if not is_wanted and not _heeds_cache(nearest.form, trier):
        return form
    against = explained or f"behind what a call hands back {nearest.objection}"
    said = say_handed_on(nearest.form.parameter_for(CACHE), CACHE, against)
    limits = {**nearest.form.limits, **({} if form.attends_to_itself else EQUAL_PAST)}
    return replace(nearest.form, limits=limits, remarks=(*form.remarks, said))


def _leave_out_cache(form: CallForm, name: str, nearest: Attempt, trier: Trier) -> CallForm:
    """Leaves out a parameter that could not be used as a cache, unless only arrays come back."""
    returned = trier.call_raw(replace(form, reading=None), plain_problem(form))
    alone = [part for part in returned.parts if len(part.path) == 1] if returned else []
    if form.reading is None or not form.reading.path or len(alone) > 1:
        return form
    why = f"It could not be used as `{CACHE}`: behind what a call hands back, {nearest.objection}."
    return form.leave_out(name, why, [CACHE])


def _find_scale(form: CallForm, posed: Problem, trier: Trier) -> float | None:
    """Returns the scale of what a layer computes, where attention itself is put to it."""
    if form.kind is not Kind.LAYER:
        return None
    width = trier.load_adapter(form).scale_width(posed)
    return OTHER_SCALES[form.default_scale](replace(posed.sizes, D=width)) if form.default_scale else width**-0.5


def _heeds_cache(form: CallForm, trier: Trier) -> bool:
    """Says whether a decoder's answer depends on the keys and values of the call before."""
    posed = pose_step(form)
    values = [getattr(posed, name) for name in CACHED]
    others = posed.but(**{name: -2 * array for name, array in zip(CACHED, values, strict=True)})
    first, second = (trier.answer(form, each) for each in (posed, others))
    if first is None or second is None:
        return False
    return bool(np.abs(first.output - second.output).max() > tolerance_of(posed.dtype))


def _is_decoder(form: CallForm, trier: Trier) -> bool:
    """Says whether it is right with a past, and in its first call if it fills a cache in place."""
    return is_right_behind_past(form, trier) and (form.kept_cache is None or trier.is_right(form, plain_problem(form)))


def _list_decoders(form: CallForm, called: tuple[TheirParameter, ...],
                   trier: Trier) -> Iterator[CallForm]:  # noqa: ARG001  (the same parameters for both ways)
    """Lists the form with each parameter that may be a cache and each place of the next one."""
    for parameter in find_parameters(CACHE, called):
        passed = (*form.bindings, Binding(CACHE, parameter.name, CACHE))
        for asked in _list_asked(form, called):
            is_left = form.arguments.get(parameter.name) in _NOTHING_TEXTS and not form.positional_order
            given = {name: text for name, text in asked.arguments.items() if name != parameter.name or not is_left}
            yield from (replace(asked, bindings=passed, arguments=given, cache_path=path, is_compiled=compiled)
                        for path in CACHE_PATHS for compiled in dict.fromkeys((form.is_compiled, False)))


_NOTHING_TEXTS = ("None", "False")


def _list_asked(form: CallForm, called: tuple[TheirParameter, ...]) -> Iterator[CallForm]:
    """Lists the form as it is, or with each flag that asks for its cache."""
    flags = [each for each in find_parameters("caching", called) if each.default is not True]
    if not flags:
        yield form
    for flag in flags:
        asked = replace(form, arguments={**form.arguments, flag.name: "True"})
        yield asked
        if form.reading and not form.reading.path:
            yield replace(asked, reading=replace(form.reading, path="[0]"))


def _list_filled_in_place(form: CallForm, called: tuple[TheirParameter, ...],
                          trier: Trier) -> Iterator[CallForm]:
    """Lists the form with a cache that calls fill in place, handed over or held by the module."""
    form = replace(form, is_compiled=False)
    for parameter in find_parameters(CACHE, called):
        passed = (*form.bindings, Binding(CACHE, parameter.name, CACHE))
        given = {name: text for name, text in form.arguments.items() if name != parameter.name or form.positional_order}
        handed = replace(form, bindings=passed, arguments=given,
                         construction={**form.construction, **_name_layer(form)})
        for kept in _list_empty_caches(form, parameter, trier):
            yield replace(handed, kept_cache=kept)
    for parameter in _list_place_parameters(called) if form.is_class else ():
        for place in _PLACE_TEXTS:
            passed = (*form.bindings, Binding(CACHE, parameter.name, place))
            yield replace(form, bindings=passed, kept_cache=KeptCache())


def _name_layer(form: CallForm) -> Mapping[str, str]:
    """Sets the optional parameter that says which layer of a model it is, as caches ask for."""
    return {name: "0"
            for name, text in form.left_defaults.items() if text == "None" and _LAYER_NAME.search(normalise_name(name))}


_LAYER_NAME = re.compile(r"^(layer|block)_(idx|id|index|number)$")
_PLACE_TEXTS = ("start", "torch.arange(start, start + T)")
"""What tells a module that holds its cache how many keys it has: a number, or new places."""


def _list_place_parameters(called: tuple[TheirParameter, ...]) -> tuple[TheirParameter, ...]:
    return tuple(each for each in find_parameters("place", called) if not _LAYER_NAME.search(normalise_name(each.name)))


def _list_empty_caches(form: CallForm, parameter: TheirParameter,
                       trier: Trier) -> Iterator[KeptCache]:
    """Lists empty caches for the first call: a dict, or of a cache class beside the callee."""
    beside = dict(trier.process.examine(form.target).neighbours)
    named = sorted((name for name in beside if "cache" in name.lower()),
                   key=lambda name: name != parameter.annotation)
    if not beside and "cache" in parameter.annotation.lower():
        named, beside = [parameter.annotation], {parameter.annotation: f"{form.module}:{parameter.annotation}"}
    for name in named:
        yield KeptCache(f"{name}()", beside[name])
    yield KeptCache("{}")


def is_right_behind_past(form: CallForm, trier: Trier, past: int = CROSS_SIZES.S - CROSS_SIZES.T) -> bool:
    """Says whether it is right behind so many keys, by default all but as many as queries."""
    posed = pose_step(form, past)
    return trier.is_right(form, posed, _find_scale(form, posed, trier))


def pose_step(form: CallForm, past: int = CROSS_SIZES.S - CROSS_SIZES.T) -> Problem:
    """Makes a problem of attention with so many keys in the past."""
    own = {axis: length for axis, length in form.sizes.items() if axis in ("H", "Hkv", "D", "Dv")}
    sizes = replace(CROSS_SIZES, **own)
    sizes = replace(sizes, H=1, Hkv=1) if form.limits.get("single_head") else sizes
    problem = sample_problem(Kind.ATTENTION, sizes, form.dtype)
    assert isinstance(problem, Problem)  # it is what was asked for
    return split_past(problem.but(causal=form.is_always_causal), past)


CACHE_ROOM = 512

_PLACE_NAME = re.compile(r"(^|_)(index|idx|pos|position|offset|length|len|end|start|cursor|step)(_|$)")
_MODULES_BY_LIFT: Mapping[str, str] = {"": "np", "torch": "torch", "jax": "jnp"}
_CACHE_SHAPES = ("B, {room}, Hkv, {width}", "B, Hkv, {room}, {width}")


def list_allocated_caches(callee: ExaminedCallable, lift: str) -> Iterator[tuple[str, str]]:
    """Lists the parameter and Python of an empty cache, in every layout, by callee's sources."""
    wanted = [each.name for each in find_parameters(CACHE, callee.parameters) if each.is_required]
    for name in wanted[:1]:
        keys = sorted(rest[0] for _, *rest in find_parts(callee.functions, 0, {name: (name,)}) if len(rest) == 1)
        for shape in _CACHE_SHAPES:
            entries = [_write_cache_entry(key, shape, lift) for key in keys]
            if len(entries) > 1 and all(entries):
                yield name, f"{{{', '.join(filter(None, entries))}}}"


def _write_cache_entry(key: str, shape: str, lift: str) -> str | None:
    """Writes `"k": jnp.zeros((B, 512, Hkv, D), …)`, or the next place; None where unknown."""
    name = key.strip('[]"')
    if not key.startswith('["'):
        return None
    if _PLACE_NAME.search(name):
        return f'"{name}": 0'
    width = {"key": "D", "value": "Dv"}.get(find_role((name,)))
    made = shape.format(room=CACHE_ROOM, width=width)
    return f'"{name}": {_MODULES_BY_LIFT[lift]}.zeros(({made}), dtype=query.dtype)' if width else None
