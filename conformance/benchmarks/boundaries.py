"""How many findings name the planted axis and boundary in their first sentence, and what that costs.

    python conformance/benchmarks/boundaries.py --count 100 --seed 1

Size faults are drawn (`attnspec.faults.sizes`), each knows what was planted. A case that fails, larger than it need be,
is put to the clauses of its family; what is said of the first that fails is held against what was planted. Exit codes:
0 at least 90 % are named, 1 fewer.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
from attnspec.core.nouns import DType, Effort
from attnspec.diagnosis.boundaries import find_boundary
from attnspec.faults.catalogue import draw_fault
from attnspec.faults.sizes.families import ALL_FAMILIES
from attnspec.faults.subject import own_subject
from attnspec.problems.problem import Recipe, Sizes
from attnspec.spec.load import load_spec
from attnspec.trials.compile import Check, compile_spec
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Violated
from attnspec.trials.sizes import Resizer
from attnspec.trials.trial import Trial

ENOUGH = 0.9
_NAMES = {"G": "H/Hkv"}


def says(sentence: str, term: Any) -> bool:  # noqa: ANN401  (a term of what was planted)
    """Whether a sentence names this demand: S > T may be told as T < S."""
    turned = f"{term.other} < {term.axis}" if term.relation.value == "longer" and not term.number else sentence_of(term)
    return sentence_of(term) in sentence or turned in sentence


def sentence_of(term: Any) -> str:  # noqa: ANN401
    """What a sentence that names this demand contains."""
    axis, n, kind = _NAMES.get(term.axis, term.axis), term.number, term.relation.value
    return {"above": f"{axis} ≥ {n + 1}", "up to": f"{axis} ≤ {n}", "exactly": f"{axis} = {n}",
            "band": f"{n + 1} ≤ {axis} ≤ {2 * n}", "partial": f"{axis} is not a multiple of {n}",
            "whole": f"{axis} is a multiple of {n}", "one more": f"{axis} is one more than a multiple of {n}",
            "one less": f"{axis} is one less than a multiple of {n}", "no power": f"{axis} is not a power of two",
            "longer": f"{axis} > {term.other}" + (f" + {n}" if n else ""), "unlike": "≠"}[kind]


@dataclass(frozen=True, slots=True)
class Named:
    """What was said of one fault."""

    fault: str
    planted: str
    sentence: str
    is_named: bool
    sizes: int
    cases: int
    seconds: float


def failing(planted: Any, dice: random.Random) -> Iterator[Sizes]:  # noqa: ANN401
    """Sizes at which it bites, larger than they need be: those that a trial might draw."""
    least = planted.least()
    for _ in range(200):
        more = {name: least[name] + dice.choice((0, 0, 1, 3, dice.randrange(max(2, least[name]))))
                for name in ("B", "Hkv", "G", "T", "S", "D", "Dv")}
        sizes = Sizes(more["B"], more["Hkv"] * more["G"], more["Hkv"], *(more[name] for name in ("T", "S", "D", "Dv")))
        lengths = {**more, "H": sizes.H, "B·H": sizes.B * sizes.H}
        if planted.bites(lengths, planted.keywords):
            yield sizes


def name_boundary(
    fault: Any, checks: Mapping[str, Check], clauses: tuple[str, ...], dice: random.Random,  # noqa: ANN401
) -> Named | None:
    """What is said of the first failing case; None where no clause of the family fails on what was tried."""
    planted, subject = fault.planted, own_subject(f"fault/{fault.name}")
    evaluator = Evaluator(subject, DType.FLOAT32)
    mask = "random" if "mask" in planted.keywords else "none"
    for sizes in list(failing(planted, dice))[:6]:
        for clause in clauses:
            check = checks[clause]
            features = planted.keywords | check.domain.always
            case = Recipe(sizes, ("normal",), "random" if "mask" in features else mask, features, dice.randrange(2**24),
                          values={name: each[0] for name, each in check.domain.values.items() if name in features})
            trial = Trial(check, evaluator, Effort.DEFAULT, 0, lambda _: None)
            if isinstance(trial.judge_recipe(case).failure, Violated):
                return _locate_boundary(fault, trial, case)
    return None


def _locate_boundary(fault: Any, trial: Trial, case: Recipe) -> Named:  # noqa: ANN401
    started = time.perf_counter()
    limits = trial.evaluator.subject.declaration.limits
    resizer = Resizer(trial.judge_recipe, case, trial.check.domain, limits, 60, 1e9, 8.0, Violated, 4, any_family=True)
    boundary = find_boundary(resizer)
    sentence = boundary.sentence if boundary else ""
    return Named(fault.name, fault.planted.reach, sentence, all(says(sentence, term) for term in fault.planted.terms),
                 resizer.tried_count, resizer.cases, time.perf_counter() - started)


@click.command()
@click.option("--count", default=100, show_default=True, help="So many faults, of all families in turn.")
@click.option("--seed", default=1, show_default=True)
def main(count: int, seed: int) -> None:
    """Print the sentences that name something else than was planted, and the figures."""
    checks, dice = compile_spec(load_spec()), random.Random(seed)
    families = [ALL_FAMILIES[index % len(ALL_FAMILIES)] for index in range(count)]
    found = [name_boundary(draw_fault(family, seed + index), checks, family.clauses, dice)
             for index, family in enumerate(families)]
    located = [each for each in found if each]
    for each in located:
        click.echo(f"{'ok  ' if each.is_named else 'MISS'} {each.fault:40} {each.planted:44} {each.sentence}")
    share = sum(each.is_named for each in located) / max(1, len(located))
    click.echo(f"{len(located)} of {count} located; axis and boundary as planted in {share:.0%}; median of "
               f"{statistics.median(each.sizes for each in located)} sizes, at most {max(e.sizes for e in located)}; "
               f"{statistics.median(each.cases for each in located)} cases; "
               f"{statistics.mean(each.seconds for each in located):.2f} s a fault")
    raise SystemExit(share < ENOUGH)


if __name__ == "__main__":
    main()
