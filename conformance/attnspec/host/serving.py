"""Answers the requests of one judge until there are no more (docs/protocol.md)."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections import OrderedDict
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from . import calling, loading
from .calling import Arguments, CallEnding
from .describing import describe_callable
from .frames import (
    FLOATS,
    NO_ROOMS,
    READ_AHEAD_BYTES,
    Entries,
    Incoming,
    ReusedMemory,
    map_rooms,
    pack_frame,
    receive_frame,
    send_frame,
)
from .lifts import LIFTS, plain
from .lifts.making import FrameworkForm
from .raised import summarise_exception

PROTOCOL_VERSION = 1
MAX_KEPT_BYTES = 2**26
"""Bytes of results that are kept, in the subject's own memory, to be looked at again."""

MAX_KEPT_RESULTS = 256
"""Results that are kept: each further one lies in fresh pages, which take time."""

REQUEST_NAMES = ("hello", "load", "lift", "call", "recall", "forget", "find", "examine")

Answer = Tuple[Mapping[str, Any], Sequence[Entries]]


def lift_named(name: str, device: str = "") -> Any:
    """Makes a lift; "" is NumPy's. Raises ImportError, and LookupError for a missing device."""
    if name not in ("", *LIFTS):
        raise ImportError("there is no lift {!r}".format(name))
    return importlib.import_module("." + (name or "plain"), __package__ + ".lifts").LIFT(device)


