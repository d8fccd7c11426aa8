"""Problems whose last token is to find no more room in a cache, or the last of it."""

from __future__ import annotations

import numpy as np

from attnspec.core.forms import STATE
from attnspec.core.keyword import Acts
from attnspec.core.keywords import AXES, OFF, acting_on
from attnspec.problems.caches import divided
from attnspec.problems.problem import HELD, Problem, joined


def filled(problem: Problem, keys: int) -> Problem:
    """The last query and the last key behind so many keys, less one: those of the problem, again and again. Without
    what has rows or columns, and without what hides keys but the causal flag.
    """
    whole = joined(problem)
    order = np.append(np.arange(keys - 1) % whole.sizes.S, whole.sizes.S - 1)
    hiding = {name: off for name, off in acting_on(Acts.VISIBILITY).items() if off is not False}
    columns = {name: OFF[name] for name, axes in AXES.items() if set(axes) & set("TS") and name in OFF}
    repeated = {name: getattr(whole, name)[:, :, order] for name in HELD}
    last = np.ascontiguousarray(whole.query[:, :, -1:])
    return divided(whole.but(**{**columns, **hiding, STATE: None, **repeated, "query": last}), keys - 1)


def last_keys(problem: Problem, keys: int) -> Problem:
    """The same, without those before its last keys, all of which its one query sees."""
    whole = joined(problem)
    kept = {name: np.ascontiguousarray(getattr(whole, name)[:, :, -keys:]) for name in HELD}
    return whole.but(causal=False, **kept)
