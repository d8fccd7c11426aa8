"""Lists the forms that a layer may have: its construction, its call, and which parameter is which
matrix.

A layer is a class, or a function that takes its parameters in trees. A second input is its memory:
key and value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from attnspec.core.errors import TargetError
from attnspec.core.nouns import Kind
from attnspec.host.lifts import LIFTS
from attnspec.scaffold.arrangements import list_arrangements
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.decoders import CACHE_ROOM, list_allocated_caches
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import SQUARE_SIDE, TEMPLATES, CallableKind, CallForm, ConfigObject, Site
from attnspec.scaffold.function_forms import (
    STARRED_NAMES,
    find_array_names,
    give_arguments,
    list_array_forms,
    list_given_names,
    list_lifts,
)
from attnspec.scaffold.lookup import TheirParameter, find_parameters
from attnspec.scaffold.meaning import Choices, find_roles, find_unknown, list_choices, list_combinations
from attnspec.scaffold.parameters.configs import OFF_IN_CONFIG, list_configs
from attnspec.scaffold.parameters.states import HEAD_PLACE, PROJECTIONS, FilledState, list_states
from attnspec.scaffold.parameters.trees import Leaf, find_roots, find_tree, list_tree_leaves
from attnspec.scaffold.probe_problems import expect_usual, plain_problem
from attnspec.scaffold.trial_adapter import Attempt, Progress, Trier
from attnspec.subjects.call import ReturnedTree

_FAMILIES_BY_BASE: Mapping[str, CallableKind] = {
    "torch.nn.modules.module.Module": CallableKind.TORCH,
    "equinox._module._module.Module": CallableKind.EQUINOX,
    "flax.linen.module.Module": CallableKind.LINEN, "flax.nnx.module.Module": CallableKind.NNX,
    "haiku._src.module.Module": CallableKind.HAIKU,
    "keras.src.layers.layer.Layer": CallableKind.KERAS}
_MOST_SHOWN = 4  # parameters in a message


def list_class_forms(layer: ExaminedCallable, trier: Trier) -> Iterator[CallForm]:
    """Lists a class's forms that are worth a try. Raises TargetError if it has no known call."""
    family = find_family(layer)
    lift = find_lift(layer, family, trier.process)
    form = CallForm(layer.target, Kind.LAYER, family, lift)
    if family is CallableKind.PLAIN and layer.call_method != "__call__":
        form = replace(form, method=layer.call_method)
    if trier.gathered_inputs:
        form = replace(form, gathered_inputs=trier.gathered_inputs.names,
                       gathers_dict=trier.gathered_inputs.is_dict,
                       remarks=(trier.gathered_inputs.says,))
    for called_so in (each for made in _list_constructions(form, layer, trier)
                      for each in _list_calls(made, layer.call_parameters)):
        known, born = _find_born(called_so, trier)
        if leaves := _list_leaves(family, born):
            found = _list_filled_states(known, leaves)
            if not found:  # it may have one head of keys and values, as in multi-query attention
                one = replace(known, one_kv_head=True, sizes={**known.sizes, "Hkv": 1})
                one = one.with_remarks("It has one head of keys and values for all query heads.")
                found = _list_filled_states(one, leaves)
            if not found:
                trier.keep_attempt(Attempt(known, Progress.NO_MATRICES, _describe_leaves(leaves)))
            yield from found
        elif born is not None:
            attention = replace(form, kind=Kind.ATTENTION)
            yield from (each for made in _list_constructions(attention, layer, trier)
                        for each in list_array_forms(made, layer.call_parameters))
            return


def _list_filled_states(form: CallForm, leaves: Sequence[Leaf]) -> list[CallForm]:
    states = _list_possible_states(form, leaves)
    return [each for state in states for each in _fill_state(form, state)]


