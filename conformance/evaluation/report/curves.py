"""The picture of power, laid out: one curve a rule, and at its end in a row what it convicted and whom it accused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnspec.record.events import SUITE, SubjectPut

from evaluation.report.power_figures import FaultGroup, count_accused, curve, false_alarms, rules, total_runs

REACH = 150
"""The number of cases at which the axis ends, unless a rule needs more."""
_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_PARTS = (0.0, 0.25, 0.5, 0.75, 1.0)
_PEERS = 9  # colours and dashes that the style sheet has for rules other than the suite


@dataclass(frozen=True, slots=True)
class Frame:
    """Where things go. left … bottom: the box of the curves.  gap: the least distance of labels.

    name, convicted, accused: where the columns of the rows start or (the last two) end.  letters: the longest name.
    rows: the y of the first row, or None where rows follow the curves' ends.
    """

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    gap: int
    name: int
    convicted: int
    accused: int
    letters: int
    rows: int | None = None


WIDE = Frame(960, 470, left=46, right=500, top=40, bottom=410, gap=27, name=552, convicted=826, accused=944, letters=36)
NARROW = Frame(360, 0, left=42, right=322, top=12, bottom=220, gap=14, name=46, convicted=306, accused=358, letters=36,
               rows=300)
_ROW = 22  # height of a row that stands below the curves


@dataclass(frozen=True, slots=True)
class CurveTick:
    """A mark on an axis of the curves."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Curve:
    """One rule. `d` is the path of its curve, `leader` that from the curve's end to its row or letter at `label_y`."""

    rule: str
    title: str
    css: str
    letter: str
    d: str
    end: tuple[float, float]
    leader: str
    label_y: float
    row_y: float
    convicted: FaultGroup
    accused: FaultGroup
    name: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The picture, ready to be drawn."""

    frame: Frame
    height: int
    is_wide: bool
    cases: tuple[CurveTick, ...]
    parts: tuple[CurveTick, ...]
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class _Axes:
    frame: Frame
    reach: int

    def x(self, cases: float) -> float:
        """Cases, on a log scale."""
        span = self.frame.right - self.frame.left
        return round(self.frame.left + span * math.log(max(cases, 1)) / math.log(self.reach), 1)

    def y(self, part: float) -> float:
        """A share, 0 at the bottom."""
        return round(self.frame.bottom - (self.frame.bottom - self.frame.top) * part, 1)


def chart(puts: Sequence[SubjectPut], titles: Mapping[str, str], frame: Frame) -> Chart:
    """Lay the picture out. `titles`: what the rules are called, by name."""
    fates = sorted((_fate(puts, rule) for rule in rules(puts)), key=lambda fate: -fate.height)
    axes = _Axes(frame, max([REACH, *(cases for fate in fates for cases, _ in fate.steps)]))
    labels = spread([axes.y(fate.height) for fate in fates], frame.gap, frame.top, frame.bottom)
    css = _colours(rules(puts))
    return Chart(
        frame, frame.height or (frame.rows or 0) + _ROW * len(fates), frame.rows is None,
        tuple(CurveTick(axes.x(cases), str(cases)) for cases in _TICKS if cases <= axes.reach),
        tuple(CurveTick(axes.y(each), f"{100 * each:.0f} %") for each in _PARTS),
        tuple(_curve(fate, axes, titles.get(fate.rule, fate.rule), css[fate.rule], (place, labels[place]))
              for place, fate in enumerate(fates)))


@dataclass(frozen=True, slots=True)
class _Fate:
    """What a rule came to. `tried`: the most cases that it tried on one subject."""

    rule: str
    steps: tuple[tuple[int, float], ...]
    tried: int
    convicted: FaultGroup
    accused: FaultGroup

    @property
    def height(self) -> float:
        """The share where the curve ends."""
        return self.steps[-1][1] if self.steps else 0.0


def _fate(puts: Sequence[SubjectPut], rule: str) -> _Fate:
    tried = max((said.cases for put in puts for said in put.convictions if said.rule == rule), default=1)
    return _Fate(rule, curve(puts, rule), tried, total_runs(puts, rule), count_accused(false_alarms(puts), rule))


def _colours(names: Sequence[str]) -> Mapping[str, str]:
    """The class of every rule's colour and dashes; the suite has its own, the others one by their order."""
    peers = [name for name in names if name != SUITE]
    return {SUITE: "suite", **{name: f"peer{place % _PEERS}" for place, name in enumerate(peers)}}


def _curve(fate: _Fate, axes: _Axes, title: str, css: str, row: tuple[int, float]) -> Curve:
    """The curve whose row is the `row[0]`th and whose label stands at `row[1]`."""
    frame = axes.frame
    place, label_y = row
    # where nobody is left to convict, more cases would change nothing
    last = axes.reach if fate.height == 1 else min(axes.reach, fate.tried)
    end = axes.x(last), axes.y(fate.height)
    return Curve(
        rule=fate.rule, title=title, css=css, letter=chr(ord("A") + place % 26), d=_path(fate.steps, axes, last),
        end=end, leader=f"M{end[0]} {end[1]}H{frame.right}L{frame.right + 14} {label_y}", label_y=label_y,
        row_y=label_y if frame.rows is None else frame.rows + _ROW * place,
        convicted=fate.convicted, accused=fate.accused, name=shorten_text(title, frame.letters))


def _path(steps: Sequence[tuple[int, float]], axes: _Axes, last: int) -> str:
    """Level until the next case convicts, then up; it starts with what the first case convicts."""
    first = next((part for cases, part in steps if cases <= 1), 0.0)
    risen = "".join(f"H{axes.x(cases)}V{axes.y(part)}" for cases, part in steps if cases > 1)
    return f"M{axes.x(1)} {axes.y(first)}{risen}H{axes.x(last)}"


def spread(wanted: Sequence[float], gap: float, top: float, bottom: float) -> list[float]:
    """Ordinates in rising order, at least `gap` apart, as near to those wanted as they fit between top and bottom."""
    placed: list[float] = []
    for at in wanted:
        placed.append(max(at, placed[-1] + gap) if placed else max(at, top))
    limit = bottom
    for place in reversed(range(len(placed))):
        placed[place] = min(placed[place], limit)
        limit = placed[place] - gap
    return [round(at, 1) for at in placed]


def shorten_text(text: str, letters: int) -> str:
    """The text, cut with an ellipsis where it is too long."""
    return text if len(text) <= letters else f"{text[: letters - 1].rstrip()}…"
