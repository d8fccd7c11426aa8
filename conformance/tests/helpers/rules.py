"""What the rules used today say of attnspec's own subjects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from attnspec.core.nouns import DType
from attnspec.faults.subject import own_subject
from evaluation.baselines import dealing, inputs
from evaluation.baselines.every import EVERY
from evaluation.baselines.gradient_rules import GradientRule
from evaluation.baselines.rules import RULES, Rule


def failures_by_rule(rule: Rule | GradientRule, target: str, dtype: DType = DType.FLOAT32, seed: int = 0) -> list[bool]:
    """Case by case, whether the rule fails the subject."""
    return list(rule.judge(own_subject(target), dtype, seed))


def names_itself_and_its_source(rule: Rule | GradientRule) -> None:
    """Fails for a rule of a group that is asked for by name, if that is not so."""
    assert EVERY[rule.name] is rule
    assert rule.name not in RULES
    assert rule.source.startswith("https://")
    assert rule.meaning.endswith(".")
    assert all(re.search(r" at [0-9a-v.]{7}$", str(source)) for source in rule.read)


@contextmanager
def part_of_the_work(parts: int) -> Iterator[None]:
    """Grids deal one of so many parts of the work that they deal in a measurement."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dealing, "HALF", dealing.HALF / parts)
        inputs.posed_problems.cache_clear()
        yield
    inputs.posed_problems.cache_clear()
