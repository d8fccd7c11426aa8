"""Faults that lose a keyword on some path of a kernel: beside another keyword, for a single query,
in all heads but one.

One scheme makes these mistakes of every keyword, under names such as `window_dropped_with_mask`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from attnspec.core.keywords import KEYWORDS, OFF, PLACED
from attnspec.faults.fault import Fault
from attnspec.faults.staged import Attend, around, attention
from attnspec.faults.staged_forms import Layer, LayerCall, staged_layer, take
from attnspec.faults.staged_work import Answer, HandedOver
from attnspec.problems.problem import Array


def always(call: HandedOver | LayerCall) -> bool:
    """True: every call takes this path."""
    return True


def _leave_out(call: HandedOver, keywords: Iterable[str]) -> HandedOver:
    """The call without these keywords."""
    return call.but(**{name: OFF[name] for name in keywords})


def forget(*keywords: str, where: Callable[[HandedOver], bool] = always) -> Callable[[], Attend]:
    """A maker of attention functions that ignore these keywords, in the calls that take a path."""
    return around(lambda call: attention(_leave_out(call, keywords) if where(call) else call))


def forget_in_layer(keyword: str, where: Callable[[LayerCall], bool] = always) -> Callable[[], Layer]:
    """A maker of layers that do not pass a keyword on, in the calls that take a path."""
    return staged_layer(take=lambda call: take(call.but(**{keyword: OFF[keyword]}) if where(call) else call))


def heed_in_first(axis: int, *keywords: str) -> Callable[[], Attend]:
    """A maker of attention functions that heed these keywords in an axis's first entry alone."""
    def answer(call: HandedOver) -> Answer:
        """Output (B,H,T,Dv), and what else is asked for."""
        heeded, unheeded = attention(call), attention(_leave_out(call, keywords))
        if isinstance(heeded, tuple):
            return tuple(_first_of(axis, *pair) for pair in zip(heeded, unheeded, strict=True))
        return _first_of(axis, heeded, np.asarray(unheeded))
    return around(answer)


def _first_of(axis: int, heeded: Array, other: Array) -> Array:
    """An array (B,H,T,·) whose first entry along an axis is `heeded`, and the rest `other`."""
    joined = np.array(other)
    np.moveaxis(joined, axis, 0)[:1] = np.moveaxis(heeded, axis, 0)[:1]
    return joined


@dataclass(frozen=True, slots=True)
class KernelPath:
    """A path that some calls take in a kernel.

    where, reach: which calls, in the words of a story and of a reach.
    """

    where: str
    reach: str
    is_taken: Callable[[HandedOver], bool]


_PATHS: Mapping[str, KernelPath] = {
    "with_weights": KernelPath("on the path that returns weights", "together with return_weights",
                               lambda call: call.return_weights),
    "without_weights": KernelPath("on the fast path, where no weights are asked for", "without return_weights",
                                  lambda call: not call.return_weights),
    "for_one_query": KernelPath("on the decoding path (T = 1)", "with T = 1", lambda call: call.query.shape[2] == 1),
}

WITH_PLACED = tuple(f"with_{name}" for name in PLACED)
"""The paths of calls with a keyword that counts from a query's own place."""


def _find_path(name: str) -> KernelPath:
    """The path of this name; `with_KEYWORD` is that of all calls with the keyword."""
    if name in _PATHS:
        return _PATHS[name]
    word = KEYWORDS[name.removeprefix("with_")]
    where, reach = f"where there is a {word.name}", f"together with a {word.name}"
    if word.annotation == "bool":
        where, reach = f"where the {word.called or word.name} is set", f"together with {word.name}"
    return KernelPath(where, reach, lambda call: word.name in call.given)


@dataclass(frozen=True, slots=True)
class LostKeyword:
    """A keyword that is lost on some paths.

    stem: how the names of its faults begin.  called: how their stories begin, such as "The window
    is".  reach: the calls with the keyword on which its loss shows.  keywords: what is ignored;
    the faults are about the first of them; none: the keyword that the stem names.
    """

    stem: str
    called: str
    reach: str
    keywords: tuple[str, ...] = ()

    def dropped(self, *paths: str, **reasons: str) -> tuple[Fault, ...]:
        """The faults that drop the keyword on these paths; `reasons` says, by path, how that
        happens.
        """
        return tuple(self._drop(name, reasons.get(name, "")) for name in (*reasons, *paths))

    def _drop(self, name: str, reason: str) -> Fault:
        path, keywords = _find_path(name), self.keywords or (self.stem,)
        story = f"{self.called} dropped {path.where}{reason and f': {reason}'}."
        return Fault(f"{self.stem}_dropped_{name}", keywords[0], story,
                     f"{self.reach} {path.reach}", forget(*keywords, where=path.is_taken))
