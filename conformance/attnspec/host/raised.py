"""Describes exceptions in plain words, and collects what a subject prints during a call.

A description has the exception's message and the frames in the subject's code. A subject prints by
descriptor 2, as libraries do, by `sys.stderr`, and by warnings. Nothing here raises.
"""

from __future__ import annotations

import contextlib
import dis
import fcntl
import inspect
import os
import re
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, Tuple

HOST_FOLDER = Path(__file__).parent
MAX_FRAMES = 16  # frames shown of a traceback, counted from where the exception was raised
MAX_CHARACTERS = 4000  # characters of a traceback, a message, a line


def describe_exception(raised: BaseException) -> Dict[str, Any]:
    """Describes an exception: its last line, the subject's frames, what raised it."""
    frames, steps = _subject_frames(raised), _subject_steps(raised)
    by, act = _find_asker(raised, steps)
    return {"summary": summarise_exception(raised),
            "traceback": _shorten_text(_format_traceback(raised, frames)),
            "classes": [each.__name__ for each in type(raised).__mro__],
            "statement": (frames[-1].line or "").strip()[:MAX_CHARACTERS] if frames else "",
            "file": frames[-1].filename if frames else "",
            "line": frames[-1].lineno if frames else 0, "by": by, "act": act,
            "is_stated": _is_stated(steps), "at": _own_place(steps)}


# the last as JAX calls it, for what it deprecates
_LOOKING_UP = ("__getattr__", "__getattribute__", "getattr")
_CONVERTING = ("__bool__", "__int__", "__index__", "__float__", "__complex__", "__array__",
               "__len__", "__iter__")
"""What Python calls where a value is asked for as a number, a truth or an array."""

# in the names of JAX's classes: a number is asked for before there is one
TRACING_WORDS = ("Tracer", "Concretization")


def _subject_steps(raised: BaseException) -> List[TracebackType]:
    """Lists the steps of the traceback in the subject's code, the innermost last."""
    steps: List[TracebackType] = []
    try:
        step = raised.__traceback__
        while step is not None:
            if _is_subjects(step.tb_frame.f_code.co_filename):
                steps.append(step)
            step = step.tb_next
    except BaseException:  # an exception whose attributes raise
        return steps
    return steps


def _find_asker(raised: BaseException, steps: List[TracebackType]) -> Tuple[List[Any], str]:
    """Finds the subject's module, file and line that raised, and what the line did.

    Where a function looks an attribute up, a traced array is converted, or a keyword is passed on
    until a function refuses it, the place is that of the caller. The line did `raise` (also by
    `assert`), `call` of something else that raised, or else `compute`.
    """
    try:
        asking = [step for step in steps if step.tb_frame.f_code.co_name not in _LOOKING_UP]
        step = _first_with_keyword(raised, _without_conversion(raised, asking))
        return [_module_of_step(step), *_place_of_step(step)], _act_of_step(step)
    except BaseException:
        return ["", "", 0], ""


def _own_place(steps: List[TracebackType]) -> List[Any]:
    """Finds the file and line of the subject's own code that the exception came from.

    That is the innermost step in the package in which the call began. Deeper steps belong to the
    libraries that it calls; steps of attnspec are left out.
    """
    own = [step for step in steps
           if HOST_FOLDER not in Path(step.tb_frame.f_code.co_filename).parents] or steps
    for step in reversed(own):
        if _package_of_step(step) == _package_of_step(own[0]):
            return _place_of_step(step)
    return ["", 0]


def _is_stated(steps: List[TracebackType]) -> bool:
    """Whether a `raise` or an `assert` statement raised the exception.

    Compiled code, such as NumPy's or an index, raises at the line that calls it. The frame's
    bytecode shows the difference, also for a statement of several lines.
    """
    try:
        innermost = steps[-1]
        return innermost.tb_next is None and _act_of_step(innermost) == RAISING
    except BaseException:
        return False


def _place_of_step(step: TracebackType) -> List[Any]:
    return [step.tb_frame.f_code.co_filename, step.tb_lineno]


def _module_of_step(step: TracebackType) -> str:
    try:
        return str(step.tb_frame.f_globals.get("__name__", ""))
    except BaseException:  # a name of its own making may raise
        return ""


def _package_of_step(step: TracebackType) -> str:
    return _module_of_step(step).partition(".")[0]


def _without_conversion(raised: BaseException, steps: List[TracebackType]) -> List[TracebackType]:
    """Removes the framework's frames that convert a traced value."""
    if not any(word in each.__name__ for word in TRACING_WORDS for each in type(raised).__mro__):
        return steps
    names = [step.tb_frame.f_code.co_name for step in steps]
    at = next((at for at, name in enumerate(names) if at and name in _CONVERTING), len(steps))
    return steps[:at]


def _first_with_keyword(raised: BaseException, steps: List[TracebackType]) -> TracebackType:
    """Finds the step that raised, or that first passed the keyword that was refused."""
    words = str(raised)
    if "keyword" in words:
        for name in _extra_keywords(steps[-1].tb_frame):
            if re.search(r"\b{}\b".format(re.escape(name)), words):
                return next(step for step in reversed(steps)
                            if name not in _extra_keywords(step.tb_frame))
    return steps[-1]


def _extra_keywords(frame: Any) -> List[str]:
    """Lists the keywords in a function's `**options`."""
    code = frame.f_code
    if not code.co_flags & inspect.CO_VARKEYWORDS:
        return []
    at = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    return list(frame.f_locals[code.co_varnames[at]])


