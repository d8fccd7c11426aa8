"""`seen` of a finding: what a failure has to show, as it is written in findings.yaml."""

from __future__ import annotations

import math
import re
from dataclasses import fields as fields_of

from attnspec.core.errors import ManifestError
from attnspec.core.keywords import KEYWORDS
from attnspec.record.explaining import COMPARISON, SIZES, VALUES
from attnspec.record.seen import Seen
from attnspec.spec.fields import Fields


def read_seen(fields: Fields) -> Seen:
    """One way in which a failure shows it. Raises ManifestError with file and line for what no case can have."""
    fields.only(each.name for each in fields_of(Seen))
    if not fields.mapping:
        raise ManifestError(f"{fields.what} is empty, so every failure shows it. Say at least one sign.",
                            where=fields.place())
    return Seen(
        clauses=fields.texts("clauses", ()),
        needs=keywords(fields, "needs"), needs_any=keywords(fields, "needs_any"), without=keywords(fields, "without"),
        sizes=_sizes(fields), exception=pattern(fields, "exception"), values=_values(fields),
        relative_error=fields.number("relative_error", math.inf),
        absolute_error=fields.number("absolute_error", math.inf), margin=fields.number("margin", math.inf))


def keywords(fields: Fields, key: str) -> tuple[str, ...]:
    """A list of keywords of a subject, empty if not given. Raises ManifestError for one that there is not."""
    names = fields.texts(key, ())
    for index, name in enumerate(names):
        if name not in KEYWORDS:
            raise ManifestError.unknown("keyword of a subject", name, KEYWORDS,
                                        where=fields.mapping[key].place_of(index))
    return names


def pattern(fields: Fields, key: str) -> str:
    """A regular expression, empty if not given. Raises ManifestError for what is none."""
    text = fields.text(key, "")
    try:
        re.compile(text)
    except re.error as wrong:
        raise fields.complain(key, f"is no regular expression: {wrong}.") from None
    return text


def _sizes(fields: Fields) -> tuple[str, ...]:
    found = fields.texts("sizes", ())
    for each in found:
        if not COMPARISON.fullmatch(each):
            raise fields.complain("sizes", f"holds {each!r}, which is no comparison. Write one like 'T > S' or "
                                  f"'scale <= 0', of {', '.join(SIZES)}.")
    return found


def _values(fields: Fields) -> tuple[str, ...]:
    found = fields.texts("values", ())
    for each in found:
        if each not in VALUES:
            raise ManifestError.unknown("kind of value", each, VALUES, where=fields.place("values"))
    return found
