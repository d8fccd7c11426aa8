"""How a call ended in another process, read from what came back: whatever runs there can write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnspec.host.calling import NO_GRADIENT, NOT_MADE, NOT_REACHED, Ended
from attnspec.host.frames import Entries
from attnspec.host.parts import READABLE
from attnspec.problems.problem import Array
from attnspec.subjects.call import Call


class NotAnAnswer(Exception):  # noqa: N818  (it becomes a death)
    """What came back is none, and why."""


def ended_there(told: Mapping[str, Any], found: Sequence[Entries], call: Call,
                arrays: Sequence[Array]) -> tuple[Ended, frozenset[int]]:
    """How the call ended, and the ids of the arrays given, of any shape, that it changed. Raises NotAnAnswer."""
    try:
        results = found[: int(told["results"])]
        gradients = [each.array for each in found[len(results):]]
        _check_arrays(told, call, results, gradients)
        _check_words(told["ended"], told["told"], call)
        shared = {id(arrays[int(at)]) for at in told["aliases"]}
        aliases = [at for at, array in enumerate(call.named.values()) if id(array) in shared] if shared else []
        ended = Ended(told["ended"], results, (), gradients, told["has_gradients"] is True, aliases, dict(told["told"]),
                      str(told["said"]))
        return ended, frozenset(id(arrays[int(at)]) for at in told["changed"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
        raise NotAnAnswer(str(wrong)) from None


def _check_arrays(told: Mapping[str, Any], call: Call, results: Sequence[Entries], gradients: Sequence[Array]) -> None:
    """Raise ValueError for results and gradients, any shape, that are not those that are due."""
    int(str(told["call"]))
    due = [tuple(shape) for shape in call.shapes] if told["ended"] == "answered" else []
    if [each.array.shape for each in results] != due or any(each.dtype not in READABLE for each in results):
        raise ValueError("the arrays are not those that were expected")
    shapes = [array.shape for array in call.arrays.values()] if told["has_gradients"] is True else []
    if [each.shape for each in gradients] != shapes or any(each.dtype != "float64" for each in gradients):
        raise ValueError("the gradients are not those that were expected")


_TEXTS: Mapping[object, Sequence[str]] = {
    "answered": (), "raised": ("summary", "traceback", "statement"), "unusable": ("named", "name", "reading")}


_UNPLACED = frozenset({"the pair", "the mapping", NO_GRADIENT, NOT_MADE, NOT_REACHED})
"""Names of what came back that stand for no array of the answer."""


def _check_words(ended: object, words: Mapping[str, Any], call: Call) -> None:
    """Raise KeyError, TypeError, ValueError or IndexError for words that do not tell how a call ended."""
    if ended not in _TEXTS or any(type(words[name]) is not str for name in _TEXTS[ended]):
        raise ValueError(f"no call ends so: {str(ended)[:20]!r}")
    if ended == "raised":
        _ = [str(each) for each in words["classes"]]
        _, _, line = words.get("by") or ("", "", 0)
        _ = int(line)
    if ended == "unusable" and words["name"] not in _UNPLACED:
        _ = call.shapes[words["at"]]
