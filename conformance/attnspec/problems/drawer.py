"""Shares in [0, 1), drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attnspec.problems.entries import words


@dataclass(frozen=True, slots=True)
class Drawer:
    """Shares in [0, 1), one after the other, from a seed."""

    stream: Iterator[float]

    @classmethod
    def of(cls, seed: int, label: str) -> Drawer:
        """A stream of its own for each seed and label."""
        def shares() -> Iterator[float]:
            for block in range(2**31):
                yield from (words(seed, f"{label} {block}", (256,)) * 2.0**-32).tolist()
        return cls(shares())

    def share(self) -> float:
        """The next one."""
        return next(self.stream)

    def shuffled(self, items: Iterable[str]) -> list[str]:
        """The items in another order."""
        return [item for _, item in sorted((self.share(), item) for item in items)]
