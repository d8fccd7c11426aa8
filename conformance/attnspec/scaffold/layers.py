"""The forms that a function on arrays may have, and a layer: how it is constructed and called, and which of its
parameters is which matrix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from attnspec.core.errors import TargetError
from attnspec.core.nouns import Kind
from attnspec.host.lifts import LIFTS
from attnspec.scaffold.allocated import ROOM, allocated_caches
from attnspec.scaffold.arrangements import arrangements, of_one_query
from attnspec.scaffold.examined import Examined
from attnspec.scaffold.form import SIDE, VOCABULARIES, At, CallableKind, CallForm, Config
from attnspec.scaffold.lookup import TheirParameter, theirs
from attnspec.scaffold.meaning import Choices, choices, combinations, roles
from attnspec.scaffold.memory import memory_in, query_in
from attnspec.scaffold.parameters.configs import OFF_IN_CONFIG, configs_of
from attnspec.scaffold.parameters.states import PROJECTIONS, State, states
from attnspec.scaffold.parameters.trees import Leaf, Tree, leaves_in, roots_of, tree_of
from attnspec.scaffold.probe_problems import plain
from attnspec.scaffold.there import There
from attnspec.scaffold.trial_adapter import Attempt, Progress, Trier
from attnspec.subjects.call import ReturnedTree

LISTED = ("inputs", "input")
ONE_QUERY = "It takes one query a sequence only: T = 1."


def function_forms(callee: Examined, trier: Trier) -> Iterator[CallForm]:
    """Every form of a function worth a try, the likeliest first."""
    lifts = lifts_of(callee, trier.there)
    for lift in lifts:
        yield from array_forms(CallForm(callee.target, lift=lift), callee.parameters)
    for lift in lifts if trier.nearest is None or trier.nearest.step is not Progress.OTHER_NUMBERS else ():
        yield from _forms_of_one_query(CallForm(callee.target, lift=lift), callee.parameters)


def _forms_of_one_query(form: CallForm, parameters: Sequence[TheirParameter]) -> Iterator[CallForm]:
    """The form with its query, which has no axis of queries, in every arrangement: for what answers nothing else, since
    what maps over axes takes one less as well.
    """
    names = array_names(parameters)
    rest = tuple(each for each in parameters if each.name not in names)
    for given in combinations(choices(rest, roles(rest, At.CALL), form.kind, At.CALL, form.lift)):
        alone = replace(with_given(form, rest, given), sizes={"T": 1}, remarks=(*form.remarks, ONE_QUERY))
        for arrangement in of_one_query(len(names)):
            yield replace(alone, arrangement=arrangement, names=named(names, parameters))


def lifts_of(callee: Examined, there: There) -> tuple[str, ...]:
    """The frameworks whose tensors it may take, likeliest first: those its module mentions, then whatever is there."""
    root = callee.module.partition(".")[0]
    meant = [lift for lift in LIFTS if lift in (root, *callee.packages)]
    present = [] if meant else ["", *(lift for lift in LIFTS if there.has(lift))]
    return tuple(dict.fromkeys((*meant, *present, "")))


def array_forms(form: CallForm, parameters: Sequence[TheirParameter]) -> Iterator[CallForm]:
    """The form with its arrays in every arrangement, and its other parameters as their names say."""
    names = array_names(parameters)
    rest = tuple(each for each in parameters if each.name not in names)
    in_list = len(names) == 1 and names[0] in LISTED
    options = choices(rest, roles(rest, At.CALL), form.kind, At.CALL, form.lift)
    for given in combinations(options):
        known = with_given(form, rest, given)
        for arrangement in arrangements(form.kind, len(names), in_list=in_list):
            yield replace(known, arrangement=arrangement, names=named(names, parameters))


def with_given(form: CallForm, rest: Sequence[TheirParameter], given: Mapping[str, str]) -> CallForm:
    """The form whose call is given this, and leaves the rest at its defaults."""
    left = {each.name: each.text for each in rest if each.name not in given and not each.is_required}
    only_by_position = any(each.kind is each.kind.POSITIONAL_ONLY for each in rest)
    if not only_by_position:
        return replace(form, given=given, left={**form.left, **left})
    everything = {each.name: given.get(each.name) or each.text or "None" for each in rest}
    return replace(form, given=everything, by_position=tuple(everything))


def array_names(parameters: Sequence[TheirParameter]) -> tuple[str, ...]:
    """The parameters that are arrays: query, key and value; query and a pair; all in one; or the first three."""
    query, key, value = (theirs(word, parameters) for word in ("query", "key", "value"))
    packed, pair = theirs("packed", parameters), theirs("packed_pair", parameters)
    if query and key and value:
        return query[0].name, key[0].name, value[0].name
    if packed:
        return (packed[0].name,)
    if query and pair:
        return query[0].name, pair[0].name
    if query and query[0].name in LISTED:
        return (query[0].name,)
    return tuple(each.name for each in parameters if each.by_position)[:3]


_STARRED = ("",)
"""The name of the one input of what takes it by `*args`."""


def named(names: Sequence[str], parameters: Sequence[TheirParameter]) -> tuple[str, ...]:
    """The names by which the arrays are given; none where they come first, in our order, and may be given so, or have
    none.
    """
    if tuple(names) == _STARRED:
        return ()
    first = parameters[:len(names)]
    is_usual = tuple(each.name for each in first) == tuple(names) and all(each.by_position for each in first)
    return () if is_usual else tuple(names)


_BASES: Mapping[str, CallableKind] = {
    "torch.nn.modules.module.Module": CallableKind.TORCH, "equinox._module._module.Module": CallableKind.EQUINOX,
    "flax.linen.module.Module": CallableKind.LINEN, "flax.nnx.module.Module": CallableKind.NNX,
    "haiku._src.module.Module": CallableKind.HAIKU, "keras.src.layers.layer.Layer": CallableKind.KERAS}
"""By base class, whose a class is."""
_SHOWN = 4  # parameters in a message


def class_forms(layer: Examined, trier: Trier) -> Iterator[CallForm]:
    """Every form of a class worth a try. Raises TargetError for a class of no known family."""
    family = family_of(layer)
    lift = lift_of(layer, family, trier.there)
    form = CallForm(layer.target, Kind.LAYER, family, lift, called=called_as(layer, family))
    if trier.gathered:
        form = replace(form, gathered=trier.gathered.names, gathers_dict=trier.gathered.is_dict,
                       remarks=(trier.gathered.says,))
    for called_so in (each for made in _constructed(form, layer, trier) for each in _calls(made, layer.call)):
        known, born = _born(called_so, trier)
        if leaves := _leaves(family, born):
            found = _with_states(known, leaves) or _with_states(_of_one_kv_head(known), leaves)
            if not found:
                trier.keep(Attempt(known, Progress.NO_MATRICES, _not_told(leaves)))
            yield from found
        elif born is not None:
            attention = replace(form, kind=Kind.ATTENTION)
            yield from (each for made in _constructed(attention, layer, trier)
                        for each in array_forms(made, layer.call))
            return


def _with_states(form: CallForm, leaves: Sequence[Leaf]) -> list[CallForm]:
    """The form with its parameters in every state worth a try."""
    return [each for state in _states(form, leaves) for each in _with_state(form, state)]


def _of_one_kv_head(form: CallForm) -> CallForm:
    """The form for one head of keys and values (multi-query attention), whatever the number of query heads."""
    return replace(form, one_kv_head=True, sizes={**form.sizes, "Hkv": 1},
                   remarks=(*form.remarks, "It has one head of keys and values for all query heads."))


def _born(form: CallForm, trier: Trier) -> tuple[CallForm, ReturnedTree | None]:
    """The layer's parameters as it is born; and its form, which says whether a first call has to make them."""
    born = trier.born(form)
    if not _is_lazy(born):
        return form, born
    lazy = replace(form, family=CallableKind.LAZY)
    return lazy, trier.born(lazy)


