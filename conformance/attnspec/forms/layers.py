"""The forms that a layer may have: how it is constructed and called, and which of its parameters is which matrix."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnspec.forms.arrangements import arrangements
from attnspec.forms.configs import configs_of
from attnspec.forms.form import At, Family, Form
from attnspec.forms.functions import array_names, attention_class_forms, named, with_given
from attnspec.forms.leaves import Leaf, leaves_in
from attnspec.forms.lookup import Parameter, made_by, parameters_of, theirs
from attnspec.forms.meaning import choices, combinations, roles
from attnspec.forms.posing import plain
from attnspec.forms.states import State, states
from attnspec.forms.trying import Trier
from attnspec.forms.vocabulary import VOCABULARIES
from attnspec.ground.errors import TargetError
from attnspec.ground.nouns import Kind

_BASES: Mapping[str, Family] = {
    "torch.nn.modules.module.Module": Family.TORCH, "equinox._module._module.Module": Family.EQUINOX,
    "flax.linen.module.Module": Family.LINEN, "flax.nnx.module.Module": Family.NNX,
    "haiku._src.module.Module": Family.HAIKU, "keras.src.layers.layer.Layer": Family.KERAS}
"""By base class, whose a class is."""
_CALLED: Mapping[Family, str] = {Family.TORCH: "forward", Family.KERAS: "call"}


def class_forms(target: str, layer: type[Any], trier: Trier) -> Iterator[Form]:
    """Every form of a class worth a try. Raises TargetError for a class of no known family."""
    family = family_of(target, layer)
    form = Form(target, Kind.LAYER, family, lift_of(family))
    made, called = made_by(layer), call_of(layer, family)
    for construction in _constructions(form, layer, made):
        for known in _calls(construction, called):
            born = trier.returned(known, plain(known))
            leaves = _leaves(family, born)
            if leaves:
                yield from (_with_state(known, state) for state in _states(known, leaves))
            elif born is not None:
                yield from attention_class_forms(form, made, called)
                return


def family_of(target: str, layer: type[Any]) -> Family:
    """Whose class it is. Raises TargetError."""
    for base in layer.__mro__:
        name = f"{base.__module__}.{base.__qualname__}"
        if name in _BASES:
            return _BASES[name]
    families = ", ".join(sorted(family.value.rpartition(" ")[2] for family in _BASES.values()))
    raise TargetError(f"{target} is a class, and none of {families}, so nobody can tell how it is constructed and where "
                      "its matrices are. Write its adapter by hand: docs/writing-an-adapter.md.")


def lift_of(family: Family) -> str:
    """Whose arrays its layers take; of Keras, those of its backend."""
    if family is not Family.KERAS:
        return "torch" if family is Family.TORCH else "jax"
    import keras  # noqa: PLC0415  (it is here: the class is its)

    return keras.backend.backend() if keras.backend.backend() in ("torch", "jax") else ""


def call_of(layer: type[Any], family: Family) -> tuple[Parameter, ...]:
    """The parameters of its call."""
    function = inspect.unwrap(getattr(layer, _CALLED.get(family, "__call__")))
    return parameters_of(function)[1:]


def _constructions(form: Form, layer: type[Any], made: Sequence[Parameter]) -> Iterator[Form]:
    means = roles(made, At.CONSTRUCTOR)
    if not {"heads", "config"} & set(means.values()):
        form = replace(form, limits={**form.limits, "single_head": True})
    config = next((each for each in made if means.get(each.name) == "config"), None)
    options = choices([each for each in made if each is not config], means, Kind.LAYER, At.CONSTRUCTOR, form.lift)
    for construction in combinations(options):
        left = {each.name: each.text for each in made
                if each.name not in construction and not each.is_required}
        known = replace(form, construction=construction, left=left)
        if config is None:
            yield known
        else:
            given, others = {config.name: "config", **construction}, dict.fromkeys(construction, 0)
            yield from (replace(known, construction=given, config=each) for each in configs_of(layer, config, others))


def _calls(form: Form, called: Sequence[Parameter]) -> Iterator[Form]:
    """How its arrays lie, and what else its call is given."""
    names = array_names(called)
    names = names if len(names) == 3 and theirs("key", called) else names[:1]
    rest = tuple(each for each in called if each.name not in names)
    options = choices(rest, roles(rest, At.CALL), Kind.LAYER, At.CALL, form.lift)
    for given in combinations(options):
        in_list = names[:1] == ("inputs",) and form.family is Family.KERAS
        for arrangement in arrangements(Kind.LAYER, len(names), in_list=in_list):
            yield replace(with_given(form, rest, given), arrangement=arrangement, names=named(names, called))


def _leaves(family: Family, born: object) -> tuple[Leaf, ...]:
    """Its parameters as its family names them."""
    found = leaves_in(born)
    if family in (Family.TORCH, Family.NNX):
        return tuple(Leaf(tuple(f".{step.strip('[]').strip(chr(34))}" for step in leaf.path), leaf.shape) for leaf in found)
    return found


def _states(form: Form, leaves: Sequence[Leaf]) -> Iterator[State]:
    sizes = plain(form).sizes
    lengths = {"m": sizes.H * sizes.D, "h": sizes.H, "d": sizes.D}
    texts = (*form.construction.values(), *(form.config.fields.values() if form.config else ()))
    return states(leaves, lengths, VOCABULARIES[form.lift], "Hkv" if "Hkv" in texts else "heads")


def _with_state(form: Form, state: State) -> Form:
    limits = {**({} if state.has_biases else {"has_biases": False}),
              **({} if state.projects_output else {"projects_output": False})}
    left = ", ".join("".join(path).strip('[]".') for path in state.left)
    said = (f"Parameters that keep the values they are born with: {left}.",) if left else ()
    return replace(form, state=state.made, limits={**form.limits, **limits}, remarks=(*form.remarks, *said))
