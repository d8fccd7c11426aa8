"""Starts the process of the implementation: `python main.py REQUESTS ANSWERS MEMORY TRACE`."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys


def begin() -> None:
    """Serves requests, after it has removed its traces from the arguments and the path."""
    descriptors, trace = [int(each) for each in sys.argv[1:-1]], sys.argv[-1]
    for descriptor in descriptors:
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    # a shell starts what runs in the background with interrupts ignored: a verdict does not depend
    # on that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable(open(trace, "w"))  # noqa: SIM115  (as long as the process lives)
    sys.argv[:] = [""]
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    if getattr(sys.flags, "safe_path", False):  # PYTHONSAFEPATH keeps the folder of this file away
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from _serve import raised, serving  # type: ignore[import-not-found]  # noqa: PLC0415  (found beside this file)

    sys.dont_write_bytecode = before
    raised.keep_in(os.path.join(os.path.dirname(trace), "said"))
    sys.path.pop(0)
    # an editable install leaves its finder there
    for name in [name for name in sys.modules if "attnspec" in name]:
        del sys.modules[name]
    serving.serve(*descriptors)


if __name__ == "__main__":
    begin()