def family_of(layer: Examined) -> CallableKind:
    """Whose class it is. Raises TargetError for one of no framework that has no method to call it by."""
    found = next((_BASES[base] for base in layer.bases if base in _BASES), None)
    if found is None and not layer.call:
        raise TargetError(f"{layer.target} is not a class of PyTorch, Equinox, Flax, Haiku or Keras, and has no method "
                          "`__call__`, `forward` or `call` that takes arrays, so it cannot be found out how it is "
                          "called. Write its adapter by hand: docs/writing-an-adapter.md.")
    return found or CallableKind.PLAIN


def called_as(layer: Examined, family: CallableKind) -> str:
    """The method by which an object of no framework is called; empty where the object itself is."""
    return layer.called if family is CallableKind.PLAIN and layer.called != "__call__" else ""


def lift_of(layer: Examined, family: CallableKind, there: There) -> str:
    """Whose arrays its layers take; of Keras, those of its backend; of no framework, those that its module uses."""
    backend = layer.backend
    if family is CallableKind.PLAIN:
        return lifts_of(layer, there)[0]
    if family is not CallableKind.KERAS:
        return "torch" if family is CallableKind.TORCH else "jax"
    return backend if backend in LIFTS else ""


def _constructed(form: CallForm, layer: Examined, trier: Trier) -> Iterator[CallForm]:
    """How it is constructed: what each parameter means, and the config that it wants."""
    made = layer.constructor
    means = roles(made, At.CONSTRUCTOR)
    if form.kind is Kind.LAYER and not {"heads", "config"} & set(means.values()):
        form = replace(form, limits={**form.limits, "single_head": True})
    config = next((each for each in made if means.get(each.name) == "config"), None)
    options = choices([each for each in made if each is not config], means, form.kind, At.CONSTRUCTOR, form.lift)
    usual = [(each, False) for each in combinations(options)]
    guesses = [(each, True) for each in _with_unknown_sizes(form, made, means, options)]
    for construction, is_guess in (*usual, *guesses):
        left = {each.name: each.text for each in made if each.name not in construction and not each.is_required
                and means.get(each.name) not in _OF_INITIAL_VALUES and each.name not in _OF_FAMILY.get(form.family, ())}
        sizes = {**form.sizes, "T": _SQUARE} if SIDE in construction.values() else form.sizes
        known = replace(form, construction=construction, left=left, is_guess=is_guess, sizes=sizes)
        if "heads" in construction.values() and "single_head" in form.limits:  # of another name than one knows
            known = replace(known, limits={name: limit for name, limit in form.limits.items() if name != "single_head"})
        if config is None or not config.is_required:
            yield known
        if config is not None:
            given = {config.name: "config", **construction}
            yield from (_of_config(replace(known, construction=given), each)
                        for each in configs_of(layer, config.name, form.kind, construction, trier.there))


