"""Writes Python as lines of text: what every adapter has, and imports in ruff's order."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attnspec.core.forms import BORDERS, CACHE, GIVEN_TO_PACKED, ROTARY, TABLE
from attnspec.core.keywords import KEYWORDS, OFF
from attnspec.core.nouns import Kind
from attnspec.scaffold.callee_process import LOADING_IMPORTS, write_loading
from attnspec.scaffold.form import TEMPLATES, ArrayTemplates, Binding, CallForm, Site
from attnspec.scaffold.meaning import AXIS_LENGTHS, PACKED_AXIS_LENGTHS, PAGED_AXIS_LENGTHS
from attnspec.subjects.call import ValuePath

_STANDARD_IMPORTS: Mapping[str, str] = {
    "Callable": "from collections.abc import Callable", "Mapping": "from collections.abc import Mapping",
    "partial": "from functools import partial", "SimpleNamespace": "from types import SimpleNamespace",
    "Any": "from typing import Any", "patch": "from unittest.mock import patch",
    "sys": "import sys"}
_OTHER_IMPORTS: Mapping[str, str] = {
    "equinox": "import equinox", "haiku": "import haiku", "nnx": "from flax import nnx",
    "keras": "import keras",
    "nn": "from torch import nn"}
_OWN_NAMES = frozenset({
    "attend", "rotate", "x", "query", "key", "value", *KEYWORDS, *ROTARY, "layer", "output", "answer", "destination",
    "config", "Tensor", "Array", "np", "torch", "jax", "jnp", "PARTS"})


def find_alias(form: CallForm) -> str:
    """Returns the name under which the callee is imported; `theirs` if it is one of ours."""
    top, dot, rest = form.name.partition(".")
    return f"theirs{dot}{rest}" if top in _OWN_NAMES else form.name


def write_imports(form: CallForm, used: frozenset[str], folder: str = "") -> list[list[str]]:
    """Writes the imports by section: the future, Python's own, installed ones, and local ones.
    folder: what the callee's modules are imported from, or the file that is loaded by its path,
    relative to the adapter's folder; empty where neither is needed.
    """
    known = {**_STANDARD_IMPORTS, **_OTHER_IMPORTS, **TEMPLATES[form.lift].imports}
    top = form.name.partition(".")[0]
    statements = [known[name] for name in known if name in used and name != top]
    statements.append(f"from {form.module} import {top}{' as theirs' if top in _OWN_NAMES else ''}")
    classes = [*form.holders.values(), *([f"{form.config.module}:{form.config.name}"] if form.config else [])]
    classes += [form.kept_cache.class_path] if form.kept_cache and form.kept_cache.class_path else []
    statements += [f"from {module} import {name}" for module, _, name in (each.partition(":") for each in classes)
                   if name]
    own = form.module.partition(".")[0] if folder else ""
    is_file = folder.endswith(".py")
    if folder:
        statements += LOADING_IMPORTS if is_file else ["import sys", "from pathlib import Path"]
    sections = {line: _find_section(line, own) for line in statements}
    standard, installed, here = (_sort_statements([line for line in statements if sections[line] == each])
                                 for each in ("standard", "installed", "here"))
    if folder:  # imports have to follow it, which linters dislike
        place = f'(Path(__file__).parent / "{folder}").resolve()'
        begin = write_loading(form.module, place) if is_file else [f"sys.path.insert(0, str({place}))"]
        here = [*begin, "", *(f"{line}  # noqa: E402" for line in here)]
    return [each for each in (["from __future__ import annotations"], standard, installed, here) if each]


def _find_section(statement: str, own: str) -> str:
    """Returns the section of an import, as ruff has it; own: the package on an extra path."""
    root = _find_module(statement).partition(".")[0]
    if root == own:
        return "here"
    if root in sys.stdlib_module_names:
        return "standard"
    places = [folder / name for folder in (Path.cwd(), Path.cwd() / "src") for name in (root, f"{root}.py")]
    return "here" if any(place.exists() for place in places) else "installed"


def _find_module(statement: str) -> str:
    return statement.split()[1]


def _sort_statements(statements: Iterable[str]) -> list[str]:
    """Sorts imports: `import` before `from`, modules in order, a module's names together."""
    whole = {line for line in statements if line.startswith("import ")}
    names: dict[str, set[str]] = {}
    for line in statements:
        if line not in whole:
            names.setdefault(_find_module(line), set()).add(line.partition(" import ")[2])
    def rank(name: str) -> tuple[int, str]:
        if name.isupper():
            return 0, name
        return (1 if name[:1].isupper() else 2), name

    named = {module: ", ".join(sorted(names[module], key=rank)) for module in sorted(names, key=str.lower)}
    return [*sorted(whole, key=str.lower), *(f"from {module} import {listed}" for module, listed in named.items())]


