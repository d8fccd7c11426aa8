"""Sinks in numbers: each head has one more key, whose logit is the sink and whose value is zero."""

from __future__ import annotations

from attnspec.numerics.operands import Mathematics
from attnspec.problems.problem import Array, Problem


class SinksMathematics(Mathematics):
    """A sink is one more key, which every query sees."""

    def extra_key(self, problem: Problem) -> Array | None:
        """(H,): the sinks; None without any."""
        return problem.sinks


MATHEMATICS = SinksMathematics()
