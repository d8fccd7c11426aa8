"""Writes how a class of each family is constructed and its parameters are filled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attnspec.core.nouns import Kind
from attnspec.scaffold.form import CallableKind, CallForm, ModuleMode, Site
from attnspec.scaffold.parameters.states import HEAD_PLACE
from attnspec.scaffold.writing.lines import (
    break_call,
    find_alias,
    templates_of,
    write_arguments,
    write_arrays,
    write_helper,
    write_keywords,
    write_tree,
)

LAYER_HELPER = "_layer"
_CALLED_WHEN_BORN = (CallableKind.LINEN, CallableKind.HAIKU)
_RANDOM_KEY = "jax.random.key(0)"
_RETURN_LINE = "    return layer"


def write_layer(form: CallForm, name: str = LAYER_HELPER) -> list[str]:
    """Writes the helper that gives the layer, filled once its parameters are known."""
    filled = " with these parameters" if form.state else ""
    doc = f"The layer{filled}, ready to be called."
    made = _WRITERS_BY_FAMILY[form.family](form)
    is_born = form.kind is Kind.LAYER and form.state is None and form.family not in _CALLED_WHEN_BORN
    if (form.replacements or form.gathered_inputs) and not is_born:
        made = _wrap_call(form, made)
    else:
        made = _return_at_once(made)
    returns = f"Callable[..., {templates_of(form).array_type}]"
    return write_helper(form, name, returns, doc, [*_write_config(form), *made])


def _wrap_call(form: CallForm, made: list[str]) -> list[str]:
    """Wraps the call to gather its inputs and to replace what turns while it runs."""
    returned = made[-1].removeprefix(_RETURN_LINE[:-len("layer")])
    lines = [*made[:-1], *([] if returned == "layer" else [f"    layer = {returned}"]), ""]
    call = "layer(*arrays, **more)"
    lines.append(f"    def call(*arrays: {templates_of(form).array_type}, **more: Any) -> Any:")
    if form.gathered_inputs:
        names = ", ".join(f'"{name}"' for name in form.gathered_inputs) + "," * (len(form.gathered_inputs) == 1)
        gathered = "{name: more.pop(name) for name in names if name in more}" if form.gathers_dict else (
            "tuple(more.pop(name) for name in names)")
        lines += [f"        names = ({names})", "        more.update(zip(names, arrays))"]
        lines.append(f"        inputs = {gathered}")
        call = "layer(inputs, **more)"
    indent = 8
    for place, text in form.replacements.items():
        lines += break_call("with patch.object(", [place, text], "):", indent)
        indent += 4
    return [*lines, f"{' ' * indent}return {call}", "", "    return call"]


def _write_config(form: CallForm) -> list[str]:
    if form.config is None:
        return []
    fields = form.config.fields
    if form.config.is_dict:
        return break_call("config = {", [f'"{name}": {text}' for name, text in fields.items()],
                          "}")
    return break_call(f"config = {form.config.name or 'SimpleNamespace'}(",
                      write_keywords(fields), ")")


def _return_at_once(lines: list[str]) -> list[str]:
    """Returns what is made without naming it."""
    is_made_only = lines[-1] == _RETURN_LINE and (len(lines) == 2 or lines[-2].startswith("    )"))
    return [lines[0].replace("layer = ", "return ", 1), *lines[1:-1]] if is_made_only else lines


def _write_construction(form: CallForm, begin: str = "layer = ", end: str = ")",
                        **more: str) -> list[str]:
    given = {**write_arguments(form, Site.CONSTRUCTOR), **more}
    return break_call(f"{begin}{find_alias(form)}(", write_keywords(given), end)


def _write_first_call(form: CallForm, makes: str) -> list[str]:
    return break_call("layer(", [*write_arrays(form), *write_keywords(form.arguments)],
                      f")  # a first call makes its {makes}")


def _write_entries(begin: str, entries: Iterable[str], end: str = "}",
                   indent: int = 4) -> list[str]:
    space = " " * indent
    return [f"{space}{begin}", *(f"{space}    {entry}," for entry in entries), f"{space}{end}"]


def _write_state_entry(name: str, text: str) -> str:
    """Writes an entry of a state, or one for each head."""
    return f'**{{f"{name}": {text} for head in range(heads)}}' if HEAD_PLACE in name else f'"{name}": {text}'


def _write_part(name: str) -> str:
    """Writes a part of a PyTorch module as Python: `layer.to_out[0]` for `to_out.0`."""
    return "layer" + "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in name.split("."))


_SILENCING_LINES = ["    for part in layer.modules():",
                    "        if isinstance(part, nn.Dropout):",
                    "            part.p = 0.0  # its constructor does not take this rate"]


def _write_torch(form: CallForm) -> list[str]:
    made = _write_construction(form, end=").to(query.dtype)")
    made += [f"    layer.{'eval' if form.mode is ModuleMode.EVALUATION else 'train'}()"]
    if form.mode is ModuleMode.TRAINING_WITHOUT_DROPOUT:
        made += _SILENCING_LINES
    made += [f"    {_write_part(name)} = nn.Identity()" for name in form.removed_parts]
    if form.family is CallableKind.LAZY:
        made += _write_first_call(form, "parameters")
    if form.zero_tensors or form.filled_tensors:
        made.append("    with torch.no_grad():")
    made += [f"        {_write_part(name)}.zero_()" for name in form.zero_tensors]
    made += [f"        {_write_part(name)}.fill_({number})" for name, number in form.filled_tensors.items()]
    if form.state:
        named = {"".join(path).lstrip("."): text for path, text in form.state.items()}
        made += [*_write_entries("state = {", (_write_state_entry(name, text) for name, text in named.items())),
                 "    with torch.no_grad():", "        for name, array in state.items():",
                 "            layer.get_parameter(name).copy_(array)"]
    return [*made, *(_return_part_output(form) if form.judged_part else [_RETURN_LINE])]


def _return_part_output(form: CallForm) -> list[str]:
    array = templates_of(form).array_type
    return ["    outputs = []",
            f"    {_write_part(form.judged_part)}.register_forward_hook("
            "lambda _, given, output: outputs.append(output))", "",
            f"    def call(*arrays: {array}, **more: {array} | None) -> {array}:",
            "        layer(*arrays, **more)",
            f"        return outputs.pop()  # of its {form.judged_part}, before its input is added",
            "", "    return call"]


def _write_equinox(form: CallForm) -> list[str]:
    lines = _write_construction(form)
    if not form.state:
        return [*lines, _RETURN_LINE]
    places = [f"layer{''.join(path)}" for path in form.state]
    return [*lines, "    return equinox.tree_at(",
            *_write_entries("lambda layer: (", places, "),", 8), "        layer,",
            *_write_entries("(", form.state.values(), "),", 8), "    )"]


def _write_linen(form: CallForm) -> list[str]:
    """Writes a Linen module, whose parameters are kept apart from it."""
    lines = _write_construction(form)
    if form.state is None:
        return [*lines, f"    return partial(layer.init, {_RANDOM_KEY})"]
    return [*lines, *write_tree(form.state, {}, "variables = "),
            "    return partial(layer.apply, variables)"]


def _write_nnx(form: CallForm) -> list[str]:
    filled = [f"    layer{''.join(path)} = nnx.Param({text})" for path, text in (form.state or {}).items()]
    return [*_write_construction(form), *filled, _RETURN_LINE]


def _write_haiku(form: CallForm) -> list[str]:
    """Writes a Haiku module, whose layers live inside a transformed function."""
    array = templates_of(form).array_type
    inside = [f"    {line}" for line in _write_construction(form, "return ", ")(*arrays, **more)")]
    lines = [f"    def call(*arrays: {array}, **more: {array} | None) -> {array}:", *inside, ""]
    if form.state is None:
        return [*lines, f"    return partial(haiku.transform(call).init, {_RANDOM_KEY})"]
    return [*lines, *write_tree(form.state, {}, "variables = "),
            "    return partial(haiku.transform(call).apply, variables, None)"]


def _write_keras(form: CallForm) -> list[str]:
    lines = _write_construction(form, dtype="keras.backend.standardize_dtype(query.dtype)")
    if not form.state:
        return [*lines, _RETURN_LINE]
    filled = _write_entries("layer.set_weights([", form.state.values(), "])")
    return [*lines, *_write_first_call(form, "variables"), *filled, _RETURN_LINE]


def _write_plain(form: CallForm) -> list[str]:
    """Writes a plain object, whose matrices are its attributes."""
    filled = [f"    layer{''.join(path)} = {text}" for path, text in (form.state or {}).items()]
    is_born = form.kind is Kind.LAYER and form.state is None
    return [*_write_construction(form), *filled,
            f"{_RETURN_LINE}.{form.method}" if form.method and not is_born else _RETURN_LINE]


_WRITERS_BY_FAMILY: Mapping[CallableKind, Callable[[CallForm], list[str]]] = {
    CallableKind.TORCH: _write_torch, CallableKind.LAZY: _write_torch, CallableKind.EQUINOX: _write_equinox,
    CallableKind.LINEN: _write_linen,
    CallableKind.NNX: _write_nnx, CallableKind.HAIKU: _write_haiku, CallableKind.KERAS: _write_keras,
    CallableKind.PLAIN: _write_plain}

BORN_TEXTS: Mapping[CallableKind, str] = {
    CallableKind.TORCH: "dict(layer.named_parameters())", CallableKind.LAZY: "({0}, dict(layer.named_parameters()))[1]",
    CallableKind.EQUINOX: "layer", CallableKind.LINEN: "{0}", CallableKind.HAIKU: "{0}",
    CallableKind.NNX: "nnx.to_pure_dict(nnx.state(layer, nnx.Param))",
    CallableKind.KERAS: "({0}, {{variable.path: variable for variable in layer.weights}})[1]",
    CallableKind.PLAIN: "{{name: each for name, each in vars(layer).items() if isinstance(each, {array})}}"}
"""By family, the Python of a layer's parameters before they are filled; `{0}` is a call of it."""