def _of_config(form: CallForm, config: Config) -> CallForm:
    """The form made from a config; with a warning that says what that switches off."""
    said = [f"WITHOUT ITS {name}: that is None in the adapter, so that everything else is judged."
            for name, text in config.fields.items() if text == OFF_IN_CONFIG]
    return replace(form, config=config, warnings=(*form.warnings, *said))


_SIZES = ("M", "heads", "D")
"""What a number may be whose name says nothing: a width, a number of heads, the width of one."""
_MOST_SIZES = 3
_OF_INITIAL_VALUES = ("seed", "random_key")
"""What tells a constructor which values its parameters begin with; they are filled with others."""
_OF_FAMILY: Mapping[CallableKind, tuple[str, ...]] = {CallableKind.LINEN: ("parent", "name")}
"""What a framework adds to every constructor of its own, for its bookkeeping."""
_SQUARE = 9
"""Tokens that fill a square; no other axis is as long."""


def _with_unknown_sizes(form: CallForm, made: Sequence[TheirParameter], means: Mapping[str, str],
                        options: Choices) -> Iterator[Mapping[str, str]]:
    """What a constructor is given whose widths and number of heads have names that nobody knows: every one of its
    numbers may be each of these, unless its default will do. A wrong guess is no attention, or none at another width.
    """
    known, numbers = set(means.values()), [each.name for each in made if _may_be_size(each, means)]
    if form.kind is not Kind.LAYER or not 0 < len(numbers) <= _MOST_SIZES or {"width", "heads"} <= known or (
            "config" in known):
        return
    base = next(iter(combinations({name: texts for name, texts in options.items() if name not in numbers})))
    guesses = (dict(zip(numbers, texts, strict=True)) for texts in product(("", *_SIZES), repeat=len(numbers)))
    required = {each.name for each in made if each.is_required}
    for guess in guesses:
        given = {name: text for name, text in guess.items() if text}
        if given and not required & (guess.keys() - given.keys()):
            yield {**base, **given}


