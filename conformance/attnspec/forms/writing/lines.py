"""Python as lines of text: calls that break where they grow too long, and which names an expression uses."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from attnspec.forms.form import Path

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
