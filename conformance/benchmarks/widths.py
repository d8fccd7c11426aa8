"""The table of precision words and plain mistakes: which class acquits what, and which classes are refused for it.

    python conformance/benchmarks/widths.py                # every word and value, and the classes that a finding offers
    python conformance/benchmarks/widths.py --pairs 300    # and so many pairs of them at each dtype, drawn by seed
    python conformance/benchmarks/widths.py --pairs 100000 # and every two of them

For each class, at each dtype, the mistakes that conform under it. Such a class is refused; the last lines count them.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Iterator, Mapping

from attnspec.core.errors import ManifestError
from attnspec.core.nouns import DType
from attnspec.diagnosis.arithmetic_classes import classes_for
from attnspec.numerics.precision import VALUES_TRIED, precision_of
from attnspec.numerics.width import acquitted_by

Words = Mapping[str, object]


def singles() -> Iterator[Words]:
    """Every word with every value that is tried of it."""
    yield from ({word: value} for word, values in VALUES_TRIED.items() for value in values)


def classes(dtype: DType, pairs: int, seed: int) -> Iterator[Words]:
    """The classes of a dtype: words alone, those that findings offer, and so many pairs of them."""
    alone = [*singles(), *(each.words for each in classes_for(dtype))]
    yield from alone
    both = [{**one, **other} for one, other in itertools.combinations(alone, 2) if not set(one) & set(other)]
    yield from random.Random(seed).sample(both, min(pairs, len(both)))


def main() -> None:
    """Print a line a class that acquits a mistake, and how many classes there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", action="append", choices=[dtype.value for dtype in DType])
    told = parser.parse_args()
    for dtype in (each for each in DType if not told.dtype or each.value in told.dtype):
        tried = wide = 0
        for words in classes(dtype, told.pairs, told.seed):
            try:
                precision = precision_of({**words, "reason": "the table"}, dtype)
            except ManifestError:
                continue
            tried += 1
            if acquitted := acquitted_by(precision):
                wide += 1
                sys.stdout.write(f"{dtype.value} {dict(words)}: {'; '.join(each.name for each in acquitted)}\n")
        sys.stdout.write(f"{dtype.value}: {tried} classes, {wide} of them too wide, and refused\n")


if __name__ == "__main__":
    main()
