"""What is told of where a failure begins: conditions on sizes, and the sizes beside them that hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attnspec.problems.problem import Sizes
from attnspec.problems.recipe import Recipe

# By whether a case fails with the first axis longer, with both of one length, and with the second longer.
RELATIONS: Mapping[tuple[bool, bool, bool], str] = {
    (True, False, False): ">", (False, False, True): "<", (True, False, True): "≠", (False, True, False): "=",
    (True, True, False): "≥", (False, True, True): "≤"}
# The same where no case with both of one length can be put, and of what holds beside it.
RELATIONS_APART: Mapping[tuple[bool, bool], str] = {(True, False): ">", (False, True): "<"}
HOLDING_APART: Mapping[str, str] = {">": "<", "<": ">"}
HOLDING: Mapping[str, str] = {">": "=", "<": "=", "≠": "=", "=": "≠", "≥": "<", "≤": ">"}


@dataclass(frozen=True, slots=True)
class BoundaryCondition:
    """One condition of the boundary of a failure: the axes it speaks of, how it is written, and what holds beside it.

    is_settled: whether enough other sizes were put to say so of all.
    """

    axes: tuple[str, ...]
    words: str
    holds: str
    is_settled: bool = True


@dataclass(frozen=True, slots=True)
class Boundary:
    """At which sizes a case fails.  smallest: the case at the smallest of them.  outside: sizes beside it that hold.

    sentence: empty where its sizes do not matter.
    """

    smallest: Recipe
    told: tuple[BoundaryCondition, ...]
    outside: tuple[Sizes, ...] = ()

    @property
    def sentence(self) -> str:
        """`Fails where T ≥ 65 and D ≥ 33; holds at T = 64 and at D = 32.`"""
        if not self.told:
            return ""
        holds = " and ".join(f"at {each.holds}" for each in self.told)
        is_settled = all(each.is_settled for each in self.told)
        begin, end = ("Fails where", "") if is_settled else ("Fails at", " (few other sizes were tried)")
        return f"{begin} {' and '.join(each.words for each in self.told)}; holds {holds}{end}."
