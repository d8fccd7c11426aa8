"""The hosts of this process: one for each subject that is being judged, ended when others have taken its place."""

from __future__ import annotations

import atexit
from collections import OrderedDict
from collections.abc import Callable, Hashable

from attnspec.hosting.client import Client

MOST = 4
"""How many hosts a process keeps: a framework takes some hundred megabytes. One that is ended is started again when it
is asked again."""

_clients: OrderedDict[Hashable, Client] = OrderedDict()


def client_of(key: Hashable, make: Callable[[], Client]) -> Client:
    """The client that was made for this key, or a new one."""
    if key not in _clients:
        _clients[key] = make()
    _clients.move_to_end(key)
    while len(_clients) > MOST:
        _clients.popitem(last=False)[1].close()
    return _clients[key]


@atexit.register
def close_all() -> None:
    """End every host."""
    while _clients:
        _clients.popitem()[1].close()
