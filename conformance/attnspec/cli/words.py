"""The words that clauses are written with, and what `explain WORD` says of one.

They come from the generated schema: the words themselves are functions over arrays, and would import NumPy.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from attnspec.core.errors import FileLocation, SpecError
from attnspec.core.paths import folder
from attnspec.spec.clause import Clause, Spec

WHERE: Mapping[str, str] = {"transform": "a transform, written under `runs`", "relation": "a relation, written under "
                            "`then`", "draw": "a drawn value, named under `given: draw:`"}
"""What a word of each kind is, and where a clause has it."""

SHOWN = 4
"""Clauses that are named as examples."""

WIDTH = 100


class VocabularyWord(NamedTuple):
    """A word; `schema` is that of its arguments, explained."""

    name: str
    kind: str
    schema: Mapping[str, Any]


def list_vocabulary() -> Iterator[VocabularyWord]:
    """Every word. Raises SpecError where the schema was not written."""
    path = folder("spec") / "schema.json"
    if not path.is_file():
        raise SpecError("there is no such file. Write it: attnspec schema --write.", where=FileLocation(str(path)))
    definitions = json.loads(path.read_text(encoding="utf-8"))["$defs"]
    for kind in ("transform", "relation"):
        yield from (VocabularyWord(name, kind, word) for name, word in _words_of_definition(definitions[kind]))
    for draw in definitions["given"]["properties"]["draw"]["additionalProperties"]["oneOf"]:
        yield VocabularyWord(draw["const"], "draw", {"description": draw["description"]})


def _words_of_definition(definition: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The words of a definition: of its object form, where every word stands with its arguments."""
    forms = definition.get("anyOf", [definition])
    return [pair for form in forms for pair in form.get("properties", {}).items()]


def explain_word(word: VocabularyWord, law: Spec) -> Iterator[str]:
    """Explains a word of the vocabulary: what it does, what it is told, and some clauses that use it."""
    yield f"{word.name}  ({WHERE[word.kind]})\n"
    yield textwrap.indent(str(word.schema["description"]), "  ")
    properties, required = word.schema.get("properties", {}), word.schema.get("required", ())
    if properties:
        yield "\narguments:"
    for name, hint in properties.items():
        yield from wrap_paragraph(f"{name}: {_argument(hint, is_required=name in required)}")
    using = [clause.id for clause in law.clauses if word.name in _words_of(clause)]
    more = f" and {len(using) - SHOWN} more" if len(using) > SHOWN else ""
    if using:
        yield f"\nclauses that use it: {', '.join(using[:SHOWN])}{more}"


def wrap_paragraph(text: str) -> list[str]:
    """The lines of a paragraph of an explanation."""
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False)


def _words_of(clause: Clause) -> frozenset[str]:
    steps = (word for words in clause.runs.values() for word in words)
    return frozenset((*(word.name for word in (*clause.then, *steps)), *clause.draw.values()))


def _argument(hint: Mapping[str, Any], *, is_required: bool) -> str:
    default = f", {hint['default']} by default" if "default" in hint else "" if is_required else ", may be left out"
    return f"{_form(hint)}{default}"


def _form(hint: Mapping[str, Any]) -> str:
    """What YAML may give, in words."""
    if "enum" in hint:
        return f"{'one of ' if len(hint['enum']) > 1 else ''}{', '.join(map(str, hint['enum']))}"
    if "anyOf" in hint:
        return " or ".join(_form(each) for each in hint["anyOf"] if each.get("type") != "null")
    if hint.get("type") == "array":
        return f"a list, each {' or '.join(dict.fromkeys(map(_form, hint.get('prefixItems') or [hint['items']])))}"
    span = [f"{word} {hint[key]:g}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in hint]
    return " ".join((str(hint.get("description") or hint.get("const") or hint.get("type")), *span))
