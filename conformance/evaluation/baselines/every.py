"""All rules of today, and the groups of them that are asked for by one name."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.baselines.gradient_rules import GRADIENT_RULES, GradientRule
from evaluation.baselines.quantised_rules import CODE_RULES
from evaluation.baselines.rules import RULES, Rule
from evaluation.baselines.serving_rules import SERVING_RULES

EVERY: Mapping[str, Rule | GradientRule] = {**RULES, **GRADIENT_RULES, **SERVING_RULES, **CODE_RULES}
"""Those on outputs, then those on gradients, on serving, and on codes and scales."""