def _find_born(form: CallForm, trier: Trier) -> tuple[CallForm, ReturnedTree | None]:
    """Returns the unfilled layer's parameters, and its form, which says if a call makes them."""
    born = trier.call_born(form)
    if born is None or all(part.type_name != "UninitializedParameter" for part in born.parts):
        return form, born
    lazy = replace(form, family=CallableKind.LAZY)
    return lazy, trier.call_born(lazy)


def find_family(layer: ExaminedCallable) -> CallableKind:
    """Returns the family of a class. Raises TargetError for one that no known method calls."""
    found = next((_FAMILIES_BY_BASE[base] for base in layer.bases if base in _FAMILIES_BY_BASE),
                 None)
    if found is None and not layer.call_parameters:
        raise TargetError(f"{layer.target} is not a class of PyTorch, Equinox, Flax, Haiku or "
                          "Keras, and has no method `__call__`, `forward` or `call` that takes "
                          "arrays, so it cannot be found out how it is called. Write its adapter "
                          "by hand: docs/writing-an-adapter.md.")
    return found or CallableKind.PLAIN


def find_lift(layer: ExaminedCallable, family: CallableKind, process: CalleeProcess) -> str:
    """Returns the framework whose arrays a layer takes: Keras's backend, or its module's own."""
    backend = layer.backend
    if family is CallableKind.PLAIN:
        return list_lifts(layer, process)[0]
    if family is not CallableKind.KERAS:
        return "torch" if family is CallableKind.TORCH else "jax"
    return backend if backend in LIFTS else ""


def _list_constructions(form: CallForm, layer: ExaminedCallable,
                        trier: Trier) -> Iterator[CallForm]:
    """Lists the ways to construct it: what each parameter means, and the config that it takes."""
    made = layer.constructor_parameters
    means = find_roles(made, Site.CONSTRUCTOR)
    if form.kind is Kind.LAYER and not {"heads", "config"} & set(means.values()):
        form = replace(form, limits={**form.limits, "single_head": True})
    config = next((each for each in made if means.get(each.name) == "config"), None)
    options = list_choices([each for each in made if each is not config], means, form.kind,
                           Site.CONSTRUCTOR, form.lift)
    own_names = _FRAMEWORK_NAMES.get(form.family, ())
    optional = [each for each in made if not each.is_required and each.name not in own_names
                and means.get(each.name) not in _SEED_ROLES]
    usual = [(each, False) for each in list_combinations(options)]
    guesses = [(each, True) for each in _guess_sizes(form, made, means, options)]
    for construction, is_guess in (*usual, *guesses):
        left = {each.name: each.text for each in optional if each.name not in construction}
        sizes, limits = dict(form.sizes), dict(form.limits)
        if SQUARE_SIDE in construction.values():
            sizes["T"] = _SQUARE_TOKENS
        if "heads" in construction.values():  # perhaps under a name that is not known
            limits.pop("single_head", None)
        known = replace(form, construction=construction, left_defaults=left, is_guess=is_guess,
                        sizes=sizes, limits=limits)
        if config is None or not config.is_required:
            yield known
        if config is not None:
            given = {config.name: "config", **construction}
            for each in list_configs(layer, config.name, form.kind, construction, trier.process):
                yield _use_config(replace(known, construction=given), each)


def _use_config(form: CallForm, config: ConfigObject) -> CallForm:
    """Adds a config to the form, with a warning of what it switches off."""
    said = [f"WITHOUT ITS {name}: that is None in the adapter, so that everything else is judged."
            for name, text in config.fields.items() if text == OFF_IN_CONFIG]
    return replace(form, config=config, warnings=(*form.warnings, *said))


_GUESSED_SIZES = ("M", "heads", "D")
"""What a number of unknown name may be: a width, a number of heads, or the width of a head."""
_MOST_SIZES = 3
_SEED_ROLES = ("seed", "random_key")
"""The roles that decide initial parameters, which are filled with others."""
_FRAMEWORK_NAMES: Mapping[CallableKind, tuple[str, ...]] = {CallableKind.LINEN: ("parent", "name")}
"""By family, the parameters that the framework adds to every constructor."""
_SQUARE_TOKENS = 9
"""A number of tokens that fill a square; no other axis is as long."""


