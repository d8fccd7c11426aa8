"""Correct attentions over pages that compute in different ways."""

from __future__ import annotations

from collections.abc import Callable

from attnspec.faults.pages import gather, table_of
from attnspec.faults.staged import Attend, around
from attnspec.faults.work import Answer, HandedOver


def side_by_side(answer: Callable[[HandedOver], Answer]) -> Callable[[], Attend]:
    """A maker of functions that put the keys and values of each entry one behind the other before they answer."""
    return around(lambda call: answer(gather(call)))


def page_by_page(answer: Callable[[HandedOver, int], Answer]) -> Callable[[], Attend]:
    """A maker of functions that answer in one pass over blocks of keys, each of them a page."""
    def answered(call: HandedOver) -> Answer:
        """As `answer` does; keys that lie in no pages are one."""
        table = table_of(call)
        return answer(gather(call), table.slots if table else call.key.shape[2])
    return around(answered)