LINE_WIDTH = 100


def find_names(*texts: str) -> frozenset[str]:
    """Returns the names that expressions use, without attributes (`x.T`) and quoted text."""
    bare = re.sub(r'"[^"]*"', "", " ".join(texts))
    return frozenset(re.findall(r"(?<![\w.])[A-Za-z_]\w*(?!\s*=[^=])", bare))


def write_keywords(given: Mapping[str, str]) -> list[str]:
    """Writes `name=expression` for each."""
    return [f"{name}={text}" for name, text in given.items()]


def break_call(begin: str, parts: Sequence[str], end: str, indent: int = 4) -> list[str]:
    """Writes a call in one line if it fits, else with a line for each part."""
    space = " " * indent
    whole = f"{space}{begin}{', '.join(parts)}{end}"
    if len(whole) <= LINE_WIDTH or not parts:
        return [whole]
    return [f"{space}{begin}", *(line for part in parts for line in _break_part(part, indent + 4)), f"{space}{end}"]


def _break_part(part: str, indent: int) -> list[str]:
    """Writes one part; a long condition goes into brackets of its own."""
    space = " " * indent
    condition = re.fullmatch(r"(\w+=|)(.+) if (.+) else (.+)", part)
    if len(part) + indent < LINE_WIDTH or condition is None:
        return [f"{space}{part},"]
    name, first, when, otherwise = condition.groups()
    return [f"{space}{name}(", f"{space}    {first}", f"{space}    if {when}",
            f"{space}    else {otherwise}", f"{space}),"]


def wrap_text(text: str, indent: int = 0, hanging: int = 0) -> list[str]:
    """Wraps a paragraph; all lines but the first are indented by `hanging` more."""
    return textwrap.wrap(text, LINE_WIDTH, initial_indent=" " * indent,
                         subsequent_indent=" " * (indent + hanging),
                         break_long_words=False, break_on_hyphens=False)


def write_tree(paths: Mapping[ValuePath, str], holders: Mapping[ValuePath, str],
               begin: str) -> list[str]:
    """Writes a tree as Python from its leaves: by path (`('["wq"]', '[0]')`), the expression.
    holders: by the path of an object with attributes, the class that makes it.
    """
    return [f"    {line}" for line in _write_branch(paths, holders, (), begin, "")]


def _write_branch(paths: Mapping[ValuePath, str], holders: Mapping[ValuePath, str], at: ValuePath,
                  begin: str, end: str) -> list[str]:
    if () in paths:
        return [f"{begin}{paths[()]}{end}"]
    heads = list(dict.fromkeys(path[0] for path in paths))
    opened, closed = _find_brackets(heads[0], holders.get(at, "SimpleNamespace"))
    inside: list[str] = []
    for head in heads:
        below = {path[1:]: text for path, text in paths.items() if path[0] == head}
        inside += _write_branch(below, holders, (*at, head), _write_part_name(head), ",")
    return [f"{begin}{opened}", *(f"    {line}" for line in inside), f"{closed}{end}"]


