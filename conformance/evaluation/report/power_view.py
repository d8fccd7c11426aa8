"""The section on a measurement of power, and its table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnspec.core.nouns import DType
from attnspec.core.texts import count_noun
from attnspec.record.events import SUITE, SubjectPut
from attnspec.record.read import RunRecord
from attnspec.report import figures
from attnspec.report.figures import web_address

from evaluation.report.curves import NARROW, WIDE, Chart, chart
from evaluation.report.power_details import (
    Accusation,
    Equivalent,
    accusations,
    distributions,
    equivalents,
    quantiles,
    tally,
)
from evaluation.report.power_figures import (
    Alarm,
    Escapee,
    FaultGroup,
    Naming,
    RuleShare,
    best_peer,
    count_accused,
    dtypes,
    escapees,
    false_alarms,
    naming,
    percent,
    rules,
    shares,
    stages,
    tellable,
    total,
    total_at_sizes,
    total_runs,
)

Texts = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule. `shares` and `alarms`: one a dtype, None where it was not asked.

    brief, rest: what it does, the first sentence and the others.  cases: half, 95 % and all of the convictions took.
    at_sizes: the faults that show only at certain sizes.
    """

    rule: str
    title: str
    source: str
    brief: str
    rest: str
    shares: tuple[RuleShare | None, ...]
    alarms: tuple[Alarm | None, ...]
    cases: tuple[int, int, int]
    convicted: FaultGroup
    runs: FaultGroup
    at_sizes: FaultGroup
    accused: FaultGroup


@dataclass(frozen=True, slots=True)
class FaultText:
    """What the header says of a fault: how people come to write it, what makes it bite, and the link of a real one."""

    story: str = ""
    reach: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class StageRow:
    """The faults of one stage before the suite and before the best of the others."""

    suite: FaultGroup
    peer: FaultGroup | None


@dataclass(frozen=True, slots=True)
class Power:
    """All that the section shows. `distributions`: for each dtype, classes of cases with how many runs fell in each."""

    headline: str
    css: str
    faults: int
    seeds: int
    dtypes: tuple[DType, ...]
    rows: tuple[RuleRow, ...]
    suite: RuleRow | None
    peer: RuleRow | None
    wide: Chart
    narrow: Chart
    stages: tuple[StageRow, ...]
    escapees: tuple[Escapee, ...]
    equivalents: tuple[Equivalent, ...]
    instruments: tuple[tuple[str, int], ...]
    clauses: tuple[tuple[str, int], ...]
    naming: Naming
    distributions: tuple[tuple[tuple[str, int], ...], ...]
    texts: Mapping[str, FaultText]
    lost: tuple[SubjectPut, ...]
    accusations: tuple[Accusation, ...]

    @property
    def has_size_faults(self) -> bool:
        """Whether any fault shows only at certain sizes."""
        return any(row.at_sizes.tried for row in self.rows)


def puts_of(records: Sequence[RunRecord]) -> tuple[SubjectPut, ...]:
    """What all records measured; what several tell, the last one tells."""
    found = {(put.subject, put.dtype, put.seed): put for record in records for put in record.puts}
    return tuple(found.values())


def is_of_power(record: RunRecord) -> bool:
    """Whether a record measures power, be it that nothing was measured yet."""
    return bool(record.puts or record.header.rules)


def texts_of(records: Sequence[RunRecord], kind: str) -> Texts:
    """What the headers say of `rules` or of `faults`, by name."""
    listed = [text for record in records for text in getattr(record.header, kind)]
    return {text["name"]: text for text in listed if "name" in text}


def _faults(records: Sequence[RunRecord], escaped: Sequence[Escapee]) -> Mapping[str, FaultText]:
    """What is known of each fault that escaped, by name."""
    texts = texts_of(records, "faults")
    return {each.name: _fault(texts.get(each.name, {})) for each in escaped}


def _fault(text: Mapping[str, str]) -> FaultText:
    return FaultText(*(text.get(word, "") for word in ("story", "reach", "link")))


def _rules(records: Sequence[RunRecord]) -> Texts:
    """What the headers say of the rules; the suite, if they say nothing, speaks for itself."""
    efforts = " and ".join(dict.fromkeys(record.header.effort for record in records if is_of_power(record)))
    own = {"title": SUITE, "meaning": f"The clauses of the spec, each on the cases of a check at effort {efforts}."}
    return {SUITE: own, **texts_of(records, "rules")}


def titles_of(records: Sequence[RunRecord]) -> Mapping[str, str]:
    """What the rules are called, by name."""
    return {name: text.get("title") or name for name, text in texts_of(records, "rules").items()}


def power(records: Sequence[RunRecord]) -> Power | None:
    """The power that all records together measured, or None where none measures any."""
    if not any(map(is_of_power, records)):
        return None
    puts = puts_of(records)
    rows = _rows(puts, _rules(records))
    by_rule = {row.rule: row for row in rows}
    escaped = escapees(puts)
    suite, peer = by_rule.get(SUITE), by_rule.get(best_peer(puts))
    titles = titles_of(records)
    return Power(
        headline=headline(puts, suite), css=_css(suite, is_whole=not _is_short(records, puts)),
        faults=len({put.subject for put in tellable(puts)}),
        seeds=len({put.seed for put in puts}), dtypes=dtypes(tellable(puts)), rows=rows, suite=suite, peer=peer,
        wide=chart(puts, titles, WIDE), narrow=chart(puts, titles, NARROW), stages=_stages(puts, peer),
        escapees=escaped, equivalents=equivalents(puts),
        instruments=tally(puts, lambda said: said.instrument), clauses=tally(puts, lambda said: said.clause),
        naming=naming(puts), distributions=distributions(puts),
        texts=_faults(records, escaped), lost=tuple(put for put in puts if put.lost),
        accusations=accusations(puts))


