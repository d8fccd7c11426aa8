"""Problems with an output's gradient, and verdicts on who is asked for those of the inputs."""

from __future__ import annotations

from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe


def problem(more: str = "", dtype: DType = DType.FLOAT32, *, pattern: str = "normal",
            sizes: str = "B2,H4,Hkv2,T5,S7,D4,Dv4") -> Problem:
    features = "+".join(sorted(filter(None, ("grad_output", *more.split()))))
    mask = "with_empty_rows" if "mask" in more else "none"
    return make_problem(Recipe.parse(f"{sizes};mask={mask};families=normal;with={features};grad_output={pattern};"
                                     "seed=3"), dtype)


def verdicts(target: str, *clauses: str, dtype: DType = DType.FLOAT32) -> dict[str, Verdict]:
    engine = Engine(Plan((target,), clauses=clauses, dtypes=(dtype,), effort=Effort.GLANCE))
    return {item.clause: engine.try_item(item).verdict for item in engine.items()}


def grad(made: Problem) -> Array:
    assert made.grad_output is not None
    return made.grad_output