def _find_brackets(step: str, holder: str) -> tuple[str, str]:
    """Returns what opens and closes the holder of such a part."""
    if step.startswith("."):
        return f"{holder}(", ")"
    return ("[", "]") if step[1:-1].isdigit() else ("{", "}")


def _write_part_name(step: str) -> str:
    """Writes how a part is named in its holder: `wq=`, `"wq": `, or not at all."""
    if step.startswith("."):
        return f"{step[1:]}="
    return "" if step[1:-1].isdigit() else f"{step[1:-1]}: "


def join_blocks(parts: Iterable[Iterable[str]], between: int = 2) -> list[str]:
    """Joins blocks of lines with so many empty lines between them; empty blocks are left out."""
    full = [block for part in parts if (block := list(part))]
    return [line for at, block in enumerate(full) for line in (*([""] * between if at else []), *block)]


ARRAY_NAMES = ("query", "key", "value")
_PARAMETER_TYPES: Mapping[str, str] = {
    **dict.fromkeys((*ARRAY_NAMES, *BORDERS), "{0}"), "max_query": "int", "max_key": "int",
    **{name: KEYWORDS[name].annotation for name in sorted(KEYWORDS, key=lambda name: name in OFF)}}
"""By parameter of an adapter, its type, in the order of the signature."""
PARAMETER_DEFAULTS: Mapping[str, str] = {name: f" = {off}" for name, off in OFF.items()}


def templates_of(form: CallForm) -> ArrayTemplates:
    """Returns the templates of the form's framework."""
    return TEMPLATES[form.lift]


def write_parameter(form: CallForm, name: str) -> str:
    """Writes a parameter with its type: `mask: Tensor | None`."""
    return f"{name}: {_PARAMETER_TYPES[name].format(templates_of(form).array_type)}"


def write_helper(form: CallForm, name: str, returns: str, doc: str,
                 body: Sequence[str]) -> list[str]:
    """Writes a function that takes the parameters its lines use."""
    lines = add_axes(form, body)
    used = find_names(*lines)
    parameters = [write_parameter(form, each) for each in _PARAMETER_TYPES if each in used]
    return [*break_call(f"def {name}(", parameters, f") -> {returns}:", 0), f'    """{doc}"""',
            *lines]


def call_helper(lines: Sequence[str]) -> str:
    """Writes the call of a helper by the names of its own parameters."""
    head = "".join(line.strip() + " " for line in lines[:next(at for at, line in enumerate(lines) if "->" in line) + 1])
    name, _, rest = head.removeprefix("def ").partition("(")
    return f"{name}({', '.join(each for each in _PARAMETER_TYPES if f'{each}: ' in rest)})"


def add_axes(form: CallForm, body: Sequence[str]) -> list[str]:
    """Writes the lines, and before them the lengths of axes that they use."""
    axes = PAGED_AXIS_LENGTHS if form.parameter_for(TABLE) else AXIS_LENGTHS[form.kind]
    axes = PACKED_AXIS_LENGTHS if form.is_packed else axes
    if form.kind is Kind.LAYER and form.arrangement.is_one:
        axes = {**axes, "S": "T"}  # there is no other input
    needed = find_names(*body) & axes.keys()
    while more := (find_names(*(axes[each] for each in needed)) & axes.keys()) - needed:
        needed |= more
    alike = [f"    {name} = {axes[name]}" for name in axes if name in needed and axes[name] in axes]
    return [*_unpack_shapes(axes, needed), *alike, *body]