def _guess_sizes(form: CallForm, made: Sequence[TheirParameter], means: Mapping[str, str],
                 options: Choices) -> Iterator[Mapping[str, str]]:
    """Lists what constructor sizes of unknown names may be given: each number, as each size."""
    known, numbers = set(means.values()), [each.name for each in made if _may_be_size(each, means)]
    is_known = {"width", "heads"} <= known or "config" in known
    if form.kind is not Kind.LAYER or is_known or not 0 < len(numbers) <= _MOST_SIZES:
        return
    others = {name: texts for name, texts in options.items() if name not in numbers}
    base = next(iter(list_combinations(others)))
    guesses = (dict(zip(numbers, texts, strict=True))
               for texts in product(("", *_GUESSED_SIZES), repeat=len(numbers)))
    required = {each.name for each in made if each.is_required}
    for guess in guesses:
        given = {name: text for name, text in guess.items() if text}
        if given and not required & (guess.keys() - given.keys()):
            yield {**base, **given}


def _may_be_size(parameter: TheirParameter, means: Mapping[str, str]) -> bool:
    """Says whether a parameter of unknown name may be a size, by its default or its annotation."""
    if means.get(parameter.name):
        return False
    is_whole = isinstance(parameter.default, int) and not isinstance(parameter.default, bool)
    return parameter.annotation in ("", "int") if parameter.is_required else is_whole


def _list_calls(form: CallForm, called: Sequence[TheirParameter]) -> Iterator[CallForm]:
    """Lists the ways to call it; a layer with a memory may also attend to its input."""
    names = find_array_names(called) or STARRED_NAMES
    if len(names) == 3 and find_parameters("key", called):
        yield from _list_calls_with(form, called, names)
        return
    query, memory = find_query(called), find_memory(called)
    if memory and query:
        held = replace(form, limits={**form.limits, "one_memory": True})
        # of `latents` and `inputs` the names do not say which is which
        for inputs in ((query, memory), (memory, query)):
            yield from _list_calls_with(held, called, inputs)
    yield from _list_calls_with(form, called, names[:1])


def _list_calls_with(form: CallForm, called: Sequence[TheirParameter],
                     names: Sequence[str]) -> Iterator[CallForm]:
    """Lists the ways in which arrays of these names lie, and what else is passed."""
    rest = tuple(each for each in called if each.name not in names)
    options = list_choices(rest, find_roles(rest, Site.CALL), Kind.LAYER, Site.CALL, form.lift)
    for given in list_combinations(options):
        in_list = names[:1] == ("inputs",) and form.family is CallableKind.KERAS
        listed = list_arrangements(Kind.LAYER, len(names), in_list=True) if in_list else ()
        for arrangement in (*listed, *list_arrangements(Kind.LAYER, len(names))):
            yield replace(give_arguments(form, rest, given), arrangement=arrangement,
                          array_names=list_given_names(names, called))


def list_tree_forms(callee: ExaminedCallable, trier: Trier) -> Iterator[CallForm]:
    """Lists every form worth a try of a function that takes its parameters in trees."""
    parameters = callee.parameters
    roots = find_roots(parameters)
    if not roots:
        return
    known = trier.process.examine(callee.target, sources=True)
    for lift in list_lifts(known, trier.process):
        form = CallForm(callee.target, Kind.LAYER, CallableKind.TREE, lift)
        tree = find_tree(known, roots, _list_initialiser_sizes(form), trier.process)
        rest = tuple(each for each in parameters if each.name not in roots)
        names = find_array_names(rest)
        if parameters[0].name in names:  # else what comes first are the parameters
            names = ()
        if tree is None:
            continue
        for called in _list_calls(form, rest):
            given = called.array_names or names[:len(called.arrangement.arguments)]
            for stored in _allocate_caches(replace(called, array_names=given), known):
                for state in _list_possible_states(stored, tree.leaves):
                    expressions = {**state.expressions, **tree.other_values}
                    yield from _fill_state(replace(stored, holders=tree.holders),
                                           replace(state, expressions=expressions))


