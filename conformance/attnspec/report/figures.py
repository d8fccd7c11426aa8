"""Formats numbers, verdicts and texts of a record, for a page and for Markdown.

Records are foreign input, so none of their texts may become markup.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from attnspec.core.dtype import DTYPES
from attnspec.core.nouns import FAILURES, DType, Level, Verdict
from attnspec.record.outcome import ClauseText

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_AT_ALLOWANCE = 60.0  # percent of a gauge's width at margin 1; beyond it, the scale is logarithmic
_GAUGE_DECADES = 6.0


def format_figure(number: float | str, digits: int = 3) -> str:
    """Writes a number with `digits` significant digits. `nan`, `inf` and `-inf` may be words."""
    value = float(number)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return _format_plainly(value, digits).replace("-", "−")
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}×10{str(int(exponent)).translate(_RAISED)}".replace("-", "−")


def _format_plainly(value: float, digits: int) -> str:
    """Writes a number without an exponent, and with all digits before the point."""
    if abs(value) >= 10**digits:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def group_digits(number: int) -> str:
    """Writes a number with spaces between its thousands: `1 024 000`."""
    if number >= 10_000:
        return f"{number:,}".replace(",", "\u202f")
    return str(number)


def format_moment(stamp: str) -> str:
    """Writes an ISO time as people do; another text stays as it is."""
    try:
        return f"{datetime.fromisoformat(stamp):%Y-%m-%d %H:%M %Z}".rstrip()
    except ValueError:
        return stamp


def format_duration(seconds: float) -> str:
    """Writes a number of seconds in the unit that suits it."""
    if seconds >= 100:
        return f"{seconds / 60:.1f} min"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.0f} ms"


def gauge_margin(margin: float) -> int:
    """How full a gauge is, in percent: linear up to margin 1 (60 %), logarithmic beyond."""
    if math.isnan(margin) or math.isinf(margin):
        return 100
    if margin <= 1:
        return round(_AT_ALLOWANCE * max(margin, 0.0))
    excess = min(1.0, math.log10(margin) / _GAUGE_DECADES)
    return round(_AT_ALLOWANCE + (100 - _AT_ALLOWANCE) * excess)


def yes_or_no(value: str) -> str:
    """Writes Python's True and False as yes and no; another text stays as it is."""
    return {"True": "yes", "False": "no"}.get(value, value)


def word_for_reader(answer: str) -> str:
    """Writes an identifier with spaces; a text of several words stays as it is."""
    return answer if " " in answer else answer.replace("_", " ")


def shared_reason(subject: str, reason: str) -> str:
    """Replaces the subject's name by "it", so that subjects may share a reason."""
    return re.sub(rf"(?<![\w/.:-]){re.escape(subject)}(?![\w/:-])", "it", reason)


def ascii_name(text: str) -> str:
    """Makes a name safe as a fragment of an address."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)


@dataclass(frozen=True, slots=True)
class Sign:
    """How a verdict is shown. css: the class of its colour.  rank: its place from the gravest,
    which is 0.
    """

    sign: str
    word: str
    css: str
    rank: int
    meaning: str


SIGNS: Mapping[Verdict, Sign] = {
    Verdict.CRASHED: Sign("C", "crashed", "bad", 0, "The process died during the call."),
    Verdict.TIMED_OUT: Sign("T", "timed out", "bad", 1, "No answer came before the deadline."),
    Verdict.VIOLATED: Sign("✗", "violated", "bad", 2,
                           "An answer differs from what the clause says by more than rounding allows."),
    Verdict.ERRORED: Sign("E", "errored", "bad", 3,
                          "The implementation raised an exception on input that it claims to accept."),
    Verdict.UNEXPECTED: Sign("U", "unexpected", "odd", 4,
                             "A known failure that now passes, or fails in another way than the list says."),
    Verdict.EXPECTED: Sign("K", "known deviation", "known", 5,
                           "A known failure: it is on the list, and it fails as the list says."),
    Verdict.NOT_RUN: Sign("?", "not run", "idle", 6,
                          "Interrupted, or the adapter itself is broken. Never a pass."),
    Verdict.NO_CLAIM: Sign("○", "no claim", "open", 7,
                           "No case could be judged, mostly because rounding or overflow may change the right "
                           "answer by any amount. It says nothing about the implementation, and is never a pass."),
    Verdict.INAPPLICABLE: Sign("–", "inapplicable", "idle", 8,
                               "The implementation lacks what the clause needs; the reason is given. Never a pass."),
    Verdict.HELD: Sign("✓", "held", "good", 9, "No case contradicted the clause."),
}

ADVICE = replace(SIGNS[Verdict.VIOLATED], word="not as recommended")
"""The sign of a violated clause that does not gate."""

OTHER_CONVENTION = replace(ADVICE, word="another convention")
"""The same, if libraries use both conventions."""

FINDINGS = FAILURES | {Verdict.UNEXPECTED}
DECIDED = FAILURES | {Verdict.HELD, Verdict.EXPECTED, Verdict.UNEXPECTED}
SHORT_NAMES: Mapping[DType, str] = {dtype: each.short_name for dtype, each in DTYPES.items()}
LEVEL_WEIGHTS: Mapping[Level, int] = {Level.MUST: 0, Level.SHOULD: 1, Level.MAY: 2}


def gravest_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """The gravest of several verdicts."""
    return min(verdicts, key=lambda verdict: SIGNS[verdict].rank)


_GRAVEST_FIRST = (*sorted(FINDINGS, key=lambda verdict: SIGNS[verdict].rank), Verdict.EXPECTED,
                  Verdict.NOT_RUN, Verdict.HELD, Verdict.NO_CLAIM, Verdict.INAPPLICABLE)


def overall_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a clause over all dtypes: a failure at any of them counts first. A clause
    that is held at one dtype is held, even if it cannot be judged at others.
    """
    return min(verdicts, key=_GRAVEST_FIRST.index)


