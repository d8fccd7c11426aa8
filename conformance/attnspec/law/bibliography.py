"""`spec/bibliography.yaml`: the sources that clauses may cite."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attnspec.ground.errors import SpecError
from attnspec.law.clause import Source
from attnspec.law.fields import Fields
from attnspec.law.yaml_lines import Located

KINDS: Mapping[str, str] = {
    "article": "a web page that explains the subject",
    "notes": "somebody's reading notes on a paper",
    "paper": "a scientific paper or preprint",
    "book": "a book",
    "manual": "a library's own documentation",
    "standard": "a specification",
    "issue": "a public bug report or change",
}
_SOURCE_KEYS = frozenset({"title", "kind", "url", "author", "year", "note"})
_KEY = re.compile(r"[a-z][a-z0-9_]*")


def read_bibliography(document: Located) -> dict[str, Source]:
    """The file's sources by their keys. Raises SpecError."""
    fields = Fields(document, "the bibliography")
    fields.only({"sources"})
    return read_sources(fields)


def read_sources(fields: Fields, *, optional: bool = False) -> dict[str, Source]:
    """The sources under `sources` by their keys. Raises SpecError with file and line for what is no source."""
    sources = fields.inner("sources", "the list of sources", optional=optional)
    return {key: _source(key, source) for key, source in sources.named("the source")}


def _source(key: str, fields: Fields) -> Source:
    fields.only(_SOURCE_KEYS)
    if not _KEY.fullmatch(key):
        raise SpecError(f"{key!r} is no key of a source: lower-case letters, digits and _ only.", where=fields.place())
    return Source(
        key=key, title=fields.text("title"), kind=fields.one_of("kind", KINDS, kind="kind of source"),
        url=fields.url("url", ""), author=fields.text("author", ""), year=_year(fields), note=fields.text("note", ""))


def _year(fields: Fields) -> str:
    if "year" not in fields.mapping:
        return ""
    year = fields.integer("year")
    if not 1000 <= year <= 9999:
        raise fields.complain("year", f"should have four digits, not {year}.")
    return str(year)
