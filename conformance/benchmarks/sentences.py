"""Draws sentences that a user reads, each with its place, so that somebody who did not write them can restate them:

    python conformance/benchmarks/sentences.py               # ten, by seed 0
    python conformance/benchmarks/sentences.py --seed 13 --count 20

They come in equal parts from the documents, the clauses, the manifests and findings, the pages and the code (messages,
help texts, stories of faults). A sentence that its reader restates wrongly, or reads twice, is to be rewritten.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
FEWEST_WORDS = 6  # of a sentence
KEYS = frozenset({"says", "note", "documented", "reason", "title"})
HOLE = "…"        # in the place of what is known at run time only

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML was built with it

_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\"])")
_WORD = re.compile(r"[A-Za-z]{2,}")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_PARAGRAPH = re.compile(r"(?<=\n)(?=\n|[-*] |\d+\. )")
_ITEM = re.compile(r"^([-*]|\d+\.) +")
_NOT_PROSE = re.compile(r"^(\s*\||#|<|!\[| {4,})")  # tables, headings, markup, indented code
_JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
_TAG = re.compile(r"<(script|style|svg)\b.*?</\1>|<[^>]*>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sentence:
    """What is read, and where it stands."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(CHECKOUT).as_posix()}:{self.line}\n  {self.text}"


def split(path: Path, line: int, text: str) -> Iterator[Sentence]:
    """The sentences of a text that begins on this line. What is short, or has no full stop, is a label: left out."""
    for sentence in _END.split(" ".join(text.split())):
        if len(_WORD.findall(sentence)) >= FEWEST_WORDS and sentence.endswith((".", "?", "!")):
            yield Sentence(path, line, sentence)


def of_document(path: Path) -> Iterator[Sentence]:
    """Paragraphs and items of lists of Markdown."""
    text = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), path.read_text(encoding="utf-8"))
    line = 1
    for paragraph in _PARAGRAPH.split(text):
        bare = paragraph.lstrip("\n")
        if bare.strip() and not _NOT_PROSE.match(bare):
            yield from split(path, line + len(paragraph) - len(bare), _ITEM.sub("", bare))
        line += paragraph.count("\n")


def of_yaml(path: Path) -> Iterator[Sentence]:
    """Texts of clauses, manifests and findings."""
    stack = list(yaml.compose_all(path.read_text(encoding="utf-8"), Loader=LOADER))
    while stack:
        node = stack.pop()
        if isinstance(node, yaml.SequenceNode):
            stack += node.value
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                stack.append(value)
                if key.value in KEYS and isinstance(value, yaml.ScalarNode):
                    yield from split(path, value.start_mark.line + 1, value.value)


def of_page(path: Path) -> Iterator[Sentence]:
    """What stands between the tags of a template."""
    blank = _JINJA.sub(lambda found: HOLE * found[0].startswith("{{"), path.read_text(encoding="utf-8"))
    for number, line in enumerate(blank.splitlines(), 1):
        yield from split(path, number, _TAG.sub(" ", line))


def of_code(path: Path) -> Iterator[Sentence]:
    """Texts of a module; not its docstrings, which users do not see."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.JoinedStr | ast.Constant):
            if (text := _spell_string(node)) and " " in text:
                yield from split(path, node.lineno, text)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            stack += ast.iter_child_nodes(node)


def _spell_string(node: ast.JoinedStr | ast.Constant) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(_spell_string(part) if isinstance(part, ast.Constant) else HOLE for part in node.values)


SOURCES: Mapping[tuple[str, ...], Callable[[Path], Iterator[Sentence]]] = {
    ("README.md", "docs/*.md"): of_document,
    ("spec/*.yaml",): of_yaml,
    ("implementations/*/*.yaml",): of_yaml,
    ("reports/page/**/*.html", "conformance/evaluation/page/*.html"): of_page,
    ("conformance/attnspec/**/*.py", "conformance/evaluation/**/*.py"): of_code,
}


def draw_sentences(count: int, seed: int) -> list[Sentence]:
    """So many, from each kind of source in turn."""
    chance = random.Random(seed)
    shuffled = [chance.sample(sentences, len(sentences)) for sentences in all_sentences()]
    return [shuffled[number % len(shuffled)][number // len(shuffled)] for number in range(count)]


@cache
def all_sentences() -> tuple[list[Sentence], ...]:
    """Of each kind of source."""
    return tuple(
        [sentence for pattern in patterns for path in sorted(CHECKOUT.glob(pattern)) for sentence in read(path)]
        for patterns, read in SOURCES.items())


@click.command(help=__doc__)
@click.option("--seed", default=0, show_default=True)
@click.option("--count", default=10, show_default=True)
def main(seed: int, count: int) -> None:
    """Print them."""
    for sentence in draw_sentences(count, seed):
        click.echo(f"{sentence}\n")


if __name__ == "__main__":
    main()