# `raise` and `assert` compile to the same, RAISE_VARARGS
RAISING, CALLING, COMPUTING = "raise", "call", "compute"


def _act_of_step(step: TracebackType) -> str:
    """Says what the line of a step did when it raised."""
    name = dis.opname[step.tb_frame.f_code.co_code[step.tb_lasti]]
    if name.startswith("RAISE"):
        return RAISING
    if "CALL" in name:
        return CALLING
    return COMPUTING


def _is_subjects(file: str) -> bool:
    return Path(file).parent != HOST_FOLDER and not file.startswith("<frozen")


def summarise_exception(raised: BaseException) -> str:
    """Returns the exception's type and the first line of its message."""
    try:
        words = str(raised)[:MAX_CHARACTERS].strip().partition("\n")[0]
    except BaseException as worse:
        words = "(its text raises {})".format(type(worse).__name__)
    text = "{}: {}".format(type(raised).__name__, words) if words else type(raised).__name__
    return text.encode(errors="backslashreplace").decode()


def _subject_frames(raised: BaseException) -> List[traceback.FrameSummary]:
    """Lists the subject's frames, the innermost last."""
    try:
        return [each for each in traceback.extract_tb(raised.__traceback__)
                if _is_subjects(each.filename)]
    except BaseException:
        return []


def _format_traceback(raised: BaseException, frames: List[traceback.FrameSummary]) -> str:
    try:
        lines = [*traceback.format_list(frames[-MAX_FRAMES:]),
                 *traceback.format_exception_only(type(raised), raised)]
    except BaseException:
        lines = [*traceback.format_list(frames[-MAX_FRAMES:]), summarise_exception(raised)]
    return "Traceback (most recent call last):\n" + "".join(lines)


def _shorten_text(text: str) -> str:
    if len(text) > 2 * MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS] + "\n…\n" + text[-MAX_CHARACTERS:]
    return text.encode(errors="backslashreplace").decode()


MAX_SPEECH = 10000  # characters; a library in a loop must not fill a record


class Speech:
    """The text that was printed, complete once the call is over."""

    def __init__(self) -> None:
        self.parts: List[str] = []

    @property
    def text(self) -> str:
        """All the text, in one piece."""
        return "".join(self.parts)[:MAX_SPEECH].encode(errors="backslashreplace").decode()


class SpeechRecorder:
    """Collects what is printed inside. Warnings never raise here, whatever their filter.

    Meanwhile `sys.stderr` and descriptor 2 lead into a file: a real one, which children of the
    subject inherit.
    """

    def __enter__(self) -> Speech:
        self._file, self._stream, self._said = _speech_file(), _speech_stream(), Speech()
        self._before = _redirect_stderr(self._file)
        self._stderr, sys.stderr = sys.stderr, self._stream
        self._warnings = warnings.catch_warnings(record=True)
        self._warned = self._warnings.__enter__()
        warnings.simplefilter("default")
        return self._said

    def __exit__(self, *raised: Any) -> None:
        self._warnings.__exit__(*raised)
        sys.stderr = self._stderr
        _restore_stderr(self._before)
        with contextlib.suppress(ValueError):  # the subject has closed it
            self._stream.flush()
        self._said.parts += [_drain_file(self._file), *map(_warning_text, self._warned or ())]


def _warning_text(warning: Any) -> str:
    try:
        return "{}: {}\n".format(warning.category.__name__, warning.message)
    except BaseException:
        return ""


_FIRST_FREE_DESCRIPTOR = 10
"""Below this number are standard streams, which a subject may close at any time."""

# PyPy does not know the first
_DUPLICATE_COMMAND = getattr(fcntl, "F_DUPFD_CLOEXEC", fcntl.F_DUPFD)

_files: List[int] = []
_texts: List[Any] = []


def keep_in(path: str) -> None:
    """Collects in this file, so that the text of a dead process is found."""
    _files[:] = [os.open(path, os.O_RDWR | os.O_CREAT, 0o600)]


def _speech_file() -> int:
    """Opens the file for the text: one without a name unless `keep_in` has named one."""
    if not _files:
        file, name = tempfile.mkstemp()
        os.unlink(name)
        _files.append(file)
    return _files[0]


def _speech_stream() -> Any:
    """Opens the file line by line, so that it has the last line of a dead process."""
    if not _texts or _texts[0].closed:
        _texts[:] = [open(_files[0], "w", buffering=1, encoding="utf-8",  # noqa: SIM115  (see above)
                          errors="backslashreplace", closefd=False)]
    return _texts[0]


def _redirect_stderr(file: int) -> int:
    """Lets descriptor 2 lead into the file; returns where it led before, -1 for nowhere."""
    try:
        before = fcntl.fcntl(2, _DUPLICATE_COMMAND, _FIRST_FREE_DESCRIPTOR)
    except OSError:  # the process has no stderr at all
        before = -1
    os.dup2(file, 2)
    return before


def _restore_stderr(before: int) -> None:
    with contextlib.suppress(OSError):  # the subject has closed it
        os.dup2(before, 2)
        os.close(before)


def _drain_file(file: int) -> str:
    """Reads the file and empties it."""
    if not os.lseek(file, 0, os.SEEK_END):
        return ""
    os.lseek(file, 0, os.SEEK_SET)
    text = os.read(file, MAX_SPEECH).decode(errors="replace")
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    return text