_CHINESE = re.compile(r"[\u3400-\u9fff]")
_WEB = re.compile(r"https?://[^\s/?#\\][^\s\\<>\"`]*", re.IGNORECASE)
_THREAD = re.compile(r"https://github\.com/([^/]+/[^/]+)/(?:issues|pull)/(\d+)(?:#.*)?")


def clause_anchor(clause: ClauseText) -> str:
    """Makes an anchor of a clause's id, safe for an address."""
    return f"clause-{ascii_name(clause.id)}"


def language_of_text(text: str) -> str:
    """The language tag by which browsers choose the font; empty for English."""
    return "zh" if _CHINESE.search(text) else ""


def web_address(url: str) -> str:
    """The address if it leads to the web, else nothing. A record may hold any text, such as
    `javascript:`.
    """
    return url if _WEB.fullmatch(url) else ""


def name_thread(url: str) -> str:
    """`owner/name#12` for a thread on GitHub, else the address without its scheme."""
    found = _THREAD.fullmatch(url)
    if found:
        return f"{found[1]}#{found[2]}"
    return url.partition("://")[2]


_CODE = re.compile(r"(`[^`]*`)")
_ADDRESS = re.compile(r"(https?://[^\s<>\"'\[\]`|*\\]+)", re.IGNORECASE)
_MARKUP = re.compile(r"([\\*\[\]<|]|(?<!\w)_|_(?!\w))")
_TICKS = re.compile("`+")


def escape_text(text: str) -> str:
    """Writes a text on one line of Markdown, with all its signs escaped."""
    return _escape_markup(_on_one_line(text))


def format_prose(text: str) -> str:
    """Writes a text on one line of Markdown that keeps `code` and addresses of the web."""
    pieces = []
    for part in _CODE.split(_on_one_line(text)):
        if part.startswith("`"):
            pieces.append(part)
        else:
            pieces += [piece if web_address(piece) else _escape_markup(piece)
                       for piece in _ADDRESS.split(part)]
    return "".join(pieces)


def _escape_markup(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def format_code(text: str) -> str:
    """Writes a text as code on one line, between more backticks than it has in a row."""
    line = _on_one_line(text)
    ticks = "`" * (_longest_run_of_ticks(line) + 1)
    room = " " if "`" in line else ""
    return f"{ticks}{room}{line}{room}{ticks}"


def fence_code(text: str, language: str) -> list[str]:
    """Writes lines of code as a block of Markdown."""
    fence = "`" * max(3, _longest_run_of_ticks(text) + 1)
    return [f"{fence}{language}", text.rstrip("\n"), fence]


def format_link(name: str, url: str) -> str:
    """`[name](url)`, or the name alone if the address does not lead to the web."""
    address = web_address(url).replace("(", "%28").replace(")", "%29").replace("|", "%7C")
    if address:
        return f"[{escape_text(name)}]({address})"
    return escape_text(name)


def format_row(cells: list[str]) -> str:
    """Writes a row of a Markdown table."""
    return "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in cells) + " |"


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _longest_run_of_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
