"""The mathematics of sinks: each head has one more key, with a sink as its logit and no value."""

from __future__ import annotations

from attnspec.numerics.operands import Mathematics
from attnspec.problems.problem import Array, Problem


class SinksMathematics(Mathematics):
    """A sink is one more key, which every query sees."""

    def extra_key(self, problem: Problem) -> Array | None:
        """The sinks, (H,); None without any."""
        return problem.sinks


MATHEMATICS = SinksMathematics()
