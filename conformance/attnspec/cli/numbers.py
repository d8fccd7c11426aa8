"""Numbers that options take: each has an end, so that no timer, seed or count overflows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import click

from attnspec.core.errors import UsageError
from attnspec.record.codec import LARGEST

Given: TypeAlias = Any  # what click hands over

LONGEST = 1_000_000.0  # seconds: eleven days


class WholeNumber(click.IntRange):
    """An option's whole number between two others."""

    name = "integer"


SEED = WholeNumber(1 - LARGEST, LARGEST - 1)
RANDOM = "random"


class SeedOrRandom(WholeNumber):
    """A seed, or the word that has one drawn."""

    name = "integer or random"

    def convert(self, value: Given, param: click.Parameter | None, ctx: click.Context | None) -> Given:
        """The seed, or the word as it is."""
        return value if value == RANDOM else super().convert(value, param, ctx)


SEED_OR_RANDOM = SeedOrRandom(1 - LARGEST, LARGEST - 1)
WORKERS = WholeNumber(1, 1024)
MANY = WholeNumber(1, 10**9)


class ParsedText(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """An option's text, parsed by a function; where that raises UsageError, the message names the option."""

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Given, param: click.Parameter | None, ctx: click.Context | None) -> Given:
        """Reads the text."""
        try:
            return self._read(value) if isinstance(value, str) else value
        except UsageError as wrong:
            self.fail(str(wrong), param, ctx)


class Seconds(click.FloatRange):
    """A time that ends: above zero, and no longer than timers go."""

    name = "number of seconds"

    def __init__(self) -> None:
        super().__init__(0, LONGEST, min_open=True)

    def convert(self, value: Given, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number. nan is neither too small nor too large, and no number."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return seconds
