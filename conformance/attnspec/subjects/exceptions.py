"""Decides what an exception of a function means: a refusal, a limit of its framework, or a failure.

Where an adapter itself fails with the installed release of its library, it says so: that is no failure of the library.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Iterator

from attnspec.core.errors import ReleaseError
from attnspec.core.nouns import DType
from attnspec.core.rotary import EVERY_KEYWORD
from attnspec.host.loading import PACKAGE
from attnspec.host.raised import COMPUTED, SPOKE, UNREAL
from attnspec.problems.problem import LayerProblem, Problem
from attnspec.problems.rotary import RotaryProblem
from attnspec.subjects.call import SubjectRaised
from attnspec.subjects.manifest import Library

AnyProblem = Problem | LayerProblem | RotaryProblem

REFUSING = frozenset(
    {"ValueError", "TypeError", "NotImplementedError", "AssertionError", "RuntimeError", "FlaxError"})
"""The exceptions by which people refuse, and their own subclasses of them. Flax has a class of its own."""

ACCIDENTAL = frozenset({
    "RecursionError", "UnicodeError", "PythonFinalizationError", "OutOfMemoryError", "MemoryError", "IndexError",
    "KeyError", "LinAlgError", "XlaRuntimeError", "JaxRuntimeError", "EinopsError"})
"""Subclasses of those that nobody refuses by, whatever they say."""

FRAMEWORKS = frozenset({
    "numpy", "torch", "jax", "jaxlib", "ml_dtypes", "scipy", "einops", "opt_einsum", "numba", "triton", "cupy",
    "functorch", "tensorflow", "mlx"})
"""Packages that functions are written with: what they raise about shapes is no word of the function."""


class Topic(enum.Enum):
    """What a refusal may be about: the sizes and keywords of the call, its dtype, or how its arrays lie in memory."""

    CALL = "call"
    DTYPE = "dtype"
    LAYOUT = "layout"


_OF_SHAPES = re.compile(r"shape|size|dim|length|head|group|broadcast|width|batch|causal|quer(y|ies)|\bkeys?\b|"
                        r"values?\b|\b[qkv]\b", re.IGNORECASE)
_OF_AXES = re.compile(r"\b[A-Z]\b")
_NAMED_AXES = re.compile(r"\b([BG]|[HTSDLN](q|kv?|v|qk)?|d_?(k|v|model)|bsz?)\b")
_OF_DTYPES = re.compile(r"d?type|float|half|double|precision|implement|support", re.IGNORECASE)
_OF_LAYOUTS = re.compile(r"contiguous|strid", re.IGNORECASE)
_OF_CAUSAL = re.compile("causal", re.IGNORECASE)

_OF_ATTENTION = re.compile(
    r"\b(query|queries|key|keys|value|values|attn_mask|mask|bias|num_heads|head_dim|embed_dim)\b")
"""What the attention function of a framework names when it refuses: whoever wraps that says the same by it. What a
framework raises of arrays in general names none of these.
"""

_HAS_NO_CODE = re.compile(
    r"not implemented for|not supported|unsupported|no loop|not contain a loop|invalid data type|not understood|"
    r"not inexact|no kernel|not a valid (jax )?(array )?(d?type|type)", re.IGNORECASE)
"""What frameworks say of a dtype that they have no code for. That two dtypes differ is another thing: a product of
float32 weights and float16 values is a cast that was forgotten.
"""

_HAS_NO_DERIVATIVE = (
    "modified by an inplace operation", "must implement either the backward", "is not implemented",
    "not implemented for", "Reverse-mode differentiation does not work", "Differentiation rule for",
    "not differentiable", "cannot be differentiated")
"""How PyTorch and JAX say that. What else is raised in a backward pass is a failure."""

_OF_BFLOAT16 = re.compile(r"bfloat16|data type|dtype|ufunc|cast", re.IGNORECASE)
"""What NumPy says of a dtype that it knows from `ml_dtypes` alone, with no rules for casts between it and others."""


def refusal_words(raised: SubjectRaised, problem: AnyProblem, *, home: str, topic: Topic = Topic.CALL) -> str:
    """The words of a refusal; empty where the exception is a failure.

    home: the package or module of the function itself.  topic: what the refusal is to be about.
    """
    if topic is Topic.DTYPE and _is_lacking_dtype(raised, problem.dtype):
        return raised.summary
    if not _is_own_statement(raised, home) or not raised.classes & REFUSING or raised.classes & ACCIDENTAL:
        return ""
    words = _words(raised)
    is_clear = "NotImplementedError" in raised.classes if topic is Topic.CALL else False
    return words if is_clear or _is_about(words, topic, problem, is_code=raised.is_mute) else ""


def says_no_derivative(raised: SubjectRaised) -> bool:
    """Whether a framework says that what it is to differentiate has no derivative: a limit, as a dtype without code."""
    return any(words in raised.summary for words in _HAS_NO_DERIVATIVE)


def says_always_causal(words: str) -> bool:
    """Whether a refusal of a call without the causal flag speaks of it."""
    return bool(_OF_CAUSAL.search(words))


def _is_own_statement(raised: SubjectRaised, home: str) -> bool:
    """Whether a statement of the function's own code raised it, or of a library that checks what it is given; of a
    framework only where its attention function speaks.
    """
    package = raised.module.partition(".")[0]
    if not raised.is_stated or not package:
        return False
    if package in FRAMEWORKS and package != home:
        return bool(_OF_ATTENTION.search(raised.summary.partition(": ")[2]))
    return package not in sys.stdlib_module_names


def _is_lacking_dtype(raised: SubjectRaised, dtype: DType) -> bool:
    """Whether the framework says that it has no code for the dtype."""
    message = raised.summary.partition(": ")[2]
    is_of_numpy = "TypeError" in raised.classes or "ValueError" in raised.classes
    if dtype is DType.BFLOAT16 and is_of_numpy and _OF_BFLOAT16.search(message):
        return True
    return bool(_HAS_NO_CODE.search(message) and _OF_DTYPES.search(message))


def _words(raised: SubjectRaised) -> str:
    """What it says: a bare `assert` says what its code says."""
    return f"{raised.summary}: {raised.statement}" if raised.is_mute and raised.statement else raised.summary


def _is_about(words: str, topic: Topic, problem: AnyProblem, *, is_code: bool) -> bool:
    if topic is Topic.LAYOUT:
        return bool(_OF_LAYOUTS.search(words))
    if topic is Topic.DTYPE:
        return bool(_OF_DTYPES.search(words))
    return any(_names(words.partition(": ")[2], problem, is_code=is_code))


def _names(message: str, problem: AnyProblem, *, is_code: bool) -> Iterator[bool]:
    """Whether a message names a size in words, an axis by its letter (in code any letter), or a parameter."""
    yield is_code and "assert" in message and bool(_OF_AXES.search(message))
    yield bool(_OF_SHAPES.search(message)) or (not is_code and bool(_NAMED_AXES.search(message)))
    parameters = (name for word in problem.keywords for name in (word, *EVERY_KEYWORD[word].parameters))
    yield any(re.search(rf"\b{name.replace('_', '.?')}", message, re.IGNORECASE) for name in parameters)


_UNKNOWN = re.compile(r"(unexpected|invalid|unrecogni[sz]ed|unknown) keyword|"
                      r"required (positional|keyword-only) argument", re.IGNORECASE)
"""What is said of a keyword that is not known, or of an argument that is needed and was not given. Too many arguments
are another thing: a function may be documented to take no mask.
"""

_STUMBLES = frozenset({"NameError", "KeyError", "IndexError", "ZeroDivisionError", "StopIteration"})
"""What Python raises itself for code that is wrong about what it has in its hands."""


def not_with_this_release(subject: str, library: Library, words: str) -> ReleaseError:
    """Makes the error of an adapter that fails with this release of its library. words: what went wrong, and where."""
    release = f"{library.name} {library.version}"
    return ReleaseError(f"{subject} cannot be judged with this release ({release}): {words}")


def failure_of_adapter(raised: SubjectRaised, subject: str, library: Library) -> ReleaseError | None:
    """The error for an adapter's own failure; None where the library raised, or no release of one is in play."""
    if not (library.version and is_fault_of_adapter(raised)):
        return None
    place = f" ({raised.place})" if raised.place else ""
    return not_with_this_release(subject, library, f"its adapter fails, {raised.summary}{place}")


def is_fault_of_adapter(raised: SubjectRaised) -> bool:
    """Whether an adapter raised it in its own file, and not what the adapter calls.

    It asks for what is not there (an attribute, a keyword, a name to import), leaves out what is needed, asks for a
    number that is not there yet, or stumbles over what it got. What it raises on purpose is said for its subject.
    """
    if raised.module.partition(".")[0] != PACKAGE or raised.act == SPOKE:
        return False
    if raised.classes & {"AttributeError", "ImportError"}:
        return True
    if raised.classes & {"TypeError", "ValueError"} and _UNKNOWN.search(raised.summary):
        return True
    if any(word in name for word in UNREAL for name in raised.classes):
        return True
    return raised.act == COMPUTED and bool(raised.classes & _STUMBLES or _is_unpacking(raised))


def _is_unpacking(raised: SubjectRaised) -> bool:
    """Whether an answer had more or fewer parts than the adapter takes it to have."""
    return "values to unpack" in raised.summary or "cannot unpack" in raised.summary
