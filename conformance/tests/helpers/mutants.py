"""Mutants of the YAML that attnspec reads: a sound document with one to three things wrong, by seed and number alone.

Most mutations change the parsed structure and write it out again, so that what is wrong stands deep within a document
that is right otherwise; some change the text, or its bytes.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from helpers.hostile import NUMBERS, OTHER_DIGITS, POOLS, RAW, RAWS

Path = tuple[str | int, ...]
Random = random.Random
_DIGITS = re.compile("[0-9]+")
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_DEEP = (1, 1, 2, 30, 60)  # levels that are put around a value


@dataclass(frozen=True, slots=True)
class Mutant:
    """What a file holds now, and the names of what was done to it."""

    data: bytes
    how: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What sound documents hold: keys and values that are right somewhere, and wrong in most other places.

    within: by the key that a mapping stands under, the keys that it may have; they need not occur in any document.
    """

    keys: tuple[str, ...]
    values: tuple[Any, ...]
    within: Mapping[str, Sequence[str]] = field(default_factory=dict)


def vocabulary(documents: Sequence[Any], within: Mapping[str, Sequence[str]]) -> Vocabulary:
    """All keys and all values of these documents, each once."""
    nodes = [node for document in documents for _, node in walk(document)]
    keys = {key for node in nodes if isinstance(node, dict) for key in node}
    values = {json.dumps(node): node for node in nodes if not isinstance(node, dict | list)}
    return Vocabulary(tuple(sorted(keys)), tuple(values[text] for text in sorted(values)), within)


def walk(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:  # noqa: ANN401  (what YAML can hold)
    """Every value of a document with the keys and indices that lead to it, the document itself first."""
    yield path, node
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inside:
        yield from walk(value, (*path, key))


@dataclass(frozen=True, slots=True)
class Spoiler:
    """Spoils one document in place. Every public method is a mutation."""

    random: Random
    document: Any
    known: Vocabulary

    def delete(self) -> None:
        holder, key = self._place()
        del holder[key]

    def replace(self) -> None:
        holder, key = self._place()
        holder[key] = self._hostile()

    def misspell_a_key(self) -> None:
        holder, key = self._place()
        if isinstance(holder, dict):
            holder[self._slip(str(key))] = holder.pop(key)

    def misspell_a_value(self) -> None:
        holder, key = self._place()
        if isinstance(holder[key], str):
            holder[key] = self._slip(holder[key])

    def add_any_key(self) -> None:
        _, mapping = self._mapping()
        mapping[self.random.choice(self.known.keys)] = self._hostile()

    def add_a_key_that_it_may_have(self) -> None:
        path, mapping = self._mapping(lambda path: bool(self._may_have(path)))
        mapping[self.random.choice(self._may_have(path) or self.known.keys)] = self._hostile()

    def empty(self) -> None:
        holder, key = self._place()
        holder[key] = type(holder[key])() if isinstance(holder[key], dict | list | str) else None

    def wrap(self) -> None:
        holder, key = self._place()
        for _ in range(self.random.choice(_DEEP)):
            holder[key] = [holder[key]] if self.random.random() < 0.5 else {"x": holder[key]}

    def unwrap(self) -> None:
        holder, key = self._place()
        if isinstance(holder[key], dict | list) and holder[key]:
            [holder[key], *_] = holder[key].values() if isinstance(holder[key], dict) else holder[key]

    def repeat(self) -> None:
        lists = [node for _, node in walk(self.document) if isinstance(node, list) and node]
        for chosen in self.random.sample(lists, min(1, len(lists))):
            chosen.extend(copy.deepcopy(self.random.choice(chosen)) for _ in range(self.random.choice((1, 1, 6))))

    def transplant(self) -> None:
        (one, at), (other, to) = self._place(), self._place()
        one[at] = copy.deepcopy(other[to])

    def change_a_number(self) -> None:
        holder, key = self._place(lambda node: isinstance(node, int | float))
        holder[key] = self.random.choice((*NUMBERS, *(RAW + raw for raw in RAWS[-7:])))

    def change_digits_of_a_text(self) -> None:
        holder, key = self._place(lambda node: isinstance(node, str) and bool(_DIGITS.search(node)))
        if isinstance(holder[key], str):
            found = self.random.choice(list(_DIGITS.finditer(holder[key])))
            digits = self.random.choice(OTHER_DIGITS)
            holder[key] = f"{holder[key][:found.start()]}{digits}{holder[key][found.end():]}"

    def _place(self, wanted: Callable[[Any], bool] = lambda _: True) -> tuple[Any, Any]:
        """A mapping or list, and a key or index of it; deep ones are as likely as shallow ones."""
        paths = [path for path, node in walk(self.document) if path and wanted(node)]
        if not paths:
            return {"x": None}, "x"
        depth = self.random.choice(sorted({len(path) for path in paths}))
        path = self.random.choice([path for path in paths if len(path) == depth])
        holder = self.document
        for key in path[:-1]:
            holder = holder[key]
        return holder, path[-1]

    def _mapping(self, wanted: Callable[[Path], bool] = lambda _: True) -> tuple[Path, dict[str, Any]]:
        found = [(path, node) for path, node in walk(self.document) if isinstance(node, dict) and wanted(path)]
        return self.random.choice(found) if found else ((), {})

    def _may_have(self, path: Path) -> Sequence[str]:
        """The keys of a mapping, by its own key, or by that of the list or mapping that it stands in."""
        names = [key for key in path if isinstance(key, str)][-2:]
        return next((self.known.within[name] for name in reversed(names) if name in self.known.within), ())

    def _hostile(self) -> Any:  # noqa: ANN401
        pool = self.random.choice((*POOLS, self.known.values))
        return copy.deepcopy(self.random.choice(pool))

    def _slip(self, word: str) -> str:
        """The word with a slip of the pen: a letter lost, doubled, swapped or changed, capitals, a space."""
        at = self.random.randrange(len(word)) if word else 0
        before, here, after, behind = word[:at], word[at:at + 1], word[at + 1:at + 2], word[at + 2:]
        return self.random.choice((
            before + after + behind, before + here + here + after + behind, before + after + here + behind,
            before + self.random.choice("aeiou_. 1") + after + behind, word.upper(), f" {word}"))


STRUCTURE = tuple(name for name, member in vars(Spoiler).items() if callable(member) and not name.startswith("_"))
"""The names of the mutations of structure."""


def _write_document(document: Any) -> str:  # noqa: ANN401
    """The document as YAML, with what is raw as it stands."""
    raws: list[str] = []

    def marked(node: Any) -> Any:  # noqa: ANN401
        if isinstance(node, str) and node.startswith(RAW):
            raws.append(node.removeprefix(RAW))
            return f"raw{len(raws) - 1}raw"
        if isinstance(node, dict):
            return {marked(key): marked(value) for key, value in node.items()}
        return [marked(value) for value in node] if isinstance(node, list) else node

    text: str = yaml.dump(marked(document), Dumper=_DUMPER, allow_unicode=True, sort_keys=False, width=200)
    for index, raw in enumerate(raws):
        text = text.replace(f"raw{index}raw", raw)
    return text


PIECES = (
    b"\x00", b"\x07", b"\x1b", b"\x7f", b"\xff", b"\xc3", b"\xed\xa0\x80", "\u2028".encode(), "\u0085".encode(),
    "\ufeff".encode(), "\u202e".encode(), b"\t", b"\r", b"\n", b"'", b'"', b"{", b"[", b"]", b"}", b":", b" : ", b"- ",
    b"#", b",", b"|", b"?", b"&a ", b"*a ", b"!!x ", b"<<: ", b"%YAML 9.9\n", b"%TAG ! x\n", b"\n---\n", b"\n...\n")
ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "latin-1", "cp037")
BREAKS = ("\r\n", "\r", "\u2028", "\x0b")


