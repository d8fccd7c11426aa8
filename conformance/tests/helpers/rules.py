"""What the rules used today say of attnspec's own subjects."""

from __future__ import annotations

from attnspec.core.nouns import DType
from attnspec.evaluation.baselines.gradient_rules import GradientRule
from attnspec.evaluation.baselines.rules import Rule
from attnspec.faults.subject import own_subject


def said(rule: Rule | GradientRule, target: str, dtype: DType = DType.FLOAT32, seed: int = 0) -> list[bool]:
    """Case by case, whether the rule fails the subject."""
    return list(rule.judge(own_subject(target), dtype, seed))
