"""What subjects share: the problems, and what the definition says of them, of all that are held to the same."""

from __future__ import annotations

from collections import OrderedDict

from attnspec.subjects.subject import SubjectDied
from attnspec.trials.evaluator import Archive, Evaluator

SHARED = 8
"""How many archives are kept at most: two classes at four dtypes."""


class Archives:
    """The archives of evaluators to whom the definition says the same, the most recently used ones."""

    def __init__(self, most: int = SHARED) -> None:
        self._most, self._held = most, OrderedDict[str, Archive]()

    def shared(self, evaluator: Evaluator) -> Evaluator:
        """The same evaluator with the archive of all that are like it; of one that dies at a probe, with its own."""
        try:
            key = evaluator.shared_by
        except SubjectDied:
            return evaluator
        archive = self._held.setdefault(key, Archive())
        self._held.move_to_end(key)
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return Evaluator(evaluator.subject, evaluator.dtype, evaluator.conventions, archive=archive)
