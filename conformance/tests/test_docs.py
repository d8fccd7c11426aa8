"""README.md and other pages, docs/: links lead somewhere, examples parse, and every command shown exists as shown."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
import yaml
from attnspec.cli.group import attnspec
from evaluation import PROGRAM
from evaluation.cli import evaluation
from helpers.places import CHECKOUT

PAGES = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
INLINE = re.compile(r"`(attnspec|python -m evaluation) ([^`]+)`")
PROGRAMS: Mapping[str, click.Group] = {"attnspec": attnspec, PROGRAM: evaluation}
"""The commands by what is typed before their names."""

SHELL = ("sh", "bash", "console")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(CHECKOUT)}:{self.line}"


SLURM = "$SLURM_ARRAY_TASK_ID"
"""What an array sets in each of its tasks."""


def blocks(*languages: str) -> list[Block]:
    """The blocks in these languages."""
    every = (Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2])
             for page in PAGES for text in [page.read_text(encoding="utf-8")] for found in FENCE.finditer(text))
    return [block for block in every if block.language in languages]


def anchors(page: Path) -> set[str]:
    """What a link may name after the #: headings in lower case, words joined by hyphens."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.casefold()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    """The links of a page that lead to no file, or to no heading of it. What lies in the web is not looked up."""
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            yield target


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Of every command in a block its program and the words after it; in a console session, of what follows `$`."""
    for line in block.text.replace("\\\n", " ").replace(SLURM, "1").splitlines():
        if block.language == "console" and not line.startswith("$ "):
            continue
        for part in re.split(r"&&|\||;", line.removeprefix("$ ")):
            words = shlex.split(part, comments=True)
            for program in PROGRAMS:
                if words[:len(typed := program.split())] == typed:
                    yield program, words[len(typed):]


def parse(program: str, words: list[str]) -> None:
    """Parse a command line without running it. Raises click.UsageError."""
    with click.Context(group := PROGRAMS[program]) as context:
        _, command, arguments = group.resolve_command(context, words)
        assert command is not None
        command.make_context(words[0], arguments, parent=context)


def unknown(program: str, words: list[str]) -> Iterator[str]:
    """What of a command in a sentence, which need not be whole, does not exist: the command, or options of it."""
    with click.Context(group := PROGRAMS[program]) as context:
        command = group if words[0].startswith("-") else group.get_command(context, words[0])
        known = {name for each in command.get_params(context) for name in each.opts} if command else set()
    if command is None:
        yield words[0]
    yield from (word for word in words if word.startswith("-") and word.partition("=")[0] not in known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_commands_in_sentences_name_commands_and_options(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert {inline: names for program, inline in INLINE.findall(text)
            if (names := list(unknown(program, shlex.split(inline))))} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    assert list(broken_links(page)) == []


@pytest.mark.parametrize("block", blocks(*SHELL), ids=str)
def test_commands_are_accepted(block: Block) -> None:
    for program, words in commands(block):
        parse(program, words)


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_examples_in_python_compile(block: Block) -> None:
    ast.parse(block.text)


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_examples_in_yaml_parse(block: Block) -> None:
    assert yaml.safe_load(block.text)


def test_every_page_of_the_documentation_can_be_reached_from_the_readme() -> None:
    reached, ahead = set(), [CHECKOUT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or not page.is_file() or page.suffix != ".md":
            continue
        reached.add(page)
        links = LINK.findall(page.read_text(encoding="utf-8"))
        ahead += [(page.parent / link.partition("#")[0]).resolve() for link in links if "://" not in link]
    assert set(PAGES) - reached == set()


FILE = re.compile(r"`([\w/]+\.\w+)`")
"""A file that a sentence names."""


def unknown_files(text: str) -> list[str]:
    """The files named that are neither in the package, nor among the tests, nor in the checkout."""
    roots = (CHECKOUT / "conformance" / "attnspec", CHECKOUT / "conformance" / "tests", CHECKOUT)
    return [name for name in FILE.findall(text) if not any((root / name).is_file() for root in roots)]


def test_the_page_of_changes_names_files_that_exist() -> None:
    text = (CHECKOUT / "docs" / "where-to-change.md").read_text(encoding="utf-8")
    assert len(FILE.findall(text)) > 50
    assert unknown_files(text) == []


FICTIONAL = {"mine.py", "sage.py", "implementations/mine/adapter.py"}
"""Files of the reader, in examples."""

OF_OTHERS = "peers.md"
"""The page that names files of other projects."""


@functools.cache
def python_files() -> frozenset[str]:
    """The Python files of the checkout, each by all ends of its path."""
    found = [path.relative_to(CHECKOUT).parts for top in ("conformance", "implementations", "docs")
             for path in (CHECKOUT / top).rglob("*.py")]
    return frozenset("/".join(parts[at:]) for parts in found for at in range(len(parts)))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != OF_OTHERS],
                         ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_a_page_names_python_files_that_exist(page: Path) -> None:
    named = [name for name in FILE.findall(page.read_text(encoding="utf-8")) if name.endswith(".py")]
    assert [name for name in named if name not in python_files() | FICTIONAL] == []


def test_these_tests_can_fail(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A heading\n[a](#a-heading) [b](#b) [c](missing.md)\n", encoding="utf-8")
    assert list(broken_links(page)) == ["#b", "missing.md"]
    assert unknown_files("`core/nouns.py`, `core/verbs.py`, `test_verbs.py`") == ["core/verbs.py", "test_verbs.py"]
    with pytest.raises(click.UsageError):
        parse("attnspec", ["check", "--efort", "quick", "numpy/msa"])
    assert list(unknown("attnspec", ["chek", "numpy/msa"])) == ["chek"]
    assert list(unknown("attnspec", ["power"])) == ["power"]
    assert list(unknown(PROGRAM, ["power", "--html"])) == []
    assert list(unknown("attnspec", ["check", "--efort", "quick", "-n", "2"])) == ["--efort"]


def test_the_sites_search_finds_what_the_audit_judged() -> None:
    pytest.importorskip("mkdocs")
    described = importlib.util.spec_from_file_location("hooks", CHECKOUT / "docs" / "site" / "hooks.py")
    assert described is not None
    assert described.loader is not None
    hooks = importlib.util.module_from_spec(described)
    described.loader.exec_module(hooks)
    page = ('<th scope="row" id="subject-3" data-k="lib/attend"><b>attend</b><small>lib.attend</small></th>'
            '<details class="entry bad" id="finding-lib-nan" data-library="lib"><summary><span class="badge">x</span>'
            '<span class="title">A row is <code>NaN</code><span class="meta">Lib 1.2</span></span></summary>')
    assert list(hooks._searchable_parts(page))[2:] == [
        {"location": "audit.html#subject-3", "title": "lib/attend", "text": "attend  lib.attend"},
        {"location": "audit.html#finding-lib-nan", "title": "A row is  NaN", "text": "Lib 1.2"}]