def _line(random: Random, text: str) -> bytes:
    """One line twice, not at all, at another depth, or behind a tab."""
    lines = text.split("\n")
    at = random.randrange(len(lines))
    line = lines[at]
    now = random.choice(([line, line], [], [" " * random.randrange(9) + line.lstrip()], [f"\t{line}"]))
    return "\n".join([*lines[:at], *now, *lines[at + 1:]]).encode()


def _cut_text(random: Random, text: str) -> bytes:
    start = random.randrange(len(text))
    return (text[:start] + text[start + random.choice((1, 1, 5, 80, len(text))):]).encode()


def _insert_piece(random: Random, text: str) -> bytes:
    data = text.encode()
    at = random.randrange(len(data))
    return data[:at] + random.choice(PIECES) + data[at:]


TEXT: Mapping[str, Callable[[Random, str], bytes]] = {
    "cut": _cut_text, "insert": _insert_piece, "line": _line,
    "byte order mark": lambda _, text: b"\xef\xbb\xbf" + text.encode(),
    "encoding": lambda random, text: text.encode(random.choice(ENCODINGS), errors="replace"),
    "line ends": lambda random, text: text.replace("\n", random.choice(BREAKS)).encode(),
    "twice": lambda _, text: (text + text).encode(),
    "nothing": lambda random, _: random.choice((b"", b"# nothing\n", b"\n\n", b"---\n")),
    "noise": lambda random, _: random.randbytes(200),
}
"""The mutations of text, by name."""

_OF_TEXT = ("cut", "line", "insert", "insert", "insert", *TEXT)  # inserting has the most kinds


def mutant(random: Random, sound: str, document: Any, known: Vocabulary, *, is_json: bool = False) -> Mutant:  # noqa: ANN401
    """The document `sound` spoilt. document: the same, parsed."""
    if random.random() < 0.2:
        name = random.choice(_OF_TEXT)
        return Mutant(TEXT[name](random, sound), (name,))
    spoilt, how = copy.deepcopy(document), []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        how.append(random.choice(STRUCTURE))
        getattr(Spoiler(random, spoilt, known), how[-1])()
    text = json.dumps(spoilt, indent=1) if is_json else _write_document(spoilt)
    return Mutant(text.encode(errors="surrogatepass"), tuple(how))
