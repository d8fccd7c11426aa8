"""Decides what an exception of a function means: a refusal, a framework's limit, or a failure.

It also says why a target cannot be had, in words for whoever typed it; and where an adapter itself
fails with the installed release of its library, which is no failure of the library.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnspec.core import paths
from attnspec.core.dtype import DTYPES
from attnspec.core.errors import (
    FileLocation,
    ImportingError,
    MissingNameError,
    ReleaseError,
    TargetError,
    either,
    hint,
    near_misses,
)
from attnspec.core.forms import EVERY_KEYWORD
from attnspec.core.nouns import DType, Verdict
from attnspec.core.paths import portable_text
from attnspec.host.loading import ADAPTER_PACKAGE
from attnspec.host.raised import COMPUTING, RAISING, TRACING_WORDS
from attnspec.hosting.client import DIED_REASON, ProcessDeath
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import LayerProblem, Problem
from attnspec.spec.yaml_lines import shown_path
from attnspec.subjects.call import SubjectRaised
from attnspec.subjects.installed import how_to_install
from attnspec.subjects.manifest import MANIFEST_FILE, Library, read_manifest
from attnspec.subjects.outline import near_file, no_function
from attnspec.subjects.signature import FunctionDescription

AnyProblem = Problem | LayerProblem | RotaryProblem

REFUSING = frozenset(
    {"ValueError", "TypeError", "NotImplementedError", "AssertionError", "RuntimeError", "FlaxError"})
"""The exceptions by which people refuse, with their own subclasses. Flax has its own class."""

ACCIDENTAL = frozenset({
    "RecursionError", "UnicodeError", "PythonFinalizationError", "OutOfMemoryError", "MemoryError",
    "IndexError", "KeyError", "LinAlgError", "XlaRuntimeError", "JaxRuntimeError", "EinopsError"})
"""Subclasses of those that nobody refuses by, whatever they say."""

FRAMEWORKS = frozenset({
    "numpy", "torch", "jax", "jaxlib", "ml_dtypes", "scipy", "einops", "opt_einsum", "numba",
    "triton", "cupy", "functorch", "tensorflow", "mlx"})
"""Packages that functions are written with: their words about shapes are not the function's."""


class Topic(enum.Enum):
    """What a refusal may be about: sizes and keywords, the dtype, or the layout in memory."""

    CALL = "call"
    DTYPE = "dtype"
    LAYOUT = "layout"


_OF_SHAPES = re.compile(r"shape|size|dim|length|head|group|broadcast|width|batch|causal|"
                        r"quer(y|ies)|\bkeys?\b|values?\b|\b[qkv]\b", re.IGNORECASE)
_OF_AXES = re.compile(r"\b[A-Z]\b")
_NAMED_AXES = re.compile(r"\b([BG]|[HTSDLN](q|kv?|v|qk)?|d_?(k|v|model)|bsz?)\b")
_OF_DTYPES = re.compile(r"d?type|float|half|double|precision|implement|support", re.IGNORECASE)
_OF_LAYOUTS = re.compile(r"contiguous|strid", re.IGNORECASE)
_OF_CAUSAL = re.compile("causal", re.IGNORECASE)

_OF_ATTENTION = re.compile(
    r"\b(query|queries|key|keys|value|values|attn_mask|mask|bias|num_heads|head_dim|embed_dim)\b")
"""Matches what a framework's attention function names when it refuses: its wrapper says the same
by it. What a framework raises of arrays in general names none of these.
"""

_HAS_NO_CODE = re.compile(
    r"not implemented for|not supported|unsupported|no loop|not contain a loop|invalid data type|"
    r"not understood|not inexact|no kernel|not a valid (jax )?(array )?(d?type|type)",
    re.IGNORECASE)
"""Matches what frameworks say of a dtype that they have no code for. That two dtypes differ is
another thing: a product of float32 weights and float16 values is a forgotten cast.
"""

_HAS_NO_DERIVATIVE = (
    "modified by an inplace operation", "must implement either the backward", "is not implemented",
    "not implemented for", "Reverse-mode differentiation does not work",
    "Differentiation rule for",
    "not differentiable", "cannot be differentiated")
"""How PyTorch and JAX say that there is no derivative; other exceptions are failures."""

_OF_FOREIGN_DTYPE = re.compile(
    "|".join((*(dtype.value for dtype, each in DTYPES.items() if not each.is_of_numpy),
              "data type|dtype|ufunc|cast")), re.IGNORECASE)
"""Matches what NumPy says of a dtype of `ml_dtypes`, for which it has no casts."""


