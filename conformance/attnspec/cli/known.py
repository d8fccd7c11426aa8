"""A run held against the failures that are known: how many are as listed, and what is new, mended or changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

import click

from attnspec.cli.digest import Digest, is_gone
from attnspec.cli.wording import plural
from attnspec.ground.nouns import Novelty, Verdict
from attnspec.record.outcome import Outcome

_ORDER = tuple(Novelty)
_COLOURS = {Novelty.NEW: "red", Novelty.MENDED: "green", Novelty.CHANGED: "yellow"}


def held_against(digest: Digest, most: int = 0) -> Iterator[str]:
    """Lines that say how the run stands to its baseline, one a change; none if it was held against no baseline.

    most: tell so many changes; 0: all.
    """
    baseline = digest.header.baseline if digest.header else ""
    if not baseline:
        return
    changes = list(_lines(digest.outcomes))
    told = changes[:most] if most else changes
    yield f"Held against {baseline}: {_known(digest.outcomes)}{'' if changes else ', nothing new'}."
    yield from told
    if len(changes) > len(told):
        yield f"  and {plural(len(changes) - len(told), 'change')} more (-v shows them)"
    if changes:
        yield "  Is a change meant? Then --update-baseline takes it into the list, whose difference is to be reviewed."


def gone(digest: Digest) -> str:
    """`2 known failures (1 mended, 1 changed)`: those that are no failures any more; empty if there are none."""
    found = Counter(each.change.novelty for each in digest.outcomes if each.change and is_gone(each))
    detail = ", ".join(f"{found[each]} {each.value}" for each in _ORDER if found[each])
    return f"{plural(found.total(), 'known failure')} ({detail})" if found else ""


def but_for(digest: Digest) -> str:
    """`, but for 3 known failures`; empty if there are none."""
    known = sum(each.verdict is Verdict.EXPECTED for each in digest.outcomes)
    return f", but for {plural(known, 'known failure')}" if known else ""


def _known(outcomes: Iterable[Outcome]) -> str:
    """`3 known failures as listed (2 torch/this, 1 without a finding)`; findings only where any is named."""
    known = [each.finding for each in outcomes if each.verdict is Verdict.EXPECTED]
    if not known:
        return "no known failure"
    ranked = Counter(known).most_common() if any(known) else []
    detail = ", ".join(f"{number} {finding or 'without a finding'}" for finding, number in ranked)
    return f"{plural(len(known), 'known failure')} as listed{f' ({detail})' if detail else ''}"


def _lines(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """One for a subject, a clause and what is said of it; new ones first."""
    changed = sorted((each for each in outcomes if each.change), key=_key)
    for (number, subject, clause, says), group in groupby(changed, key=_key):
        novelty = _ORDER[number]
        dtypes = ", ".join(each.dtype.value for each in group)
        yield f"  {click.style(novelty.value, fg=_COLOURS[novelty], bold=True)}: {subject} {clause} ({dtypes}) {says}"


def _key(outcome: Outcome) -> tuple[int, str, str, str]:
    assert outcome.change is not None  # the others were left out
    return _ORDER.index(outcome.change.novelty), outcome.subject, outcome.clause, outcome.change.says