def _allocate_caches(form: CallForm, callee: ExaminedCallable) -> Iterator[CallForm]:
    """Lists the form with each kind of empty cache that it needs, or the form alone."""
    caches = list(list_allocated_caches(callee, form.lift))
    for name, empty in caches:
        yield replace(form, arguments={**form.arguments, name: empty},
                      limits={**form.limits, "cache": CACHE_ROOM})
    if not caches:
        yield form


def _list_initialiser_sizes(form: CallForm) -> Mapping[str, str]:
    """Returns, by what its parameter means, the Python of what an initialiser is given."""
    sizes = plain_problem(form).sizes
    lengths = {"width": sizes.H * sizes.D, "heads": sizes.H, "head_width": sizes.D,
               "inner_width": sizes.H * sizes.D}
    key = "jax.random.key(0)" if form.lift == "jax" else "np.random.default_rng(0)"
    return {**{name: str(length) for name, length in lengths.items()}, "random_key": key}


def _list_leaves(family: CallableKind, born: ReturnedTree | None) -> tuple[Leaf, ...]:
    """Lists the layer's parameters under the names that its family gives them."""
    found = list_tree_leaves(born) if born is not None else ()
    if family not in (CallableKind.TORCH, CallableKind.NNX, CallableKind.PLAIN):
        return found
    return tuple(replace(leaf, path=tuple(f".{step[2:-2]}" for step in leaf.path))
                 for leaf in found)


def _describe_leaves(leaves: Sequence[Leaf]) -> str:
    names = [f"{''.join(leaf.path).strip('.')} {leaf.shape}" for leaf in leaves]
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return (f"which of its parameters ({', '.join(names[:_MOST_SHOWN])}{more}) is which matrix "
            "could not be told")


def _list_possible_states(form: CallForm, leaves: Sequence[Leaf]) -> Iterator[FilledState]:
    sizes = plain_problem(form).sizes
    lengths = {"m": sizes.H * sizes.D, "h": sizes.H, "kv": sizes.Hkv, "d": sizes.D}
    is_grouped = form.is_told_groups or form.one_kv_head
    return list_states(leaves, lengths, TEMPLATES[form.lift], "Hkv" if is_grouped else "heads")


def _limit_biases(state: FilledState) -> Mapping[str, bool | str]:
    """Returns the limits that name the projections with a bias, where not all have one."""
    if not state.biased_projections:
        return {"has_biases": False}
    has_all = len(state.biased_projections) == len(PROJECTIONS) - (not state.projects_output)
    return {} if has_all else {"biases": " ".join(state.biased_projections)}


_PLACE_BIAS_NAME = re.compile(r"(rel|pos).*(bias|emb|table)|bias_table|attention_bias")
"""Matches the name of a parameter that is added to logits by the places of query and key."""


def _fill_state(form: CallForm, state: FilledState) -> Iterator[CallForm]:
    """Lists the form with a state: without a learned bias of places, whole, and without norms."""
    limits = {**form.limits, **_limit_biases(state)}
    if not state.projects_output:
        limits["projects_output"] = False
    known = replace(form, state=state.expressions, limits=limits)
    left = tuple("".join(path).strip('[]".') for path in state.initial_paths)
    known = replace(known, initial_parameters=left)
    is_torch = form.family is CallableKind.TORCH
    biases = tuple(name for name in left if _PLACE_BIAS_NAME.search(name.lower()))
    if is_torch and biases:
        said = (f"WITHOUT ITS BIAS: its {' and '.join(biases)} is set to 0 in the adapter, so "
                "that everything else is judged. What that adds to the logits is not.")
        yield replace(known, zero_tensors=biases, warnings=(*form.warnings, said))
    said = f"Parameters that keep their initial values: {', '.join(left)}."
    yield replace(known, remarks=(*form.remarks, said)) if left else known
    if not is_torch:
        return
    holders = dict.fromkeys(name.rpartition(".")[0] for name in left)
    if norms := tuple(name for name in holders if "norm" in name.lower()):
        said = f"Its {' and '.join(norms)} is left out, so that only attention is judged."
        yield replace(known, removed_parts=norms, remarks=(*form.remarks, said))