def _unpack_shapes(axes: Mapping[str, str], needed: frozenset[str]) -> Iterator[str]:
    """Writes `H = query.shape[1]`, or `B, H, _, _ = query.shape` where several are needed."""
    for array in dict.fromkeys(text.partition(".shape")[0] for text in axes.values() if ".shape" in text):
        own = [name for name, text in axes.items() if text.startswith(f"{array}.shape[") and text.endswith("]")]
        if len(needed & set(own)) > 1:
            count = 4 if "H" in axes and "B" in axes else 3
            places = {axes[name][-2]: name for name in own if name in needed}
            yield f"    {', '.join(places.get(str(at), '_') for at in range(count))} = {array}.shape"
        else:
            for name, text in axes.items():
                if name in needed and text.startswith(f"{array}.shape"):
                    yield f"    {name} = {text}"


def write_arrays(form: CallForm) -> list[str]:
    """Writes the arrays that a call is given, by name or by position."""
    words = templates_of(form)
    plain = "{0}.contiguous()" if form.is_contiguous else "{0}"
    lying = {name[0]: plain.format(form.arrangement.template.format(name)) for name in ARRAY_NAMES}
    texts = [template.format(**lying, stack=words.stack, concatenate=words.concatenate)
             for template in form.arrangement.arguments]
    return [f"{name}={text}" for name, text in zip(form.array_names, texts, strict=True)] if form.array_names else texts


def write_arguments(form: CallForm, at: Site = Site.CALL) -> Mapping[str, str]:
    """Returns, by parameter, the Python of what it is always given and of our keywords."""
    given = dict(form.given_at(at))
    for parameter in dict.fromkeys(each.parameter for each in form.bindings if each.at is at and each.parameter):
        passed = bindings_to(form, parameter)
        given[parameter] = (_write_binding(passed[0], find_default(form, parameter, at)) if len(passed) == 1
                            else f"_{parameter}({', '.join(each.keyword for each in passed)})")
    return given


def bindings_to(form: CallForm, parameter: str) -> tuple[Binding, ...]:
    """Returns the bindings of our keywords that share a parameter of theirs."""
    return tuple(each for each in form.bindings if each.parameter == parameter)


def find_default(form: CallForm, parameter: str, at: Site = Site.CALL) -> str:
    """Returns what a parameter is given where no keyword of ours is in use."""
    return form.given_at(at).get(parameter) or form.left_defaults.get(parameter) or "None"


def _write_binding(passed: Binding, plain: str) -> str:
    """Writes the expression of a keyword, with what is passed where it is not in use."""
    keyword, text = passed.keyword, passed.expression
    if keyword in GIVEN_TO_PACKED or (keyword == CACHE and text != CACHE):
        return text
    if KEYWORDS[keyword].annotation == "bool":
        return keyword if (text, plain) == ("True", "False") else f"{text} if {keyword} else {plain}"
    return keyword if (text, plain) == (keyword, "None") else f"{plain} if {keyword} is None else {text}"


def write_joint_helper(form: CallForm, parameter: str) -> list[str]:
    """Writes the helper for a parameter that serves a mask, a bias and the word `causal`."""
    passed = {each.keyword: each for each in bindings_to(form, parameter)}
    plain, array = find_default(form, parameter), templates_of(form).array_type
    body = []
    if "causal" in passed:
        arrays = " or ".join(f"{name} is not None" for name in passed if name != "causal")
        body += ["    if causal:", f"        if {arrays}:",
                 f'            raise ValueError("{parameter} is either a word or an array")',
                 f"        return {passed['causal'].expression}"]
    if {"mask", "bias"} <= passed.keys():
        both = passed["bias"].expression.replace("bias", templates_of(form).hidden_bias, 1)
        body += ["    if mask is not None and bias is not None:", f"        return {both}",
                 "    if mask is not None:", f"        return {passed['mask'].expression}"]
    last = passed["bias"] if "bias" in passed else passed["mask"]
    returns = f"{array} | str | None" if "causal" in passed else f"{array} | None"
    return write_helper(form, f"_{parameter}", returns,
                        f"The value of `{parameter}`, which stands for all of these.",
                        [*body, f"    return {_write_binding(last, plain)}"])