class Servant:
    """Holds loaded functions, lifts and the last results. incoming: reads the requests."""

    def __init__(self, incoming: Incoming, *, is_sharing: bool) -> None:
        self._incoming, self._is_sharing = incoming, is_sharing
        self._functions: List[Any] = []
        self._backwards: List[Any] = []  # of each function, or None
        self._lifts: Dict[Tuple[str, str], Any] = {}
        self._results: OrderedDict[int, Sequence[Entries]] = OrderedDict()
        self._kept_bytes = 0
        self._calls = 0

    def answer(self, header: Mapping[str, Any], arrays: Sequence[Entries]) -> Answer:
        """Answers a request by a header and arrays. Raises no exception of the subject's."""
        name = header.get("do")
        if name not in REQUEST_NAMES:
            return {"error": "there is no request {!r}; version {} has {}".format(
                name, PROTOCOL_VERSION, ", ".join(REQUEST_NAMES))}, ()
        answer: Answer = getattr(self, "_" + name)(header, arrays)
        return answer

    def _hello(self, header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        """Puts the judge's folders and files on the path, and describes this process."""
        handed = loading.write_down(header.get("files", {}))
        sys.path[:] = list(dict.fromkeys([*header.get("path", ()), *([handed] if handed else ()),
                                          *sys.path]))
        loading.extend_adapters([handed + "/" + each if handed else each
                                 for each in header.get("adapters", ())])
        return {"version": PROTOCOL_VERSION, "handed": handed, "pid": os.getpid(),
                "machine": platform.machine(), "shared": self._is_sharing,
                "python": "{} {}".format(platform.python_implementation(),
                                         platform.python_version()), "numpy": np.__version__,
                "platform": platform.system()}, ()

    def _find(self, header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        """Lists modules that can be imported, and versions of distributions."""
        return {"modules": {name: loading.is_there(name) for name in header["modules"]},
                "versions": _installed_versions({"versions": header["distributions"]}),
                "packages": {name: _distribution_of(name)
                             for name in header.get("packages", ())}}, ()

    def _load(self, header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        """Loads a function, and describes it with a handle."""
        try:
            function, backward = loading.load_with_backward(
                header["from"], header["name"], header.get("backward", ""))
        except loading.NotLoaded as cause:
            return {"not_loaded": cause.details}, ()
        self._functions.append(function)
        self._backwards.append(backward)
        beside = {} if backward is None else {"backward": describe_callable(backward)}
        return {"handle": len(self._functions) - 1, "described": describe_callable(function),
                "versions": _installed_versions(header), **beside}, ()

    def _examine(self, header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        """Collects what the function's author wrote about it, for `init`."""
        from . import examining  # noqa: PLC0415  (asked by few)

        function = self._functions[header["of"]]
        facts = examining.examine_callable(function)
        if header.get("sources"):
            facts.update(examining.examine_sources(function))
        return facts, ()

    def _lift(self, header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        """Describes what the framework does with each dtype on this device."""
        name, device = header["lift"], header.get("device", "")
        try:
            lift = self._load_lift(name, device)
        except ImportError as cause:
            return {"no_lift": str(cause)}, ()
        except BaseException as cause:  # an import may raise whatever it likes
            if device and isinstance(cause, LookupError):
                return {"no_device": str(cause.args[0] if cause.args else "")}, ()
            return {"unusable": summarise_exception(cause)}, ()
        try:
            dtypes = {each: lift.takes(each) for each in FLOATS}
            flushed = {each: plain.find_flushing_operation(lift, each)
                       for each, why in dtypes.items() if name and not why}
            return {"device": lift.device, "not_taken": dtypes, "flushed": flushed,
                    "about": lift.about()}, ()
        # a driver that is too old, a device that others have filled
        except BaseException as cause:
            return {"unusable": summarise_exception(cause)}, ()

    def _load_lift(self, name: str, device: str) -> Any:
        if (name, device) not in self._lifts:
            self._lifts[name, device] = lift_named(name, device)
        return self._lifts[name, device]

    def _call(self, header: Mapping[str, Any], arrays: Sequence[Entries]) -> Answer:
        """Calls a function, and lists the arguments' arrays that it changed."""
        rows = header.get("rows")
        inputs = [arrays[at] for at in header["inputs"]]
        keywords = unpack_keywords(header["keywords"], arrays)
        given = Arguments(inputs, keywords, header["dtype"],
                          [tuple(shape) for shape in header["shapes"]],
                          None if rows is None else arrays[rows].array, header.get("wrt", ()),
                          header.get("backward", False), _form_of_request(header))
        lift = self._load_lift(header["lift"], header.get("device", ""))
        changed = self._incoming.watch_arrays(arrays)
        functions = self._backwards if given.is_backward else self._functions
        ending = calling.perform(functions[header["of"]], lift, given, is_sent=True)
        if ending.how != "answered" and lift.is_lost():
            _give_up(lift.device, ending)
        self._keep(ending)
        sent = [*ending.results, *(Entries("float64", each) for each in ending.gradients)]
        given_arrays = calling.arrays_of(given) if ending.aliases else ()
        shared = {id(given_arrays[at]) for at in ending.aliases}
        aliases = [at for at, each in enumerate(arrays) if id(each) in shared] if shared else []
        return {"ended": ending.how, "call": self._calls, "results": len(ending.results),
                "told": ending.details, "has_gradients": ending.has_gradients, "aliases": aliases,
                "said": ending.stderr, "changed": changed()}, sent

    def _keep(self, ending: CallEnding) -> None:
        self._calls += 1
        if ending.own:
            self._results[self._calls] = ending.own
            self._kept_bytes += _count_bytes(ending.own)
        while self._kept_bytes > MAX_KEPT_BYTES or len(self._results) > MAX_KEPT_RESULTS:
            self._kept_bytes -= _count_bytes(self._results.popitem(last=False)[1])

    def _recall(self, header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        """Returns what the memory of a result holds now; nothing if it was freed."""
        return {"call": header["call"]}, self._results.get(header["call"], ())

    def _forget(self, _header: Mapping[str, Any], _arrays: Sequence[Entries]) -> Answer:
        for lift in self._lifts.values():
            lift.forget()
        return {}, ()


def _form_of_request(header: Mapping[str, Any]) -> Optional[FrameworkForm]:
    """Reads what the framework makes of the function first."""
    form = header.get("form")
    if form:
        return FrameworkForm(form["name"], form.get("mapped", ()))
    return None


def _give_up(device: str, ending: CallEnding) -> None:
    """Ends this process, whose device is lost, with the words of the call that lost it."""
    why = ending.details.get("traceback") or ending.details.get("reading") or ""
    text = "{}\nNo more computation on {} is possible.\n".format(why, device)
    os.write(2, text.encode(errors="replace"))
    os.abort()


def _count_bytes(results: Sequence[Entries]) -> int:
    """Adds up the bytes of arrays, of any shape."""
    return sum(each.array.nbytes for each in results)


def unpack_keywords(value: Any, arrays: Sequence[Entries]) -> Any:
    """Converts keywords as they were sent, with the arrays that they name."""
    if isinstance(value, dict):
        if "$array" in value:
            return arrays[value["$array"]]
        if "$float" in value:
            return float(value["$float"])
        return {name: unpack_keywords(inner, arrays) for name, inner in value.items()}
    # what a caller in Python gives; and it has a hash
    if isinstance(value, list):
        return tuple(value)
    return value


def _installed_versions(header: Mapping[str, Any]) -> Dict[str, str]:
    """Finds the installed versions of these distributions; missing ones are left out."""
    versions = {name: _installed_version(name) for name in header.get("versions", ())}
    return {name: version for name, version in versions.items() if version}


def _installed_version(name: str) -> str:
    from importlib import metadata  # noqa: PLC0415  (slow, and asked once)

    try:
        return metadata.version(name)
    except Exception:  # whatever is wrong with what is installed
        return ""


def _distribution_of(package: str) -> str:
    """Finds the distribution of a package; "" for none, and before Python 3.10."""
    from importlib import metadata  # noqa: PLC0415  (slow, and asked once)

    names: Mapping[str, List[str]] = getattr(metadata, "packages_distributions", dict)()
    return next(iter(names.get(package, ())), "")


def serve(requests: int, answers: int, memory: int) -> None:
    """Answers requests of one descriptor on the other, until it ends. memory: the descriptor of
    shared memory; -1 for none.
    """

    def fill(view: memoryview) -> int:
        count = _read_into(requests, view)
        if not count:
            os._exit(0)
        return count

    shared = map_rooms(memory) if memory >= 0 else NO_ROOMS
    incoming = Incoming(fill, memoryview(bytearray(READ_AHEAD_BYTES)), room=shared.requests,
                        memory=ReusedMemory().reuse_buffer)
    servant = Servant(incoming, is_sharing=memory >= 0)
    while True:
        send_frame(_answer_frame(servant, incoming, shared.answers),
                   lambda parts: _write_from(answers, parts))


def _answer_frame(servant: Servant, incoming: Incoming, room: Any) -> List[Any]:
    """Packs the answer to the next frame; its arrays go into the room, uint8, if they fit."""
    header, arrays = receive_frame(incoming)
    answer, results = servant.answer(header, arrays)
    return pack_frame({**answer, "number": header.get("number")}, results, room)


def _read_into(descriptor: int, view: memoryview) -> int:
    if hasattr(os, "readv"):  # PyPy has none
        return os.readv(descriptor, [view])
    content = os.read(descriptor, len(view))
    view[:len(content)] = content
    return len(content)


def _write_from(descriptor: int, parts: List[Any]) -> int:
    if hasattr(os, "writev"):
        return os.writev(descriptor, parts)
    return os.write(descriptor, parts[0])
