"""What a record's header says of a clause, with defaults for whatever an older or a foreign record leaves out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnspec.ground.nouns import Level
from attnspec.report.figures import ascii_name

_CHINESE = re.compile(r"[\u3400-\u9fff]")
_THREAD = re.compile(r"https://github\.com/([^/]+/[^/]+)/(?:issues|pull)/(\d+)(?:#.*)?")
_LEVELS = {level.value: level for level in Level}


@dataclass(frozen=True, slots=True)
class Quoted:
    """A citation. `url` is empty unless it is a web address."""

    title: str
    at: str
    quote: str
    note: str
    url: str


@dataclass(frozen=True, slots=True)
class ClauseText:
    """One clause as the page shows it. `anchor` is its id made safe for an address."""

    id: str
    anchor: str
    theme: str
    level: Level
    profile: str
    says: str
    formula: str
    because: tuple[Quoted, ...]
    needs: tuple[str, ...]
    refuted_by: tuple[str, ...]
    where: str
    note: str


def clause_text(clause: Mapping[str, object]) -> ClauseText:
    """Read one of `RunStarted.clauses`."""
    names = ("id", "theme", "profile", "says", "formula", "where", "note")
    text = {name: str(clause.get(name) or "") for name in names}
    text["theme"] = text["theme"] or text["id"].partition(".")[0]
    return ClauseText(
        **text, anchor=f"clause-{ascii_name(text['id'])}",
        level=_LEVELS.get(str(clause.get("level")), Level.MUST),
        because=tuple(_quoted(source) for source in _listed(clause.get("because")) if isinstance(source, Mapping)),
        needs=tuple(str(need) for need in _listed(clause.get("needs"))),
        refuted_by=tuple(str(fault) for fault in _listed(clause.get("refuted_by"))))


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _quoted(source: Mapping[str, object]) -> Quoted:
    text = {name: str(source.get(name) or "") for name in ("at", "quote", "note")}
    title = str(source.get("title") or source.get("cite") or "")
    return Quoted(title=title, **text, url=web_address(str(source.get("url") or "")))


def language(text: str) -> str:
    """The tag of the language that a text is in where that is not the page's own: browsers choose the font by it."""
    return "zh" if _CHINESE.search(text) else ""


def web_address(url: str) -> str:
    """The address if it leads to the web, else nothing: records are foreign input, and `javascript:` is an address."""
    return url if url.startswith(("https://", "http://")) else ""


def thread(url: str) -> str:
    """`owner/name#12` for the address of an issue or a pull request on GitHub, else the address without its scheme."""
    found = _THREAD.fullmatch(url)
    return f"{found[1]}#{found[2]}" if found else url.partition("://")[2]
