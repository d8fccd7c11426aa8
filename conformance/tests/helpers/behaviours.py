"""How implementations misbehave, one line each: the code, what the judge is to make of it, and what it may cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from attnspec.core.nouns import Verdict

SOUND = '''
import asyncio, atexit, builtins, ctypes, faulthandler, gc, json, locale, os, resource, signal, subprocess, sys, tempfile
import threading, time, warnings
import numpy as np

def sound(query, key, value):
    key, value = (np.repeat(each, query.shape[1] // each.shape[1], axis=1) for each in (key, value))
    logits = query @ key.swapaxes(-1, -2) * query.dtype.type(query.shape[-1] ** -0.5)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True) @ value).astype(query.dtype)
'''
CALL = "def attend(query, key, value):\n"
QUICK = 12.0
"""Seconds that a row may cost on a loaded machine: a host or three and a handful of calls."""

HELD, VIOLATED, ERRORED = Verdict.HELD, Verdict.VIOLATED, Verdict.ERRORED
CRASHED, TIMED_OUT, NOT_RUN = Verdict.CRASHED, Verdict.TIMED_OUT, Verdict.NOT_RUN


@dataclass(frozen=True, slots=True)
class Behaviour:
    """source: of the module.  reason: what the outcome's reason holds.  seconds: that the row may cost.

    is_slow: run where all of them are asked for.  memory: resident bytes that the subject may take.
    """

    name: str
    source: str
    verdict: Verdict
    reason: str = ""
    seconds: float = QUICK
    is_slow: bool = False
    memory: int = 0

    @property
    def exit_code(self) -> int:
        """Of a run with this and a sound subject."""
        return {HELD: 0, NOT_RUN: 2}.get(self.verdict, 1)


def behaves_when_called(name: str, lines: str, verdict: Verdict, reason: str = "", **more: Any) -> Behaviour:  # noqa: ANN401  (fields of Behaviour)
    """Does so in every call, and then computes attention."""
    return Behaviour(name, f"{SOUND}\n{CALL}{indent(lines, '    ')}\n    return sound(query, key, value)\n", verdict, reason,
                     **more)


def behaves_when_imported(name: str, lines: str, verdict: Verdict, reason: str = "", **more: Any) -> Behaviour:  # noqa: ANN401  (fields of Behaviour)
    """Does so when it is imported, and computes attention in calls."""
    return Behaviour(name, f"{SOUND}\n{lines}\n{CALL}    return sound(query, key, value)\n", verdict, reason, **more)


def returns(name: str, members: str, verdict: Verdict, reason: str = "", **more: Any) -> Behaviour:  # noqa: ANN401  (fields of Behaviour)
    """Returns an object with these members."""
    body = indent(members, "    ")
    return Behaviour(name, f"{SOUND}\nclass Odd:\n{body}\n{CALL}    return Odd()\n", verdict, reason, **more)


def behaves_as_defined(name: str, source: str, verdict: Verdict, reason: str = "", **more: Any) -> Behaviour:  # noqa: ANN401  (fields of Behaviour)
    """This is its source, after the sound function."""
    return Behaviour(name, f"{SOUND}\n{source}\n", verdict, reason, **more)


MUTE = "attend has no readable signature"  # `inspect.signature` asks for attributes, and compares
LATE = "had not returned after"
DIED = "the process died while the implementation ran"
LONG = 40.0
"""Seconds for what is ended at its deadline, in every kind of question that is put to it."""


def ends() -> Iterator[Behaviour]:
    """Exits, signals, and calls without end."""
    yield behaves_when_called("exits", "sys.exit(3)", ERRORED, "SystemExit: 3")
    yield behaves_when_called("exits_past_handlers", "os._exit(3)", CRASHED, f"{DIED} (exit code 3)")
    yield behaves_when_called("aborts", "os.abort()", CRASHED, "SIGABRT")
    yield behaves_when_called("reads_address_zero", "ctypes.string_at(0)", CRASHED, "SIGSEGV")
    for number in ("SIGKILL", "SIGTERM", "SIGBUS", "SIGUSR1"):
        yield behaves_when_called(f"sends_itself_{number}", f"os.kill(os.getpid(), signal.{number})", CRASHED, number,
                                  is_slow=number in ("SIGBUS", "SIGUSR1"))
    yield behaves_when_called("sends_itself_SIGINT", "os.kill(os.getpid(), signal.SIGINT); time.sleep(0.1)", ERRORED, "KeyboardInterrupt")
    yield behaves_when_called("stops_itself", "os.kill(os.getpid(), signal.SIGSTOP)", TIMED_OUT, LATE, seconds=LONG)
    yield behaves_when_called("sleeps", "time.sleep(1000)", TIMED_OUT, LATE, seconds=LONG)
    yield behaves_when_called("loops", "while True: pass", TIMED_OUT, LATE, seconds=LONG, is_slow=True)
    yield behaves_when_called("freezes_the_interpreter", "ctypes.PyDLL(None).sleep(1000)", TIMED_OUT, LATE, seconds=LONG)
    yield behaves_when_called("sleeps_deaf_to_signals", "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64)); time.sleep(1000)",
                              TIMED_OUT, LATE, seconds=LONG, is_slow=True)
    yield behaves_when_called("waits_for_a_lock", "lock = threading.Lock(); lock.acquire(); lock.acquire()", TIMED_OUT, LATE,
                              seconds=LONG, is_slow=True)
    yield behaves_when_called("waits_for_input", "input()", ERRORED, "EOFError")
    yield behaves_when_called("reads_its_input", "sys.stdin.read()", HELD)
    yield behaves_when_called("recurses", "attend(query, key, value)", ERRORED, "RecursionError")
    yield behaves_when_called("ends_its_supervisor", "if os.getppid() > 1: os.kill(os.getppid(), signal.SIGKILL)", HELD)


def exceptions() -> Iterator[Behaviour]:
    """Exceptions of every kind, and of every text."""
    for raised in ("KeyboardInterrupt", "GeneratorExit", "StopIteration", "asyncio.CancelledError", "MemoryError",
                   "BaseException('b')", "type('Own', (BaseException,), {})('mine')"):
        summary = raised.removeprefix("asyncio.").partition("(")[0]
        yield behaves_when_called(f"raises_{summary}_{len(raised)}", f"raise {raised}", ERRORED, "Own: mine" if "Own" in raised else summary)
    yield behaves_when_called("raises_a_lone_surrogate", r"raise ValueError('\ud800')", ERRORED, r"ValueError: \ud800")
    yield behaves_when_called("raises_control_characters", r"raise ValueError('\x1b[31m\x00\u202e')", ERRORED, "ValueError: ")
    yield behaves_when_called("raises_megabytes", "raise ValueError('x' * 2**22)", ERRORED, "ValueError: xxx")
    yield behaves_when_called("raises_a_million_lines", r"raise ValueError('first\n' + 'x\n' * 10**6)", ERRORED, "ValueError: first")
    yield behaves_when_called("raises_notes", "error = ValueError('noted'); error.__notes__ = ['x' * 2**22, 3]; raise error", ERRORED,
                              "ValueError: noted")
    yield behaves_when_called("raises_a_circle", "error = ValueError('round'); error.__cause__ = error; raise error", ERRORED,
                              "ValueError: round")
    yield behaves_when_called("raises_odd_syntax", "raise SyntaxError('odd', ('a', 'b', object(), 3.5))", ERRORED, "SyntaxError: ")
    yield behaves_when_called("raises_from_nowhere", r"exec(compile('raise ValueError(1)', '\udcff', 'exec'))", ERRORED, "ValueError: 1")
    for name, member in (("raises", "raise RuntimeError"), ("exits", "raise SystemExit"), ("is_no_text", "return 3")):
        odd = f"class Odd(Exception):\n    def __str__(self):\n        {member}\n    __repr__ = __str__"
        yield behaves_as_defined(f"raises_what_{name}_when_told", f"{odd}\n{CALL}    raise Odd", ERRORED, "Odd")
    yield behaves_as_defined("raises_what_has_no_attributes", "class Odd(Exception):\n    def __getattribute__(self, name):\n"
                             f"        raise BaseException(name)\n{CALL}    raise Odd('odd')", ERRORED, "Odd")


def results() -> Iterator[Behaviour]:
    """What comes back is no array, or only looks like one."""
    for name, line in (("raises", "raise KeyboardInterrupt"), ("exits", "sys.exit()")):
        yield returns(f"array_that_{name}", f"def __array__(self, *a, **k):\n    {line}", VIOLATED, "an Odd")
    yield returns("array_that_ends_the_process", "def __array__(self, *a, **k):\n    os._exit(4)", CRASHED, "exit code 4")
    yield returns("array_that_never_comes", "def __array__(self, *a, **k):\n    time.sleep(1000)", TIMED_OUT, LATE,
                  seconds=LONG, is_slow=True)
    yield returns("attributes_that_raise", "def __getattribute__(self, name):\n    raise BaseException(name)", ERRORED,
                  "BaseException: __class__")
    yield returns("truth_that_raises", "def __bool__(self):\n    raise KeyboardInterrupt\n__len__ = __bool__", VIOLATED)
    yield returns("class_that_raises", "@property\ndef __class__(self):\n    raise SystemExit", ERRORED, "SystemExit")
    yield returns("text_that_raises", "def __repr__(self):\n    raise SystemExit\n__str__ = __repr__", VIOLATED)
    for name, value in (("nothing", "None"), ("a_generator_without_end", "iter(int, 1)"), ("a_module", "np"),
                        ("a_class", "dict"), ("objects", "np.full((2, 2), None)"), ("a_terabyte",
                        "np.broadcast_to(np.float32(0), (10**6, 10**6))"), ("text", "'x' * 10**7"),
                        ("long_doubles", "sound(query, key, value).astype(np.longdouble)")):
        yield behaves_as_defined(f"returns_{name}", f"{CALL}    return {value}", VIOLATED, "The subject returned")
    yield behaves_as_defined("returns_big_endian_numbers", f"{CALL}    return sound(query, key, value).astype('>f4')", HELD)
    yield behaves_as_defined("returns_a_masked_array", f"{CALL}    return np.ma.array(sound(query, key, value))", HELD)


def callables() -> Iterator[Behaviour]:
    """Functions that are odd to look at."""
    odd = "class Odd:\n    def __call__(self, query, key, value):\n        return sound(query, key, value)\n"
    for name, member in (("attributes", "__getattr__(self, name)"), ("truth", "__bool__(self)"), ("text", "__repr__(self)"),
                         ("equality", "__eq__(self, other)")):
        yield behaves_as_defined(f"function_whose_{name}_raises", f"{odd}    def {member}:\n        raise BaseException\nattend = Odd()",
                                 *((NOT_RUN, MUTE) if name in ("attributes", "equality") else (HELD,)))
    yield behaves_as_defined("function_whose_signature_raises", f"{odd}    @property\n    def __signature__(self):\n        raise "
                             "BaseException\nattend = Odd()", NOT_RUN, MUTE)
    yield behaves_as_defined("function_whose_default_raises", "class Odd:\n    def __repr__(self):\n        raise BaseException\n    "
                             "__eq__ = __repr__\n    __hash__ = __repr__\ndef attend(query, key, value, *, odd=Odd()):\n    "
                             "return sound(query, key, value)", HELD)
    yield behaves_as_defined("function_with_odd_names", f"{CALL}    return sound(query, key, value)\nattend.__doc__ = 'x' * 10**7\n"
                             r"attend.__qualname__ = '\ud800'", HELD)
    yield behaves_as_defined("function_that_is_none", "attend = 3", NOT_RUN, "cannot be called")
    yield behaves_as_defined("function_that_raises_to_be_found", "def __getattr__(name):\n    raise KeyboardInterrupt", NOT_RUN,
                             "KeyboardInterrupt")


def streams() -> Iterator[Behaviour]:
    """Closed, replaced and flooded streams."""
    yield behaves_when_called("closes_its_streams", "for at in range(3):\n    try: os.close(at)\n    except OSError: pass", HELD)
    yield behaves_when_called("replaces_its_streams", "sys.stdin = sys.stdout = sys.stderr = None", HELD)
    yield behaves_when_called("closes_stderr", "sys.stderr.close()", HELD)
    yield behaves_when_called("writes_no_text", r"os.write(2, b'\xff\xfe\x00' * 1000)", HELD)
    yield behaves_when_called("prints_megabytes", "os.write(1, b'x' * 2**22); os.write(2, b'x' * 2**22)", HELD)
    yield behaves_when_called("hands_stderr_to_a_child", "subprocess.run(['true'], stderr=sys.stderr, stdout=sys.stdout)", HELD)
    yield behaves_when_called("closes_every_descriptor", "os.closerange(3, 256)", CRASHED)
    yield behaves_when_imported("prints_what_raises", "class Odd:\n    def write(self, text): raise BaseException\n    flush = write\n"
                                "sys.stdout = sys.stderr = Odd()", HELD)


def surroundings() -> Iterator[Behaviour]:
    """A changed process: directory, environment, locale, error state, warnings, other people's functions."""
    harmless = {
        "changes_directory": "os.chdir('/')", "deletes_its_directory":
        "folder = tempfile.mkdtemp(); os.chdir(folder); os.rmdir(folder)", "clears_the_environment": "os.environ.clear()",
        "sets_a_locale": "locale.setlocale(locale.LC_ALL, 'C')", "seeds": "np.random.seed(0)", "clears_the_path":
        "sys.path.clear()", "stops_collecting": "gc.disable(); gc.freeze()",
        "ignores_signals": "for at in (1, 2, 10, 12, 15): signal.signal(at, signal.SIG_IGN)", "masks_files":
        "os.umask(0o777); os.nice(1)", "disables_traces": "faulthandler.disable()", "changes_the_clock":
        "time.time = time.monotonic = lambda: 0", "waits_at_the_end": "atexit.register(time.sleep, 1000)",
        "replaces_comparisons": "np.allclose = np.array_equal = lambda *a, **k: True",
        "drops_its_thread_name": "threading.current_thread().name = '\\ud800'"}
    for name, lines in harmless.items():
        yield behaves_when_called(name, lines, HELD)
    yield behaves_as_defined("raises_on_every_rounding", "np.seterr(all='raise')\n" + CALL +
                             "    np.float32(1e-30) * np.float32(1e-30)\n    return sound(query, key, value)", ERRORED,
                             "FloatingPointError")
    yield behaves_when_called("makes_warnings_errors", "warnings.simplefilter('error'); warnings.warn('old')", ERRORED, "UserWarning: old")
    yield behaves_as_defined("warns_where_warnings_were_errors", "warnings.simplefilter('error')\n" + CALL +
                             "    warnings.warn('old')\n    return sound(query, key, value)", HELD)
    yield behaves_when_called("clears_the_modules", "sys.modules.clear()", CRASHED)
    yield behaves_when_imported("has_another_exponential", "np.exp = lambda array: array", VIOLATED)
    yield behaves_when_imported("has_no_asarray", "np.asarray = None", VIOLATED, "The subject returned")
    yield behaves_when_called("breaks_json", "json.dumps = None", HELD)
    yield behaves_when_called("breaks_a_builtin", "builtins.len = None", CRASHED)
    yield behaves_when_called("traces_and_raises", "def trace(*a): raise KeyboardInterrupt\nsys.setprofile(trace)", ERRORED,
                              "KeyboardInterrupt")
    yield behaves_when_imported("has_no_files_left", "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))", NOT_RUN, "Too many open files")