def limit_to_several_heads(form: CallForm, trier: Trier) -> CallForm:
    """Limits the form to two heads and more where the layer has other parameters with one head.
    Many layers leave out the projection of the output where one head is as wide as the model.
    """
    if not form.is_class or not form.state or form.limits.get("single_head") or form.fixed_heads:
        return form
    one_head = plain_problem(form, H=1, Hkv=1)
    if trier.is_right(form, one_head):
        return form
    bare = replace(form, state=None, reading=None, zero_tensors=(), filled_tensors={},
                   judged_part="")
    family = CallableKind.TORCH if form.family is CallableKind.LAZY else form.family
    known = {leaf.path for leaf in _list_leaves(family, trier.call_raw(bare, one_head))}
    names = {path: "".join(path).strip('[]".') for path in form.state if path not in known}
    missing = [name for name in names.values() if known and HEAD_PLACE not in name]
    if not missing:
        return form
    said = (f"With one head, as wide as the model, it has no {' and '.join(missing)}: it takes "
            "two heads and more.")
    return replace(form, needs_several_heads=True, remarks=(*form.remarks, said))


def find_query(parameters: Sequence[TheirParameter]) -> str:
    """Returns the name of the first input, or an empty text."""
    first = (*find_parameters("query", parameters),
             *(each for each in parameters if each.by_position))
    return next((each.name for each in first), "")


def find_memory(parameters: Sequence[TheirParameter]) -> str:
    """Returns the parameter that takes a memory, or an empty text: its name says so; it takes keys
    and none takes values; or it is the only required one that nothing is known of.
    """
    query, unknown = find_query(parameters), find_unknown(parameters, Site.CALL)
    others = [each.name for each in unknown if each.name != query]
    named = [each.name for each in find_parameters("context", parameters) if each.name != query]
    if not find_parameters("value", parameters):
        named += [each.name for each in find_parameters("key", parameters)]
    return next(iter((*named, *others[:len(others) == 1])), "")


def hand_memory(form: CallForm, parameters: Sequence[TheirParameter], trier: Trier) -> CallForm:
    """Passes a memory to a layer that is right for its own input, if it takes one. Left out, wrong
    attention to another input would never be judged; so a check tells what is wrong.
    """
    name, query = find_memory(parameters), find_query(parameters)
    if form.kind is not Kind.LAYER or not form.arrangement.is_one or not name or not query:
        return form
    limits = {word: limit for word, limit in form.limits.items() if word != "self_attention_only"}
    given = {other: text for other, text in form.arguments.items() if other != name}
    handed = replace(form, arrangement=replace(form.arrangement, arguments=("{q}", "{k}")),
                     array_names=(query, name), arguments=given,
                     limits={**limits, "one_memory": True})
    problem = plain_problem(handed)
    answer = trier.answer(handed, problem)
    if answer is None:
        said = f"With another input as its {name} it raises: attention to that is not judged."
        return form.with_remarks(said)
    gap = expect_usual(handed, problem).gap(answer.output.astype(np.float64))[1]
    said = (f"Its {name} is handed another input, but its output is then {gap}: attnspec check "
            f"says what is wrong. If {name} means something else, declare self_attention_only, "
            "and take it out of the adapter.")
    return replace(handed, remarks=(*form.remarks, said))
