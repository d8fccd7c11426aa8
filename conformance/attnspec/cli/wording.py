"""How the console puts counts, verdicts and runs into words and colours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import click

from attnspec.cli.digest import ADVICE, ALARMING, verdict_words
from attnspec.core.nouns import Verdict
from attnspec.core.sizes import foretell_costs
from attnspec.record.events import OWN_DEVICE, RunStarted, SubjectKnown
from attnspec.record.measurements import SubjectProbed
from attnspec.report.figures import count_noun

_COLOURS: Mapping[str, str] = {
    **{verdict_words(verdict): "red" for verdict in ALARMING},
    **{verdict_words(verdict): "bright_black" for verdict in (Verdict.NO_CLAIM, Verdict.INAPPLICABLE)},
    verdict_words(Verdict.HELD): "green", verdict_words(Verdict.EXPECTED): "cyan",
    verdict_words(Verdict.NOT_RUN): "yellow", ADVICE: "yellow"}
_HELD, _NOT_RUN, _INAPPLICABLE = map(verdict_words, (Verdict.HELD, Verdict.NOT_RUN, Verdict.INAPPLICABLE))
_ORDER = (*map(verdict_words, Verdict), ADVICE)


def of_subject(subject: str, subjects: Sequence[str]) -> str:
    """` in numpy/attention`, where there are others."""
    return f" in {subject}" if len(subjects) > 1 else ""


def format_counts(counts: Counter[str]) -> str:
    """`61 held, 2 violated, 20 inapplicable`, in the order of the enumeration, in colour."""
    return ", ".join(_coloured(f"{counts[word]} {word}", word) for word in _ORDER if counts[word]) or "nothing"


def format_applicable(counts: Counter[str]) -> str:
    """`60 of 62 applicable items held, 2 violated`: a share of what applies; as `counted` where nothing was judged.

    Whether what was not run applies, nobody knows, so that it is no part of the 62.
    """
    left = counts - Counter({_INAPPLICABLE: counts[_INAPPLICABLE]})
    tried = left.total() - counts[_NOT_RUN]
    if not tried:
        return format_counts(counts)
    share = f"{counts[_HELD]} of {count_noun(tried, 'applicable item')} {_HELD}"
    held = _coloured(share, _HELD if counts[_HELD] else _NOT_RUN)
    del left[_HELD]
    return f"{held}, {format_counts(left)}" if left else held


def _coloured(text: str, word: str) -> str:
    return click.style(text, fg=_COLOURS[word], bold=_COLOURS[word] == "red")


def name_probed(probed: SubjectProbed) -> str:
    """`torch/mha [averaged], float32`."""
    variant = f" [{probed.variant}]" if probed.variant else ""
    return f"{probed.subject}{variant}, {probed.dtype.value}"


def format_opening(header: RunStarted) -> str:
    """What a run is, in one line."""
    environment = header.environment
    return (f"attnspec {environment['attnspec']}, spec {header.spec_version} ({header.spec_digest[:8]}): "
            f"{count_noun(header.items, 'item')} of {count_noun(len(header.planned), 'subject')}, "
            f"{', '.join(header.dtypes)}; "
            f"effort {header.effort}, seed {header.seed}, {count_noun(int(environment['workers']), 'worker')}"
            f"{_living(header)}")


def declared_sizes(known: SubjectKnown, header: RunStarted | None) -> Iterator[str]:
    """What the sizes are to cost that a subject declares, but those that the user named for the whole run."""
    told = header.sizes if header else ()
    yield from foretell_costs((each for each in known.card.sizes if each not in told), math.inf)


def _living(header: RunStarted) -> str:
    """Where subjects live, as far as somebody has named another environment or a device."""
    device = header.environment.get("device", OWN_DEVICE)
    places = (header.elsewhere and f"in {header.elsewhere}", "" if device == OWN_DEVICE else f"on {device}")
    there = " ".join(filter(None, places))
    return f"; subjects live {there}" if there else ""


def name_few(names: Sequence[str], room: int) -> str:
    """`a, b, c`: as many names as there are characters for, at least one; what is left out is `and 4 more`."""
    lengths = accumulate(len(name) + 2 for name in names)
    fitting = max(1, sum(length <= room for length in lengths))
    more = len(names) - fitting
    return ", ".join(names[:fitting]) + (f" and {more} more" if more else "")