def refusal_words(raised: SubjectRaised, problem: AnyProblem, *, home: str,
                  topic: Topic = Topic.CALL) -> str:
    """Returns the words of a refusal; empty where the exception is a failure.  home: the package
    or module of the function itself.  topic: what the refusal is to be about.
    """
    if topic is Topic.DTYPE and _is_lacking_dtype(raised, problem.dtype):
        return raised.summary
    is_refusing = raised.classes & REFUSING and not raised.classes & ACCIDENTAL
    if not is_refusing or not _is_own_statement(raised, home):
        return ""
    words = raised.summary
    if raised.is_mute and raised.statement:  # a bare `assert` says what its code says
        words = f"{words}: {raised.statement}"
    is_clear = "NotImplementedError" in raised.classes if topic is Topic.CALL else False
    return words if is_clear or _speaks_of(words, topic, problem, is_code=raised.is_mute) else ""


def says_no_derivative(raised: SubjectRaised) -> bool:
    """Says whether a framework reports that there is no derivative, which is a limit."""
    return any(words in raised.summary for words in _HAS_NO_DERIVATIVE)


def says_always_causal(words: str) -> bool:
    """Says whether a refusal of a call without the causal flag speaks of it."""
    return bool(_OF_CAUSAL.search(words))


def _is_own_statement(raised: SubjectRaised, home: str) -> bool:
    """Says whether the function's code raised it, or a library that checks its arguments."""
    package = raised.module.partition(".")[0]
    if not raised.is_stated or not package:
        return False
    if package in FRAMEWORKS and package != home:
        return bool(_OF_ATTENTION.search(raised.summary.partition(": ")[2]))
    return package not in sys.stdlib_module_names


def _is_lacking_dtype(raised: SubjectRaised, dtype: DType) -> bool:
    """Says whether the framework reports that it has no code for the dtype."""
    message = raised.summary.partition(": ")[2]
    is_of_numpy = "TypeError" in raised.classes or "ValueError" in raised.classes
    if not DTYPES[dtype].is_of_numpy and is_of_numpy and _OF_FOREIGN_DTYPE.search(message):
        return True
    return bool(_HAS_NO_CODE.search(message) and _OF_DTYPES.search(message))


def _speaks_of(words: str, topic: Topic, problem: AnyProblem, *, is_code: bool) -> bool:
    if topic is Topic.LAYOUT:
        return bool(_OF_LAYOUTS.search(words))
    if topic is Topic.DTYPE:
        return bool(_OF_DTYPES.search(words))
    return any(_names_sizes(words.partition(": ")[2], problem, is_code=is_code))


def _names_sizes(message: str, problem: AnyProblem, *, is_code: bool) -> Iterator[bool]:
    """Yields whether a message names a size, an axis by its letter, or a parameter."""
    yield is_code and "assert" in message and bool(_OF_AXES.search(message))
    yield bool(_OF_SHAPES.search(message)) or (not is_code and bool(_NAMED_AXES.search(message)))
    parameters = (name for word in problem.keywords
                  for name in (word, *EVERY_KEYWORD[word].parameters))
    yield any(re.search(rf"\b{name.replace('_', '.?')}", message, re.IGNORECASE)
              for name in parameters)


_UNKNOWN = re.compile(r"(unexpected|invalid|unrecogni[sz]ed|unknown) keyword|"
                      r"required (positional|keyword-only) argument", re.IGNORECASE)
"""Matches what is said of an unknown keyword, or of a required argument that is missing."""

_STUMBLES = frozenset({"NameError", "KeyError", "IndexError", "ZeroDivisionError", "StopIteration"})
"""What Python itself raises for code that is wrong about its values."""


def not_with_this_release(subject: str, library: Library, words: str) -> ReleaseError:
    """Makes the error of an adapter that fails with its library's release; words: how."""
    release = f"{library.name} {library.version}"
    return ReleaseError(f"{subject} cannot be judged with this release ({release}): {words}")


def failure_of_adapter(raised: SubjectRaised, subject: str,
                       library: Library) -> ReleaseError | None:
    """Makes the error for an adapter's own failure; None where the library raised."""
    if not (library.version and is_fault_of_adapter(raised)):
        return None
    place = f" ({raised.place})" if raised.place else ""
    return not_with_this_release(subject, library, f"its adapter fails, {raised.summary}{place}")


def is_fault_of_adapter(raised: SubjectRaised) -> bool:
    """Says whether an adapter raised it in its own file, and not what the adapter calls. It asks
    for what is not there (an attribute, a keyword, a name to import), leaves out what is needed,
    asks for a number that is not there yet, or stumbles over what it got. What it raises on
    purpose counts for its subject.
    """
    if raised.module.partition(".")[0] != ADAPTER_PACKAGE or raised.act == RAISING:
        return False
    if raised.classes & {"AttributeError", "ImportError"}:
        return True
    if raised.classes & {"TypeError", "ValueError"} and _UNKNOWN.search(raised.summary):
        return True
    if any(word in name for word in TRACING_WORDS for name in raised.classes):
        return True
    # an answer had more or fewer parts than the adapter takes it to have
    is_unpacking = "values to unpack" in raised.summary or "cannot unpack" in raised.summary
    return raised.act == COMPUTING and (is_unpacking or bool(raised.classes & _STUMBLES))