def headline(puts: Sequence[SubjectPut], suite: RuleRow | None) -> str:
    """What the suite's power comes to, in a sentence."""
    if suite is None or not suite.convicted.tried:
        return "No power was measured"
    faults = count_noun(len({put.subject for put in tellable(puts)}), "fault")
    share = "All" if suite.convicted.convicted == suite.convicted.tried else f"{percent(suite.convicted.part)} of"
    sound = {put.subject for put in puts if not put.is_fault}
    wronged = len({name for alarm in suite.alarms if alarm for name in alarm.accused}) or "none"
    tested = count_noun(len(sound), "correct implementation")
    alarms = f"false alarms for {wronged} of {tested}" if sound else "no correct implementation tested"
    return f"{share} {faults} detected, {alarms}"


def _is_short(records: Sequence[RunRecord], puts: Sequence[SubjectPut]) -> bool:
    """Whether anything was lost or never put."""
    return any(put.lost for put in puts) or any(record.is_interrupted for record in records if is_of_power(record))


def _css(suite: RuleRow | None, *, is_whole: bool) -> str:
    if suite is None or not suite.convicted.tried:
        return "idle"
    if suite.accused.convicted:
        return "bad"
    has_all = suite.convicted.convicted == suite.convicted.tried and suite.accused.tried
    return "good" if has_all and is_whole else "idle"


def _rows(puts: Sequence[SubjectPut], texts: Texts) -> tuple[RuleRow, ...]:
    """Every rule with its figures: the suite first, then whoever convicts more."""
    by_rule = {(share.rule, share.dtype): share for share in shares(puts)}
    alarms = {(alarm.rule, alarm.dtype): alarm for alarm in false_alarms(puts)}
    found = [_row(puts, rule, texts.get(rule, {}), by_rule, alarms) for rule in rules(puts)]
    return tuple(sorted(found, key=lambda row: (row.rule != SUITE, -row.runs.part)))


def _row(
    puts: Sequence[SubjectPut], rule: str, text: Mapping[str, str], found: Mapping[tuple[str, DType], RuleShare],
    alarms: Mapping[tuple[str, DType], Alarm],
) -> RuleRow:
    keys = [(rule, dtype) for dtype in dtypes(tellable(puts))]
    brief, stop, rest = text.get("meaning", "").partition(". ")
    return RuleRow(
        rule=rule, title=text.get("title") or rule, source=text.get("source", ""),
        brief=brief + stop.strip(), rest=rest, shares=tuple(map(found.get, keys)), alarms=tuple(map(alarms.get, keys)),
        cases=quantiles(puts, rule), convicted=total(puts, rule), runs=total_runs(puts, rule),
        at_sizes=total_at_sizes(puts, rule), accused=count_accused(alarms.values(), rule))


def _stages(puts: Sequence[SubjectPut], peer: RuleRow | None) -> tuple[StageRow, ...]:
    others = {group.name: group for group in stages(puts, peer.rule)} if peer else {}
    return tuple(StageRow(group, others.get(group.name)) for group in stages(puts, SUITE))


def markdown_table(*records: RunRecord) -> str:
    """One row a rule: the share of faults that it convicts at each dtype, how soon, and whom it accuses. Ends its line.

    Records are counted together. Without a measurement of power it is empty.
    """
    measured = power(records)
    if measured is None or not measured.rows:
        return ""
    return "".join((_head(measured), *(_markdown_row(row, measured) for row in measured.rows)))


AT_SIZES = "shows only at certain sizes"
"""What faults are called, of which a table has a column."""


def _head(measured: Power) -> str:
    names = ("detected by", *(dtype.value for dtype in measured.dtypes),
             *([AT_SIZES] if measured.has_size_faults else []), "cases: median, 95 %, worst", "false alarms")
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n"


def _markdown_row(row: RuleRow, measured: Power) -> str:
    at_sizes = [_of_group(row.at_sizes)] if measured.has_size_faults else []
    cells = [_title(row), *map(_share, row.shares), *at_sizes, ", ".join(map(str, row.cases)),
             _format_accused(row.accused)]
    return f"{figures.format_row(cells)}\n"


def _of_group(group: FaultGroup) -> str:
    """The share that is convicted; a dash where nothing was put."""
    return percent(group.part) if group.tried else "–"


def _title(row: RuleRow) -> str:
    if web_address(row.source):
        return figures.format_link(row.title, row.source)
    return f"**{figures.escape_text(row.title)}**"


def _share(share: RuleShare | None) -> str:
    return percent(share.part) if share else "–"


def _format_accused(group: FaultGroup) -> str:
    return f"{group.convicted} of {group.tried}" if group.tried else "–"
