"""Defines the enumerations that every package uses."""

from __future__ import annotations

import enum
from collections.abc import Mapping


class Level(enum.Enum):
    """RFC 2119 strength of a clause. Only `must` gates unless the run is strict."""

    MUST = "must"
    SHOULD = "should"
    MAY = "may"


class DType(enum.Enum):
    """The number formats under test. The value is the name in NumPy and ml_dtypes.

    All numbers by which they differ are in `core/dtype.py`.
    """

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


OTHER_THEME_NAMES: Mapping[str, str] = {
    "softmax": "attention", "weights": "attention", "gqa": "grouped", "mqa": "grouped",
    "heads": "grouped", "alibi": "bias", "precision": "numerics", "projections": "layers"}
"""By the theme under which people look for clauses, the theme that they have.

Its name may be spelled like a third one.
"""


class Verdict(enum.Enum):
    """The result of one clause for one subject at one dtype."""

    HELD = "held"
    VIOLATED = "violated"
    INAPPLICABLE = "inapplicable"  # with a reason: what the clause needs and the subject lacks
    NO_CLAIM = "no_claim"          # every case fell outside the domain of the bound
    ERRORED = "errored"            # the subject raised
    CRASHED = "crashed"            # the process died
    TIMED_OUT = "timed_out"
    NOT_RUN = "not_run"            # interrupted, or the adapter itself is broken
    EXPECTED = "expected"          # a listed deviation that fails in the listed way
    UNEXPECTED = "unexpected"      # a listed deviation that passes, or fails otherwise


FAILURES = frozenset({Verdict.VIOLATED, Verdict.ERRORED, Verdict.CRASHED, Verdict.TIMED_OUT})


NO_ANSWER = frozenset({Verdict.ERRORED, Verdict.CRASHED, Verdict.TIMED_OUT})
"""Verdicts on calls that gave no answer at all."""


def does_gate_run(verdict: Verdict, level: Level, *, strict: bool) -> bool:
    """Whether this outcome makes the exit code 1.

    A function that raises by accident, dies or hangs does not conform, whatever the clause: a
    recommendation is one of values, and it has given none.
    """
    if verdict is Verdict.UNEXPECTED or verdict in NO_ANSWER:
        return True
    weight = {Level.MUST: True, Level.SHOULD: strict, Level.MAY: False}[level]
    return weight and verdict in FAILURES


class Panel(enum.Enum):
    """What a picture of a counterexample shows. Expected and seen share their colours."""

    EXPECTED = "expected"
    SEEN = "seen"
    DIFFERENCE = "difference"
    BESIDE = "beside"  # another array of the case, with colours of its own


class Novelty(enum.Enum):
    """How an outcome differs from the known failures of its subject."""

    # a failure that is not listed, where nobody knows what the list was made under
    NEW = "new"
    # one that is not listed, though it was looked for when the list was made
    REGRESSION = "regression"
    UNTRIED = "not tried then"          # one that nobody looked for when the list was made
    DEEPER = "found at a higher effort"  # one that was looked for then, but not as hard
    MENDED = "mended"          # a listed one that holds now
    CHANGED = "changed"        # a listed one that fails otherwise, or is not judged any more


EXCUSED = frozenset({Novelty.UNTRIED, Novelty.DEEPER})
"""New failures that say nothing of a change in the subject: they do not gate."""


class Effort(enum.Enum):
    """How hard a run looks, from the least to the most: known failures are compared by this order.

    How many cases and sizes that is, is in `core/effort.py`. A glance is for many subjects at
    once: a few dealt cases of few shapes, and failures are shrunk by a few attempts.
    """

    GLANCE = "glance"
    QUICK = "quick"
    DEFAULT = "default"
    THOROUGH = "thorough"


class Kind(enum.Enum):
    """What a subject is: an attention function, a layer, or a rotary embedding."""

    ATTENTION = "attention"
    LAYER = "layer"
    ROTARY = "rotary"


def is_bare(target: str) -> bool:
    """Whether a target names a function of one's own, which has no manifest."""
    return ":" in target


LARGEST_INTEGER = 10**18
"""Whole numbers of a record are smaller: divisions of larger ones overflow."""
