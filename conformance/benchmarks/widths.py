"""The table of precision words and plain mistakes: which class acquits what, and which classes are refused for it.

    python conformance/benchmarks/widths.py                # every word and value, and the classes that a finding offers
    python conformance/benchmarks/widths.py --pairs 300    # and so many pairs of them at each dtype, drawn by seed
    python conformance/benchmarks/widths.py --pairs 100000 # and every two of them
    python conformance/benchmarks/widths.py --judged 60    # and puts functions with a mistake all clauses under a class

For each class, at each dtype, the mistakes that conform under it. Such a class is refused; the last lines count them.
With `--judged`, classes that are not refused are drawn, words alone and in pairs, and a function with a mistake that
declares one of them is judged as `attnspec check` judges it. Exit codes: 0 all of them fail, 1 one conforms.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from attnspec.core.declaration import Declaration
from attnspec.core.errors import ManifestError
from attnspec.core.nouns import DType, Effort, Level
from attnspec.diagnosis.arithmetic import classes_for
from attnspec.faults.subject import own_subject
from attnspec.numerics.precision import VALUES_TRIED, declared_precision
from attnspec.numerics.width import DROPS_FROM, MISTAKES, Mistake, acquitted_by, define, refuse_too_wide
from attnspec.problems.make import as_dtype
from attnspec.problems.problem import Array, Problem
from attnspec.spec.load import load_spec
from attnspec.subjects.callee import InProcess
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import compile_spec
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.sizes import Dealer
from attnspec.trials.trial import Trial

Words = Mapping[str, object]
SPEC = load_spec()
SEED = 0
FIRST = ("attention.definition", "drift.", "causal.", "masking.hidden_row", "numerics.")
"""Clauses that a plain mistake breaks more likely than others are put first."""


def singles() -> Iterator[Words]:
    """Every word with every value that is tried of it."""
    yield from ({word: value} for word, values in VALUES_TRIED.items() for value in values)


def classes(dtype: DType, pairs: int, seed: int) -> Iterator[Words]:
    """The classes of a dtype: words alone, those that findings offer, and so many pairs of them."""
    alone = [*singles(), *(each.words for each in classes_for(dtype))]
    yield from alone
    both = [{**one, **other} for one, other in itertools.combinations(alone, 2) if not set(one) & set(other)]
    yield from random.Random(seed).sample(both, min(pairs, len(both)))


def with_mistake(mistake: Mistake, words: Words, dtype: DType) -> Subject:
    """A function that is right but for the mistake, rounds once, and declares the class."""
    keywords = frozenset({"mask"} if mistake.of_empty_row else {"causal"} if mistake.causal else set())
    hidden_row = {"hidden_row": "uniform"} if mistake.of_empty_row else {}
    declaration = Declaration(
        keywords=keywords, dtypes=(dtype,), precision={dtype: dict(words)},
        conventions={**hidden_row, "causal_alignment": "top_left", "grouped_heads": "repeat"})

    def attend(query: Array, key: Array, value: Array, *, causal: bool = False, mask: Array | None = None) -> Array:
        problem = Problem(dtype, query, key, value, causal=causal, mask=mask)
        is_wrong = (causal or not mistake.causal) and (key.shape[2] >= DROPS_FROM or mistake.sizes.S < DROPS_FROM)
        wrong = mistake.answer(problem) if is_wrong else define(problem)
        if mistake.of_empty_row:
            visible = np.ones(1, bool) if mask is None else np.asarray(mask)
            wrong = np.where(visible.any(axis=-1, keepdims=True), define(problem), wrong)
        return as_dtype(wrong, dtype)

    return replace(own_subject("sound/naive"), id=f"mistake/{mistake.name}", callee=InProcess(attend),
                   declaration=declaration)


def failing_clause(subject: Subject, dtype: DType) -> str:
    """The first clause that has to hold and fails at effort quick; empty if the mistake conforms."""
    checks = compile_spec(SPEC)
    dealer, evaluator = Dealer(subject, lambda: checks, Effort.QUICK, SEED), Evaluator(subject, dtype)
    order = sorted(checks, key=lambda name: next((at for at, first in enumerate(FIRST) if name.startswith(first)), 9))
    for check in (checks[name] for name in order):
        if check.clause.level is not Level.MUST or check.why_not_put(subject):
            continue
        trial = Trial(check, evaluator, Effort.QUICK, seed_of(SEED, check.domain), lambda _: None, shrinks=False,
                      shapes=dealer.shapes(check, dtype))
        if trial.hold().failure is not None:
            return check.clause.id
    return ""


def count_acquitted(number: int, seed: int, dtypes: Sequence[DType]) -> int:
    """How many of so many functions with a mistake conform under a class that is accepted, each told on a line."""
    dice, acquitted = random.Random(seed), 0
    by_dtype = {dtype: [each for each in classes(dtype, 300, seed) if is_accepted(each, dtype)] for dtype in dtypes}
    for index in range(number):
        dtype, mistake = dtypes[index % len(dtypes)], MISTAKES[index // len(dtypes) % len(MISTAKES)]
        words = dice.choice(by_dtype[dtype])
        clause = failing_clause(with_mistake(mistake, {**words, "reason": "the table"}, dtype), dtype)
        acquitted += not clause
        sys.stdout.write(f"{dtype.value} {dict(words)}, {mistake.name}: {clause or 'CONFORMS'}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{acquitted} of {number} functions with a mistake conform under a class that is accepted\n")
    return acquitted


def is_accepted(words: Words, dtype: DType) -> bool:
    """Whether a function may declare the class."""
    try:
        refuse_too_wide(declared_precision({**words, "reason": "the table"}, dtype))
    except ManifestError:
        return False
    return True


def main() -> None:
    """Print a line a class that acquits a mistake, and how many classes there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--judged", type=int, default=0)
    parser.add_argument("--dtype", action="append", choices=[dtype.value for dtype in DType])
    told = parser.parse_args()
    dtypes = [each for each in DType if not told.dtype or each.value in told.dtype]
    if told.judged:
        sys.exit(count_acquitted(told.judged, told.seed, dtypes) > 0)
    for dtype in dtypes:
        tried = wide = 0
        for words in classes(dtype, told.pairs, told.seed):
            try:
                precision = declared_precision({**words, "reason": "the table"}, dtype)
            except ManifestError:
                continue
            tried += 1
            if acquitted := acquitted_by(precision):
                wide += 1
                sys.stdout.write(f"{dtype.value} {dict(words)}: {'; '.join(each.name for each in acquitted)}\n")
        sys.stdout.write(f"{dtype.value}: {tried} classes, {wide} of them too wide, and refused\n")


if __name__ == "__main__":
    main()
