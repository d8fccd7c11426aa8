"""How a class of each family becomes something that can be called: constructed, and its parameters filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attnspec.core.nouns import Kind
from attnspec.scaffold.form import At, CallableKind, CallForm, ModuleMode
from attnspec.scaffold.parameters.states import HEAD
from attnspec.scaffold.writing.imports import alias
from attnspec.scaffold.writing.lines import arguments, broken, handed, helper, keywords, literal, words_of

LAYER = "_layer"
_CALLED_WHEN_BORN = (CallableKind.LINEN, CallableKind.HAIKU)
"""Whose parameters a call makes."""
_BORN = "jax.random.key(0)"
_RETURN = "    return layer"


def layer_lines(form: CallForm, name: str = LAYER) -> list[str]:
    """The helper of this name that gives the layer, ready to be called; while nobody knows its parameters, as it is
    born.
    """
    doc = "The layer with these parameters, ready to be called." if form.state else "The layer, ready to be called."
    made = _MADE[form.family](form)
    is_born = form.kind is Kind.LAYER and form.state is None and form.family not in _CALLED_WHEN_BORN
    wrapped = _wrapped(form, made) if (form.replaced or form.gathered) and not is_born else _at_once(made)
    lines = [*_config(form), *wrapped]
    return helper(form, name, f"Callable[..., {words_of(form).array}]", doc, lines)


def _wrapped(form: CallForm, made: list[str]) -> list[str]:
    """With what gathers its inputs, and puts something in the place of what turns, for as long as it is called."""
    returned = made[-1].removeprefix(_RETURN[:-len("layer")])
    lines = [*made[:-1], *([] if returned == "layer" else [f"    layer = {returned}"]), ""]
    call = "layer(*arrays, **more)"
    lines.append(f"    def call(*arrays: {words_of(form).array}, **more: Any) -> Any:")
    if form.gathered:
        names = ", ".join(f'"{name}"' for name in form.gathered) + "," * (len(form.gathered) == 1)
        gathered = "{name: more.pop(name) for name in names if name in more}" if form.gathers_dict else (
            "tuple(more.pop(name) for name in names)")
        lines += [f"        names = ({names})", "        more.update(zip(names, arrays))"]
        lines.append(f"        inputs = {gathered}")
        call = "layer(inputs, **more)"
    indent = 8
    for place, text in form.replaced.items():
        lines += broken("with patch.object(", [place, text], "):", indent)
        indent += 4
    return [*lines, f"{' ' * indent}return {call}", "", "    return call"]


def _config(form: CallForm) -> list[str]:
    if form.config is None:
        return []
    fields = form.config.fields
    if form.config.is_dict:
        return broken("config = {", [f'"{name}": {text}' for name, text in fields.items()], "}")
    return broken(f"config = {form.config.name or 'SimpleNamespace'}(", keywords(fields), ")")


def _at_once(lines: list[str]) -> list[str]:
    """Without a name for what is returned as it is made."""
    is_made_only = lines[-1] == _RETURN and (len(lines) == 2 or lines[-2].startswith("    )"))
    return [lines[0].replace("layer = ", "return ", 1), *lines[1:-1]] if is_made_only else lines


def _constructed(form: CallForm, begin: str = "layer = ", end: str = ")", **more: str) -> list[str]:
    given = {**arguments(form, At.CONSTRUCTOR), **more}
    return broken(f"{begin}{alias(form)}(", keywords(given), end)


def _first_call(form: CallForm, makes: str) -> list[str]:
    return broken("layer(", [*handed(form), *keywords(form.given)], f")  # a first call makes its {makes}")


def _entries(begin: str, entries: Iterable[str], end: str = "}", indent: int = 4) -> list[str]:
    """A line for each entry."""
    space = " " * indent
    return [f"{space}{begin}", *(f"{space}    {entry}," for entry in entries), f"{space}{end}"]


def _entry(name: str, text: str) -> str:
    """An entry of a state; of what each head has in a list, one for each head."""
    return f'**{{f"{name}": {text} for head in range(heads)}}' if HEAD in name else f'"{name}": {text}'


def _part(name: str) -> str:
    """What is called so in a module of PyTorch, as Python: `layer.to_out[0]` of `to_out.0`."""
    return "layer" + "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in name.split("."))


_SILENCED = ["    for part in layer.modules():",
             "        if isinstance(part, nn.Dropout):",
             "            part.p = 0.0  # its constructor does not take this rate"]


def _torch(form: CallForm) -> list[str]:
    made = _constructed(form, end=").to(query.dtype)")
    made += [f"    layer.{'eval' if form.mode is ModuleMode.EVALUATION else 'train'}()"]
    made += _SILENCED if form.mode is ModuleMode.TRAINING_WITHOUT_DROPOUT else []
    made += [f"    {_part(name)} = nn.Identity()" for name in form.without]
    made += _first_call(form, "parameters") if form.family is CallableKind.LAZY else []
    made += ["    with torch.no_grad():"] if form.zeroed or form.filled else []
    made += [f"        {_part(name)}.zero_()" for name in form.zeroed]
    made += [f"        {_part(name)}.fill_({number})" for name, number in form.filled.items()]
    if form.state:
        named = {"".join(path).lstrip("."): text for path, text in form.state.items()}
        made += [*_entries("state = {", (_entry(name, text) for name, text in named.items())),
                 "    with torch.no_grad():",
                 "        for name, array in state.items():",
                 "            layer.get_parameter(name).copy_(array)"]
    return [*made, *(_judged(form) if form.judged else [_RETURN])]


def _judged(form: CallForm) -> list[str]:
    """What gives the output of a submodule."""
    array = words_of(form).array
    return ["    outputs = []",
            f"    {_part(form.judged)}.register_forward_hook(lambda _, given, output: outputs.append(output))", "",
            f"    def call(*arrays: {array}, **more: {array} | None) -> {array}:", "        layer(*arrays, **more)",
            f"        return outputs.pop()  # of its {form.judged}, before its input is added", "", "    return call"]


def _equinox(form: CallForm) -> list[str]:
    lines = _constructed(form)
    if not form.state:
        return [*lines, _RETURN]
    places = [f"layer{''.join(path)}" for path in form.state]
    return [*lines, "    return equinox.tree_at(", *_entries("lambda layer: (", places, "),", 8), "        layer,",
            *_entries("(", form.state.values(), "),", 8), "    )"]


def _linen(form: CallForm) -> list[str]:
    """Its parameters are kept apart from it."""
    lines = _constructed(form)
    if form.state is None:
        return [*lines, f"    return partial(layer.init, {_BORN})"]
    return [*lines, *literal(form.state, {}, "variables = "), "    return partial(layer.apply, variables)"]


def _nnx(form: CallForm) -> list[str]:
    filled = [f"    layer{''.join(path)} = nnx.Param({text})" for path, text in (form.state or {}).items()]
    return [*_constructed(form), *filled, _RETURN]


def _haiku(form: CallForm) -> list[str]:
    """Its layers live inside a function that is transformed."""
    array = words_of(form).array
    inside = [f"    {line}" for line in _constructed(form, "return ", ")(*arrays, **more)")]
    lines = [f"    def call(*arrays: {array}, **more: {array} | None) -> {array}:", *inside, ""]
    if form.state is None:
        return [*lines, f"    return partial(haiku.transform(call).init, {_BORN})"]
    return [*lines, *literal(form.state, {}, "variables = "),
            "    return partial(haiku.transform(call).apply, variables, None)"]


def _keras(form: CallForm) -> list[str]:
    lines = _constructed(form, dtype="keras.backend.standardize_dtype(query.dtype)")
    if not form.state:
        return [*lines, _RETURN]
    filled = _entries("layer.set_weights([", form.state.values(), "])")
    return [*lines, *_first_call(form, "variables"), *filled, _RETURN]


def _plain(form: CallForm) -> list[str]:
    """Its matrices are attributes of the object."""
    filled = [f"    layer{''.join(path)} = {text}" for path, text in (form.state or {}).items()]
    is_born = form.kind is Kind.LAYER and form.state is None
    return [*_constructed(form), *filled, f"{_RETURN}.{form.called}" if form.called and not is_born else _RETURN]


_MADE: Mapping[CallableKind, Callable[[CallForm], list[str]]] = {
    CallableKind.TORCH: _torch, CallableKind.LAZY: _torch, CallableKind.EQUINOX: _equinox, CallableKind.LINEN: _linen,
    CallableKind.NNX: _nnx, CallableKind.HAIKU: _haiku, CallableKind.KERAS: _keras, CallableKind.PLAIN: _plain}

BORN: Mapping[CallableKind, str] = {
    CallableKind.TORCH: "dict(layer.named_parameters())", CallableKind.LAZY: "({0}, dict(layer.named_parameters()))[1]",
    CallableKind.EQUINOX: "layer", CallableKind.LINEN: "{0}", CallableKind.HAIKU: "{0}",
    CallableKind.NNX: "nnx.to_pure_dict(nnx.state(layer, nnx.Param))",
    CallableKind.KERAS: "({0}, {{variable.path: variable for variable in layer.weights}})[1]",
    CallableKind.PLAIN: "{{name: each for name, each in vars(layer).items() if isinstance(each, {array})}}"}
"""What tells the parameters of a layer as it is born; `{0}` is a call of it."""