_OF_PYTHON = re.compile(r"(site|dist)-packages|/python3?[\d.]*(\.zip|/lib-dynload)?/?$")


def not_loaded(told: Mapping[str, Any], name: str, target: str) -> TargetError:
    """Makes the error for what `host.loading` tells; name: of the module or the file."""
    kind = told.get("kind")
    if kind == "missing":
        # a part of a package that is there, in another release perhaps
        error = ImportingError if "." in str(told["absent"]) else TargetError
        return error(_explain_missing_name(told, name))
    if kind == "syntax":
        return TargetError(f"{name!r} is no valid Python: {told['message']}.",
                           where=_format_place(told))
    if kind == "no_file":
        path = Path(name)
        return TargetError(f"there is no such file.{near_file(path)}",
                           where=FileLocation(str(path)))
    if kind == "no_python":
        return TargetError("is not a Python file; its name should end in .py.",
                           where=FileLocation(name))
    if kind == "member":
        file = str(told["file"])
        place = FileLocation(shown_path(Path(file)) if "/" in file else file)
        name, public = str(told["part"]), list(map(str, told["members"]))
        nearest = hint(name, public if near_misses(name, public) else list(map(str, told["own"])))
        return MissingNameError(f"there is no {name!r} in it (target {target!r}).{nearest}",
                                where=place)
    summary = portable_text(str(told.get("summary", kind)))
    return ImportingError(f"importing {name!r} raises {summary}",
                          where=_format_place(told) if told.get("file") else None)


def _format_place(told: Mapping[str, Any]) -> FileLocation:
    return FileLocation(shown_path(Path(str(told["file"]))), int(told["line"]))


def _explain_missing_name(told: Mapping[str, Any], name: str) -> str:
    absent = str(told["absent"])
    top, _, inner = absent.partition(".")
    if told["is_asked"]:
        return f"there is no module {absent!r}.{hint(absent.rpartition('.')[2], told['siblings'])}"
    if not inner and (command := _find_install_command(top)):
        return (f"importing {name!r} needs {absent!r}, which is not installed. Install it: "
                f"{command}")
    near = near_misses(absent.rpartition(".")[2], list(map(str, told["siblings"])))
    nearest = f" Did you mean {either(near)}?" if near else ""
    return (f"importing {name!r} needs the module {absent!r}, which was not found in "
            f"{_describe_search(told)}.{nearest}")


def _find_install_command(module: str) -> str:
    """Returns what installs a framework or a registered library; else "": names may be others'."""
    for manifest in sorted(paths.folder("implementations").glob(f"*/{MANIFEST_FILE}")):
        library = next(iter(read_manifest(manifest.parent))).library
        if module in library.requires.split()[:1]:
            own = f"pip install {library.distribution}" if library.distribution else ""
            return library.install or own
    return how_to_install(module)


def _describe_search(told: Mapping[str, Any]) -> str:
    """Says where a module was looked for: `the current folder, scratch or …`."""
    folders = [Path(str(folder)) for folder in told.get("looked", ())]
    own = [folder for folder in folders if not _OF_PYTHON.search(str(folder))]
    shown = {folder: portable_text(paths.typed_here(str(folder))) for folder in own}
    places = [*dict.fromkeys({**shown, Path.cwd(): "the current folder"}[each] for each in own)]
    if len(own) < len(folders) or not own:
        places.append("the installed packages")
    *others, last = places
    return f"{', '.join(others)} or {last}" if others else last


def not_callable(function: FunctionDescription, target: str, importable: str) -> TargetError:
    """Makes the error for a class (`importable` is for `attnspec init`) or an uncallable."""
    if function.is_class:
        return no_function(target, function.qualname.rpartition(".")[2], importable,
                           function.where)
    return TargetError(f"{target!r} is {function.type_name} and cannot be called; a function is "
                       "expected: attend(query, key, value, *, ...).")


def not_ended(doing: str, death: ProcessDeath, deadline: float) -> str:
    """Says why `importing 'mine'` or `trying torch` did not end, and what to do about it."""
    if death.verdict is Verdict.TIMED_OUT:
        return f"{doing} had not ended after {deadline:g} s. Give it longer: --deadline."
    if death.reason.startswith(DIED_REASON):
        lines = death.printed.strip().splitlines()
        last = f" Its last words: {portable_text(lines[-1])}" if lines else ""
        return f"{doing} ends the process{death.reason.removeprefix(DIED_REASON)}.{last}"
    return f"{doing} ends the process: {death.reason}."
