"""Where along one axis a function begins to refuse: sizes that are asked, and the condition that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from attnspec.core.refusal import RefusalCondition

PLACES: Mapping[str, tuple[int, ...]] = {
    "B": (1, 2, 3, 4, 9, 33),
    "H": (1, 2, 3, 4, 7, 8, 16, 71, 128),
    "G": (1, 2, 3, 4, 6, 7, 8),
    "T": (1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 100, 127, 128, 129, 256, 300),
    "S": (1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 100, 127, 128, 129, 256, 300),
    "D": (1, 2, 3, 7, 8, 16, 24, 32, 33, 40, 64, 72, 80, 96, 112, 128, 160, 192, 255, 256),
}
"""The sizes that an axis is asked for, once it is known to matter: each side of multiples, and what models have."""

FEW: Mapping[str, tuple[int, ...]] = {
    "B": (1, 3), "H": (1, 3, 8), "G": (1, 3), "T": (1, 8, 17, 64, 65, 128), "S": (1, 8, 17, 64, 65, 128),
    "D": (1, 8, 24, 33, 64, 72, 80, 96, 112, 128, 256)}
"""The same where each costs a compilation. One lies behind a multiple of 64: else steps look like a least length."""

STEPS = (512, 256, 128, 64, 32, 16, 8, 4, 2)
LONGEST_LIST = 12


@dataclass(frozen=True, slots=True)
class AxisRefusals:
    """Finds the conditions under which a function refuses sizes along one axis.

    taken, refused: the sizes that it takes and those that it refuses so far.  refuses: asks about one more.
    keeps: whether there is none such, or a known limit keeps it away.
    """

    name: str
    taken: Sequence[int]
    refused: Sequence[int]
    refuses: Callable[[int], bool]
    keeps: Callable[[int], bool] = lambda _: False

    def conditions(self) -> tuple[RefusalCondition, ...]:
        """The conditions under which it is refused, any of which is enough; none where nothing is refused."""
        if len(self.taken) == 1 and self._takes(twice := 2 * self.taken[0]):
            return replace(self, taken=(*self.taken, twice)).conditions()
        least, most = min(self.taken), max(self.taken)
        inner = [size for size in self.refused if least < size < most]
        if not inner:
            return tuple(self._ends(1))
        step = self._step()
        if all(size % step for size in inner):
            return RefusalCondition(self.name, "≠", 0, step), *self._ends(step)
        listed = self._list(inner)
        return (listed,) if listed.sign == "not in" else (listed, *self._ends(1))

    def _step(self) -> int:
        """The largest step of which all that is taken is a multiple, unless half a step further is taken as well."""
        step = next((step for step in STEPS if all(size % step == 0 for size in self.taken)), 1)
        while step > 1 and self._takes(min(self.taken) + step // 2):
            step //= 2
        return step

    def _takes(self, size: int) -> bool:
        return not self.keeps(size) and not self.refuses(size)

    def _ends(self, step: int) -> Iterator[RefusalCondition]:
        """Refused from a size on, upwards and downwards, among the multiples of a step."""
        below = [size for size in self.refused if size < min(self.taken) and size % step == 0]
        above = [size for size in self.refused if size > max(self.taken) and size % step == 0]
        if len(self.taken) == 1 and below and above and step == 1:
            yield RefusalCondition(self.name, "≠", self.taken[0])
            return
        if below:
            edge = self._edge(min(self.taken), max(below), step)
            yield RefusalCondition(self.name, "=", 1) if edge == 2 else RefusalCondition(self.name, "<", edge)
        if above:
            yield RefusalCondition(self.name, ">", self._edge(max(self.taken), min(above), step))

    def _edge(self, taken: int, refused: int, step: int) -> int:
        """The last multiple of the step that is taken, on the way to one that is refused."""
        while (middle := self._between(taken, refused, step)) is not None:
            taken, refused = (taken, middle) if self.refuses(middle) else (middle, refused)
        return taken

    def _between(self, taken: int, refused: int, step: int) -> int | None:
        """The multiple of the step that lies nearest to the middle, of those that no known limit keeps away."""
        sizes = range(taken, refused, step if refused > taken else -step)[1:]
        from_the_middle = sorted(sizes, key=lambda size: abs(2 * size - taken - refused))
        return next((size for size in from_the_middle if not self.keeps(size)), None)

    def _list(self, inner: Sequence[int]) -> RefusalCondition:
        """Only those that were taken are, if all in between are refused, too; else those that were refused are not."""
        taken = sorted(self.taken)
        unlisted = [(low + high) // 2 for low, high in pairwise(taken) if high - low > 1]
        if len(taken) <= LONGEST_LIST and all(map(self.refuses, unlisted)):
            return RefusalCondition(self.name, "not in", tuple(taken))
        if len(inner) > 1:
            return RefusalCondition(self.name, "in", tuple(inner))
        return RefusalCondition(self.name, "=", inner[0])
