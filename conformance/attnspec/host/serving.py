"""Answers requests until there are no more: one process, one judge. docs/protocol.md says what each asks."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections import OrderedDict
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from . import calling, loading
from .calling import Arguments, Ended
from .describing import described
from .frames import FLOATS, NO_ROOMS, PIECE, Again, Entries, Incoming, packed, received, rooms, send
from .lifts import LIFTS, plain
from .lifts.making import FrameworkForm
from .raised import summary

VERSION = 1
KEPT = 2**26
"""Bytes of results that are kept, in the subject's own memory, to be looked at again."""

MOST_KEPT = 256
"""Results that are kept: each further one lies in fresh pages, which take time."""

REQUESTS = ("hello", "load", "lift", "call", "recall", "forget", "find", "examine")

Answer = Tuple[Mapping[str, Any], Sequence[Entries]]


def lift_named(name: str, device: str = "") -> Any:
    """A lift; "" hands over NumPy's arrays. Raises ImportError, LookupError for a device that is not there."""
    if name not in ("", *LIFTS):
        raise ImportError("there is no lift {!r}".format(name))
    return importlib.import_module("." + (name or "plain"), __package__ + ".lifts").LIFT(device)


class Servant:
    """The functions that were loaded, the lifts, and the last results. incoming: where its requests come from."""

    def __init__(self, incoming: Incoming, *, is_sharing: bool) -> None:
        self._incoming, self._is_sharing = incoming, is_sharing
        self._functions: List[Any] = []
        self._backwards: List[Any] = []  # of each function, or None
        self._lifts: Dict[Tuple[str, str], Any] = {}
        self._results: OrderedDict[int, Sequence[Entries]] = OrderedDict()
        self._kept = 0
        self._calls = 0

    def answer(self, header: Mapping[str, Any], arrays: Sequence[Entries]) -> Answer:
        """What comes of a request: a header and arrays. Raises nothing of the subject's."""
        asked = header.get("do")
        if asked not in REQUESTS:
            return {"error": "there is no request {!r}; version {} has {}".format(
                asked, VERSION, ", ".join(REQUESTS))}, ()
        answered: Answer = getattr(self, "_" + asked)(header, arrays)
        return answered

    def _hello(self, header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        """Who answers, once the folders that the judge names and the files that it hands over are on the path."""
        handed = loading.write_down(header.get("files", {}))
        sys.path[:] = list(dict.fromkeys([*header.get("path", ()), *([handed] if handed else ()), *sys.path]))
        loading.extend([handed + "/" + each if handed else each for each in header.get("adapters", ())])
        return {"version": VERSION, "handed": handed, "pid": os.getpid(), "machine": platform.machine(),
                "shared": self._is_sharing,
                "python": "{} {}".format(platform.python_implementation(), platform.python_version()),
                "numpy": np.__version__, "platform": platform.system()}, ()

    def _find(self, header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        """Which modules can be imported here, which versions of distributions are installed, and which distributions
        installed packages.
        """
        return {"modules": {name: loading.is_there(name) for name in header["modules"]},
                "versions": _versions({"versions": header["distributions"]}),
                "packages": {name: _distribution(name) for name in header.get("packages", ())}}, ()

    def _load(self, header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        """The function under a handle, and what can be known of it."""
        try:
            function, backward = loading.pair(header["from"], header["name"], header.get("backward", ""))
        except loading.NotLoaded as cause:
            return {"not_loaded": cause.told}, ()
        self._functions.append(function)
        self._backwards.append(backward)
        beside = {} if backward is None else {"backward": described(backward)}
        return {"handle": len(self._functions) - 1, "described": described(function), "versions": _versions(header),
                **beside}, ()

    def _examine(self, header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        """What else its author wrote down: for whoever wants to find out how it is called."""
        from . import examining  # noqa: PLC0415  (asked by few)

        function = self._functions[header["of"]]
        return {**examining.examined(function), **(examining.sources(function) if header.get("sources") else {})}, ()

    def _lift(self, header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        """What the framework does with each dtype on this device."""
        name, device = header["lift"], header.get("device", "")
        try:
            lift = self._lifted(name, device)
        except ImportError as cause:
            return {"no_lift": str(cause)}, ()
        except BaseException as cause:  # an import may raise whatever it likes
            if device and isinstance(cause, LookupError):
                return {"no_device": str(cause.args[0] if cause.args else "")}, ()
            return {"unusable": summary(cause)}, ()
        try:
            dtypes = {each: lift.takes(each) for each in FLOATS}
            flushed = {each: plain.flushed_by(lift, each) for each, why in dtypes.items() if name and not why}
            return {"device": lift.device, "not_taken": dtypes, "flushed": flushed, "about": lift.about()}, ()
        except BaseException as cause:  # a driver that is too old, a device that others have filled
            return {"unusable": summary(cause)}, ()

    def _lifted(self, name: str, device: str) -> Any:
        if (name, device) not in self._lifts:
            self._lifts[name, device] = lift_named(name, device)
        return self._lifts[name, device]

    def _call(self, header: Mapping[str, Any], arrays: Sequence[Entries]) -> Answer:
        """One call, and which of the arrays that it was given it changed."""
        rows = header.get("rows")
        inputs, keywords = [arrays[at] for at in header["inputs"]], unpacked(header["keywords"], arrays)
        given = Arguments(inputs, keywords, header["dtype"], [tuple(shape) for shape in header["shapes"]],
                          None if rows is None else arrays[rows].array, header.get("wrt", ()),
                          header.get("backward", False), _form(header))
        lift = self._lifted(header["lift"], header.get("device", ""))
        changed = self._incoming.watched(arrays)
        functions = self._backwards if given.is_backward else self._functions
        ended = calling.perform(functions[header["of"]], lift, given, is_sent=True)
        if ended.ended != "answered" and lift.is_lost():
            _give_up(lift.device, ended)
        self._keep(ended)
        found = [*ended.results, *(Entries("float64", each) for each in ended.gradients)]
        given_arrays = calling.arrays_of(given) if ended.aliases else ()
        shared = {id(given_arrays[at]) for at in ended.aliases}
        aliases = [at for at, each in enumerate(arrays) if id(each) in shared] if shared else []
        return {"ended": ended.ended, "call": self._calls, "results": len(ended.results), "told": ended.told,
                "has_gradients": ended.has_gradients, "aliases": aliases, "said": ended.said,
                "changed": changed()}, found

    def _keep(self, ended: Ended) -> None:
        self._calls += 1
        if ended.own:
            self._results[self._calls] = ended.own
            self._kept += _bytes(ended.own)
        while self._kept > KEPT or len(self._results) > MOST_KEPT:
            self._kept -= _bytes(self._results.popitem(last=False)[1])

    def _recall(self, header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        """What the memory of a result holds now; nothing where it was let go."""
        return {"call": header["call"]}, self._results.get(header["call"], ())

    def _forget(self, _header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        for lift in self._lifts.values():
            lift.forget()
        return {}, ()


def _form(header: Mapping[str, Any]) -> Optional[FrameworkForm]:
    """What the framework is to make of the function first."""
    asked = header.get("form")
    return FrameworkForm(asked["name"], asked.get("mapped", ())) if asked else None


def _give_up(device: str, ended: Ended) -> None:
    """End this process, with the words of the call that lost the device: no call after it could be answered."""
    why = ended.told.get("traceback") or ended.told.get("reading") or ""
    os.write(2, "{}\nNo more computation on {} is possible.\n".format(why, device).encode(errors="replace"))
    os.abort()


def _bytes(results: Sequence[Entries]) -> int:
    """How much memory arrays, of any shape, take."""
    return sum(each.array.nbytes for each in results)


def unpacked(value: Any, arrays: Sequence[Entries]) -> Any:
    """Keywords as they came over the wire, with the arrays that they name."""
    if isinstance(value, dict):
        if "$array" in value:
            return arrays[value["$array"]]
        if "$float" in value:
            return float(value["$float"])
        return {name: unpacked(inner, arrays) for name, inner in value.items()}
    return tuple(value) if isinstance(value, list) else value  # what a caller in Python gives; and it has a hash


def _versions(header: Mapping[str, Any]) -> Dict[str, str]:
    """Which versions of these distributions are installed; what is not is left out."""
    found = {name: _version(name) for name in header.get("versions", ())}
    return {name: version for name, version in found.items() if version}


def _version(name: str) -> str:
    from importlib import metadata  # noqa: PLC0415  (slow, and asked once)

    try:
        return metadata.version(name)
    except Exception:  # whatever is wrong with what is installed
        return ""


def _distribution(package: str) -> str:
    """What installed the package; "" where nothing did, and under Python 3.9 and older, which cannot tell."""
    from importlib import metadata  # noqa: PLC0415  (slow, and asked once)

    told: Mapping[str, List[str]] = getattr(metadata, "packages_distributions", dict)()
    return next(iter(told.get(package, ())), "")


def serve(requests: int, answers: int, memory: int) -> None:
    """Answer what comes on one descriptor on the other, until it ends. memory: a descriptor of what is shared; -1 for
    none.
    """

    def fill(view: memoryview) -> int:
        got = _read_into(requests, view)
        if not got:
            os._exit(0)
        return got

    shared = rooms(memory) if memory >= 0 else NO_ROOMS
    incoming = Incoming(fill, memoryview(bytearray(PIECE)), room=shared.requests, memory=Again().buffer)
    servant = Servant(incoming, is_sharing=memory >= 0)
    while True:
        send(_answered(servant, incoming, shared.answers), lambda parts: _write_from(answers, parts))


def _answered(servant: Servant, incoming: Incoming, room: Any) -> List[Any]:
    """The frame that answers the next one, its arrays in the room, uint8. Afterwards nothing here holds what came."""
    header, arrays = received(incoming)
    told, found = servant.answer(header, arrays)
    return packed({**told, "number": header.get("number")}, found, room)


def _read_into(descriptor: int, view: memoryview) -> int:
    if hasattr(os, "readv"):  # PyPy has none
        return os.readv(descriptor, [view])
    got = os.read(descriptor, len(view))
    view[:len(got)] = got
    return len(got)


def _write_from(descriptor: int, parts: List[Any]) -> int:
    return os.writev(descriptor, parts) if hasattr(os, "writev") else os.write(descriptor, parts[0])