def _may_be_size(parameter: TheirParameter, means: Mapping[str, str]) -> bool:
    """Whether a parameter of an unknown name may be a number: by its default, or its annotation where it has none."""
    if means.get(parameter.name):
        return False
    is_whole = isinstance(parameter.default, int) and not isinstance(parameter.default, bool)
    return parameter.annotation in ("", "int") if parameter.is_required else is_whole


def _calls(form: CallForm, called: Sequence[TheirParameter]) -> Iterator[CallForm]:
    """How its arrays lie, and what else its call is given; what has a memory may be left to attend to its input."""
    names = array_names(called) or _STARRED
    if len(names) == 3 and theirs("key", called):
        yield from _called(form, called, names)
        return
    if (memory := memory_in(called)) and query_in(called):
        held, pair = replace(form, limits={**form.limits, "one_memory": True}), (query_in(called), memory)
        for inputs in (pair, pair[::-1]):  # of `latents` and `inputs` the names do not say which is which
            yield from _called(held, called, inputs)
    yield from _called(form, called, names[:1])


def _called(form: CallForm, called: Sequence[TheirParameter], names: Sequence[str]) -> Iterator[CallForm]:
    """How its arrays, of these names, lie, and what else its call is given."""
    rest = tuple(each for each in called if each.name not in names)
    options = choices(rest, roles(rest, At.CALL), Kind.LAYER, At.CALL, form.lift)
    for given in combinations(options):
        in_list = names[:1] == ("inputs",) and form.family is CallableKind.KERAS
        listed = arrangements(Kind.LAYER, len(names), in_list=True) if in_list else ()
        for arrangement in (*listed, *arrangements(Kind.LAYER, len(names))):
            yield replace(with_given(form, rest, given), arrangement=arrangement, names=named(names, called))


def tree_forms(callee: Examined, trier: Trier) -> Iterator[CallForm]:
    """Every form of a function over parameters worth a try; none for a function that is handed no parameters."""
    parameters = callee.parameters
    roots = roots_of(parameters)
    if not roots:
        return
    known = trier.there.examined(callee.target, sources=True)
    for lift in lifts_of(known, trier.there):
        form = CallForm(callee.target, Kind.LAYER, CallableKind.TREE, lift)
        tree = tree_of(known, roots, _given_to_initialisers(form), trier.there)
        rest = tuple(each for each in parameters if each.name not in roots)
        names = array_names(rest)
        behind = () if parameters[0].name in names else names  # what comes first there are the parameters
        if tree is not None:
            for called in _calls(form, rest):
                given = called.names or behind[:len(called.arrangement.arguments)]
                for stored in _with_room(replace(called, names=given), known):
                    yield from _over(stored, tree)


def _with_room(form: CallForm, callee: Examined) -> Iterator[CallForm]:
    """The form; handed an empty cache in every way where it wants one."""
    caches = list(allocated_caches(callee, form.lift))
    for name, empty in caches:
        yield replace(form, given={**form.given, name: empty}, limits={**form.limits, "cache": ROOM})
    if not caches:
        yield form