def leftovers() -> Iterator[Behaviour]:
    """Threads, children and memory."""
    yield behaves_when_called("leaves_a_thread", "threading.Thread(target=time.sleep, args=(1000,)).start()", HELD)
    yield behaves_when_called("leaves_a_child", "subprocess.Popen(['sleep', '1000'])", HELD)
    yield behaves_when_called("leaves_a_child_of_its_own_session", "subprocess.Popen(['sleep', '1000'], start_new_session=True)", HELD)
    yield behaves_when_called("leaves_a_fork", "if os.fork() == 0: time.sleep(1000)", HELD)
    yield behaves_when_called("leaves_a_fork_and_ends", "if os.fork() == 0: time.sleep(1000)\nos._exit(5)", CRASHED, "exit code 5")
    yield behaves_when_called("returns_twice_by_a_fork", "os.fork()", CRASHED, is_slow=True)
    yield behaves_when_called("takes_memory", "hoard = np.ones((2**30,), np.uint8); time.sleep(0.5)", CRASHED, "MiB are allowed",
                              memory=2**29)
    yield behaves_when_called("asks_for_too_much_memory", "np.ones((2**50,), np.uint8)", ERRORED, "MemoryError")


def imports() -> Iterator[Behaviour]:
    """Imports that are slow, fail, exit, print or never end."""
    yield behaves_when_imported("import_that_fails", "raise ImportError('no licence')", NOT_RUN, "no licence")
    yield behaves_when_imported("import_without_a_module", "import no_such_module_anywhere", NOT_RUN, "no_such_module_anywhere")
    yield behaves_when_imported("import_that_exits", "sys.exit('out of licences')", NOT_RUN, "out of licences")
    yield behaves_when_imported("import_that_interrupts", "raise KeyboardInterrupt", NOT_RUN, "KeyboardInterrupt")
    yield behaves_when_imported("import_that_ends_the_process", "os._exit(6)", NOT_RUN, "exit code 6")
    yield behaves_when_imported("import_that_crashes", "ctypes.string_at(0)", NOT_RUN, "SIGSEGV")
    yield behaves_when_imported("import_without_syntax", "def (", NOT_RUN, "syntax")
    yield behaves_when_imported("import_that_raises_a_surrogate", r"raise ValueError('\ud800')", NOT_RUN, "ValueError")
    yield behaves_when_imported("import_that_is_slow", "time.sleep(0.5)", HELD)
    yield behaves_when_imported("import_that_never_ends", "time.sleep(1000)", NOT_RUN, "had not ended after", seconds=LONG)
    yield behaves_when_imported("import_that_prints", "print('x' * 10**6); os.write(1, b'y' * 10**6); os.write(2, b'z' * 10**6)", HELD)
    yield behaves_when_imported("import_that_deletes_itself", "os.remove(__file__)", HELD)
    yield behaves_when_imported("import_that_changes_directory", "os.chdir('/')", HELD)


ALL = (*ends(), *exceptions(), *results(), *callables(), *streams(), *surroundings(), *leftovers(), *imports())
