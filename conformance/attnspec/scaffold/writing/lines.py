"""Python as lines of text, and the parts that every function of an adapter has."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attnspec.core.forms import BORDERS, GIVES, STATE, TABLE
from attnspec.core.keywords import KEYWORDS, OFF
from attnspec.core.nouns import Kind
from attnspec.scaffold.form import VOCABULARIES, At, CallForm, Passed, Vocabulary
from attnspec.scaffold.meaning import NAMES, PACKED_NAMES, PAGED_NAMES
from attnspec.subjects.call import ValuePath as Path

WIDTH = 100
"""Of a line that is written."""


def names_in(*texts: str) -> frozenset[str]:
    """The names that expressions use; neither attributes (`x.T`) nor what stands in quotation marks."""
    bare = re.sub(r'"[^"]*"', "", " ".join(texts))
    return frozenset(re.findall(r"(?<![\w.])[A-Za-z_]\w*(?!\s*=[^=])", bare))


def keywords(given: Mapping[str, str]) -> list[str]:
    """`name=expression`, one each."""
    return [f"{name}={text}" for name, text in given.items()]


def broken(begin: str, parts: Sequence[str], end: str, indent: int = 4) -> list[str]:
    """`begin`, the parts with commas, `end`: in one line if it fits, else with a line for each part."""
    space = " " * indent
    whole = f"{space}{begin}{', '.join(parts)}{end}"
    if len(whole) <= WIDTH or not parts:
        return [whole]
    return [f"{space}{begin}", *(line for part in parts for line in _part(part, indent + 4)), f"{space}{end}"]


def _part(part: str, indent: int) -> list[str]:
    """One part; a long condition goes into brackets of its own."""
    space = " " * indent
    condition = re.fullmatch(r"(\w+=|)(.+) if (.+) else (.+)", part)
    if len(part) + indent < WIDTH or condition is None:
        return [f"{space}{part},"]
    name, first, when, otherwise = condition.groups()
    return [f"{space}{name}(", f"{space}    {first}", f"{space}    if {when}", f"{space}    else {otherwise}",
            f"{space}),"]


def wrapped(text: str, indent: int = 0, hanging: int = 0) -> list[str]:
    """A paragraph in lines; all but the first begin further in."""
    return textwrap.wrap(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + hanging),
                         break_long_words=False, break_on_hyphens=False)


def literal(paths: Mapping[Path, str], holders: Mapping[Path, str], begin: str) -> list[str]:
    """A tree as Python, from its leaves: by path (`('["wq"]', '[0]')`), the expression.

    holders: by the path of what has attributes, the class that makes it.
    """
    return [f"    {line}" for line in _branch(paths, holders, (), begin, "")]


def _branch(paths: Mapping[Path, str], holders: Mapping[Path, str], at: Path, begin: str, end: str) -> list[str]:
    if () in paths:
        return [f"{begin}{paths[()]}{end}"]
    heads = list(dict.fromkeys(path[0] for path in paths))
    opened, closed = _brackets(heads[0], holders.get(at, "SimpleNamespace"))
    inside = [line for head in heads for line in _branch(
        {path[1:]: text for path, text in paths.items() if path[0] == head}, holders, (*at, head), _named(head), ",")]
    return [f"{begin}{opened}", *(f"    {line}" for line in inside), f"{closed}{end}"]


def _brackets(step: str, holder: str) -> tuple[str, str]:
    """What opens and closes the thing that has such a part."""
    if step.startswith("."):
        return f"{holder}(", ")"
    return ("[", "]") if step[1:-1].isdigit() else ("{", "}")


def _named(step: str) -> str:
    """How a part is named in its holder: `wq=`, `"wq": `, or not at all."""
    if step.startswith("."):
        return f"{step[1:]}="
    return "" if step[1:-1].isdigit() else f"{step[1:-1]}: "


def blocks(parts: Iterable[Iterable[str]], between: int = 2) -> list[str]:
    """Blocks of lines with so many empty lines between them; empty blocks are left out."""
    full = [block for part in parts if (block := list(part))]
    return [line for at, block in enumerate(full) for line in (*([""] * between if at else []), *block)]


ARRAYS = ("query", "key", "value")
_TYPES: Mapping[str, str] = {
    **dict.fromkeys((*ARRAYS, *BORDERS), "{0}"), "max_query": "int", "max_key": "int",
    **{name: KEYWORDS[name].annotation for name in sorted(KEYWORDS, key=lambda name: name in OFF)}}
"""Of what an adapter is handed, in the order in which it is."""
_DEFAULTS: Mapping[str, str] = {name: f" = {off}" for name, off in OFF.items()}


def words_of(form: CallForm) -> Vocabulary:
    """The framework's."""
    return VOCABULARIES[form.lift]


def typed(form: CallForm, name: str) -> str:
    """`mask: Tensor | None`."""
    return f"{name}: {_TYPES[name].format(words_of(form).array)}"


def optional(form: CallForm, name: str) -> str:
    """`mask: Tensor | None = None`."""
    return typed(form, name) + _DEFAULTS.get(name, "")


def helper(form: CallForm, name: str, returns: str, doc: str, body: Sequence[str]) -> list[str]:
    """A function that takes what its lines speak of."""
    lines = with_axes(form, body)
    used = names_in(*lines)
    parameters = [typed(form, each) for each in _TYPES if each in used]
    return [*broken(f"def {name}(", parameters, f") -> {returns}:", 0), f'    """{doc}"""', *lines]


