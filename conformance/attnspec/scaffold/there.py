"""The process in which a foreign callable lives while it is found out how it is called."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnspec.core.errors import TargetError
from attnspec.host.frames import MAX_HEADER_BYTES
from attnspec.hosting.client import Client, HostDied
from attnspec.scaffold.examined import ExaminedCallable, read_callable
from attnspec.subjects.exceptions import not_ended
from attnspec.subjects.subject import Subject
from attnspec.subjects.target import FunctionSource, describe_loaded, load_text


class OutOfTime(TargetError):  # noqa: N818  (named for what happened)
    """The search takes longer than it may."""


@dataclass(slots=True)
class CalleeProcess:
    """One process, and what was loaded in it. end_time: when the search has to be over, by `time.monotonic`.

    preload_source: Python that runs before anything else there, and loads a callee that no import finds.
    """

    client: Client
    end_time: float = float("inf")
    preload_source: str = ""
    _loaded: dict[tuple[str, str], Subject] = field(default_factory=dict)
    _has_modules: dict[str, bool] = field(default_factory=dict)

    def examine(self, target: str, *, sources: bool = False) -> ExaminedCallable:
        """What `package.module:name` is; with the sources of a function, if they are asked for. Raises TargetError."""
        if self.preload_source:
            self.load_source("def preloaded(query, key, value): ...\n", "preloaded", "")
        loaded = describe_loaded(_locate_function(target), target, self.client)
        if not loaded.description["is_callable"]:
            raise TargetError(f"{target!r} is {loaded.description['type']} and cannot be called.")
        header = {"do": "examine", "of": loaded.number, "sources": sources}
        try:
            told, _ = self.client.request(header, most=MAX_HEADER_BYTES)
            return read_callable(target, loaded.description, told)
        except HostDied as died:
            deadline = self.client.surroundings.deadline
            raise TargetError(not_ended(f"looking at {target!r}", died.death, deadline)) from None
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
            raise TargetError(f"the host does not describe {target!r} as docs/protocol.md says: {wrong!r}.") from None

    def load_source(self, text: str, name: str, lift: str) -> Subject:
        """The function of this name in this text, loaded once: what a framework compiles for it is kept.

        Raises TargetError; OutOfTime where time is up.
        """
        if time.monotonic() > self.end_time:
            raise OutOfTime(f"it had not returned after {self.client.surroundings.deadline:g} s. Give it longer: "
                            "--deadline.")
        if (text, lift) not in self._loaded:
            self._loaded[text, lift] = load_text(self._add_preload(text), name, self.client, lift=lift)
        return self._loaded[text, lift]

    def _add_preload(self, text: str) -> str:
        """The text, and before all that it imports what loads the callee."""
        future, line, rest = text.rpartition("from __future__ import annotations\n")
        return f"{future}{line}{self.preload_source}{rest}"

    def has_module(self, module: str) -> bool:
        """Whether it can be imported there."""
        if module not in self._has_modules:
            told: Mapping[str, Any] = self.client.request({"do": "find", "modules": [module], "distributions": []})[0]
            self._has_modules[module] = bool(told["modules"][module])
        return self._has_modules[module]


def _locate_function(target: str) -> FunctionSource:
    """Raises TargetError for what an adapter could not import."""
    module, _, name = target.rpartition(":")
    if not module or not name or module.endswith(".py") or "/" in module:
        raise TargetError(f"{target!r} names nothing in a module. Write package.module:name or path/to/file.py:name.")
    return FunctionSource.from_target(target)