def _over(form: CallForm, tree: Tree) -> Iterator[CallForm]:
    """The form with its parameters in every state worth a try."""
    for state in _states(form, tree.leaves):
        whole = replace(state, made={**state.made, **tree.others})
        yield from _with_state(replace(form, holders=tree.holders), whole)


def _given_to_initialisers(form: CallForm) -> Mapping[str, str]:
    """By what its parameter means, the Python of what an initialiser is given."""
    sizes = plain(form).sizes
    lengths = {"width": sizes.H * sizes.D, "heads": sizes.H, "head_width": sizes.D, "inner_width": sizes.H * sizes.D}
    key = "jax.random.key(0)" if form.lift == "jax" else "np.random.default_rng(0)"
    return {**{name: str(length) for name, length in lengths.items()}, "random_key": key}


def _is_lazy(born: ReturnedTree | None) -> bool:
    """Whether PyTorch has yet to learn the shapes of these parameters."""
    return born is not None and any(part.type_name == "UninitializedParameter" for part in born.parts)


def _leaves(family: CallableKind, born: ReturnedTree | None) -> tuple[Leaf, ...]:
    """Its parameters as its family names them."""
    found = leaves_in(born) if born is not None else ()
    if family in (CallableKind.TORCH, CallableKind.NNX, CallableKind.PLAIN):
        return tuple(Leaf(tuple(f".{step[2:-2]}" for step in leaf.path), leaf.shape) for leaf in found)
    return found


def _not_told(leaves: Sequence[Leaf]) -> str:
    names = [f"{''.join(leaf.path).strip('.')} {leaf.shape}" for leaf in leaves]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"which of its parameters ({', '.join(names[:_SHOWN])}{more}) is which matrix could not be told"


def _states(form: CallForm, leaves: Sequence[Leaf]) -> Iterator[State]:
    sizes = plain(form).sizes
    lengths = {"m": sizes.H * sizes.D, "h": sizes.H, "kv": sizes.Hkv, "d": sizes.D}
    is_grouped = form.is_told_groups or form.one_kv_head
    return states(leaves, lengths, VOCABULARIES[form.lift], "Hkv" if is_grouped else "heads")


def _of_biases(state: State) -> Mapping[str, bool | str]:
    """The limits that say which projections have a bias, where not all have."""
    if not state.biased:
        return {"has_biases": False}
    has_all = len(state.biased) == len(PROJECTIONS) - (not state.projects_output)
    return {} if has_all else {"biases": " ".join(state.biased)}


_BIAS_OF_PLACES = re.compile(r"(rel|pos).*(bias|emb|table)|bias_table|attention_bias")
"""What the name of a parameter has in it that is added to logits by the places of query and key."""


def _with_state(form: CallForm, state: State) -> Iterator[CallForm]:
    """Without a bias of places that it learns; with all that it has; and, if it normalises, without its norms."""
    limits = {**form.limits, **_of_biases(state),
              **({} if state.projects_output else {"projects_output": False})}
    known = replace(form, state=state.made, limits=limits)
    left = ["".join(path).strip('[]".') for path in state.left]
    known = replace(known, initial=tuple(left))
    is_torch = form.family is CallableKind.TORCH
    if biases := tuple(name for name in left if is_torch and _BIAS_OF_PLACES.search(name.lower())):
        said = (f"WITHOUT ITS BIAS: its {' and '.join(biases)} is set to 0 in the adapter, so that everything else is "
                f"judged. What that adds to the logits is not.")
        yield replace(known, zeroed=biases, warnings=(*form.warnings, said))
    said = f"Parameters that keep their initial values: {', '.join(left)}."
    yield replace(known, remarks=(*form.remarks, said)) if left else known
    if not is_torch:
        return
    norms = tuple(dict.fromkeys(name.rpartition(".")[0] for name in left if "norm" in name.rpartition(".")[0].lower()))
    if norms:
        said = f"Its {' and '.join(norms)} is left out, so that only attention is judged."
        yield replace(known, without=norms, remarks=(*form.remarks, said))
