"""Which cases took the path that a variant is about. An adapter that goes another way says so on stderr."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from attnspec.problems.choices import Menu
from attnspec.problems.recipe import Recipe
from attnspec.record.outcome import Reading
from attnspec.trials.covering_cases import openings

MARK = "attnspec: path not taken"
"""What an adapter prints, at the beginning of a line, in a call that does not take the path of its variant."""

GENTLE = "integers"
"""The family of entries that lie close together: what keeps a call from a fast path is mostly how far apart they are."""

_LOOKED_AT = 24  # openings among which a case with a keyword is looked for


@dataclass(slots=True)
class Paths:
    """Of one variant at one dtype: how many calls took its path, how many did not, and with which keywords."""

    taken: int = 0
    left: int = 0
    _with: set[str] = field(default_factory=set)

    def count(self, keywords: frozenset[str], said: str) -> None:
        """Take an answer into account. said: what was printed meanwhile."""
        if said.startswith(MARK) or f"\n{MARK}" in said:
            self.left += 1
        else:
            self.taken += 1
            self._with |= keywords

    def missed(self, keywords: frozenset[str]) -> frozenset[str]:
        """Those of the keywords that no call had which took the path; none where every call takes it."""
        return keywords - self._with if self.left else frozenset()


def gentle_cases(menu: Menu, seed: int, keywords: frozenset[str]) -> Iterator[Recipe]:
    """For each of these keywords a case with it, and with few others, whose entries keep no call from a fast path."""
    recipes = [menu.recipe(*choices) for choices in openings(menu, seed, _LOOKED_AT)]
    for keyword in sorted(keywords):
        having = [each for each in recipes if keyword in each.features]
        if having:
            yield replace(min(having, key=lambda each: (len(each.features), each.sizes.T)), families=(GENTLE,))


def readings_of(paths: Mapping[str, Paths]) -> Iterator[Reading]:
    """For each variant that went another way in some call, in how many it took its path."""
    for name, each in paths.items():
        if each.left:
            whole = each.taken + each.left
            yield Reading(f"path of {name}", f"{each.taken} of {whole}", 0.0,
                          f"{each.taken} of {whole} calls took the path of the variant {name}")