def called_helper(lines: Sequence[str]) -> str:
    """The call of a helper, by the names of its own parameters."""
    head = "".join(line.strip() + " " for line in lines[:next(at for at, line in enumerate(lines) if "->" in line) + 1])
    name, _, rest = head.removeprefix("def ").partition("(")
    return f"{name}({', '.join(each for each in _TYPES if f'{each}: ' in rest)})"


def with_axes(form: CallForm, body: Sequence[str]) -> list[str]:
    """The lines, and before them the lengths of axes that they speak of."""
    axes = PACKED_NAMES if form.is_packed else PAGED_NAMES if form.parameter(TABLE) else NAMES[form.kind]
    if form.kind is Kind.LAYER and form.arrangement.is_one:
        axes = {**axes, "S": "T"}  # there is no other input
    needed = names_in(*body) & axes.keys()
    while more := (names_in(*(axes[each] for each in needed)) & axes.keys()) - needed:
        needed |= more
    alike = [f"    {name} = {axes[name]}" for name in axes if name in needed and axes[name] in axes]
    return [*_unpacked(axes, needed), *alike, *body]


def _unpacked(axes: Mapping[str, str], needed: frozenset[str]) -> Iterator[str]:
    """`H = query.shape[1]`; `B, H, _, _ = query.shape` where several lengths of one array are needed."""
    for array in dict.fromkeys(text.partition(".shape")[0] for text in axes.values() if ".shape" in text):
        own = [name for name, text in axes.items() if text.startswith(f"{array}.shape[") and text.endswith("]")]
        if len(needed & set(own)) > 1:
            count = 4 if "H" in axes and "B" in axes else 3
            places = {axes[name][-2]: name for name in own if name in needed}
            yield f"    {', '.join(places.get(str(at), '_') for at in range(count))} = {array}.shape"
        else:
            yield from (f"    {name} = {text}" for name, text in axes.items()
                        if name in needed and text.startswith(f"{array}.shape"))


def handed(form: CallForm) -> list[str]:
    """The arrays as a call is given them, by name or by position."""
    words = words_of(form)
    plain = "{0}.contiguous()" if form.contiguous else "{0}"
    lying = {name[0]: plain.format(form.arrangement.into.format(name)) for name in ARRAYS}
    texts = [template.format(**lying, stack=words.stack, concatenate=words.concatenate)
             for template in form.arrangement.arguments]
    return [f"{name}={text}" for name, text in zip(form.names, texts, strict=True)] if form.names else texts


def arguments(form: CallForm, at: At = At.CALL) -> Mapping[str, str]:
    """What is given by name: parameters that always are, and keywords of ours, each with its expression."""
    given = dict(form.given if at is At.CALL else form.construction)
    for parameter in dict.fromkeys(each.parameter for each in form.passed if each.at is at and each.parameter):
        passed = passed_to(form, parameter)
        given[parameter] = (_total(passed[0], plain_of(form, parameter, at)) if len(passed) == 1
                            else f"_{parameter}({', '.join(each.keyword for each in passed)})")
    return given


def passed_to(form: CallForm, parameter: str) -> tuple[Passed, ...]:
    """The keywords of ours that go to a parameter of theirs."""
    return tuple(each for each in form.passed if each.parameter == parameter)


def plain_of(form: CallForm, parameter: str, at: At = At.CALL) -> str:
    """What a parameter is given where no keyword of ours is in use: its default, unless something else always is."""
    given = form.given if at is At.CALL else form.construction
    return given.get(parameter) or form.left.get(parameter) or "None"


def _total(passed: Passed, plain: str) -> str:
    """The expression of a keyword, also where it is not in use."""
    keyword, text = passed.keyword, passed.expression
    if keyword in GIVES or (keyword == STATE and text != STATE):
        return text
    if KEYWORDS[keyword].annotation == "bool":
        return keyword if (text, plain) == ("True", "False") else f"{text} if {keyword} else {plain}"
    return keyword if (text, plain) == (keyword, "None") else f"{plain} if {keyword} is None else {text}"


def joined_lines(form: CallForm, parameter: str) -> list[str]:
    """The helper for a parameter that serves several keywords of ours: a mask, a bias, the word `causal`."""
    passed = {each.keyword: each for each in passed_to(form, parameter)}
    plain, array = plain_of(form, parameter), words_of(form).array
    body = []
    if "causal" in passed:
        arrays = " or ".join(f"{name} is not None" for name in passed if name != "causal")
        body += ["    if causal:", f"        if {arrays}:",
                 f'            raise ValueError("{parameter} is either a word or an array")',
                 f"        return {passed['causal'].expression}"]
    if {"mask", "bias"} <= passed.keys():
        both = passed["bias"].expression.replace("bias", words_of(form).hidden, 1)
        body += ["    if mask is not None and bias is not None:", f"        return {both}",
                 "    if mask is not None:", f"        return {passed['mask'].expression}"]
    last = passed["bias"] if "bias" in passed else passed["mask"]
    returns = f"{array} | str | None" if "causal" in passed else f"{array} | None"
    return helper(form, f"_{parameter}", returns, f"The value of `{parameter}`, which stands for all of these.",
                  [*body, f"    return {_total(last, plain)}"])
