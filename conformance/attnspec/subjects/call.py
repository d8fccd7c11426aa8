"""One call of an implementation. Only the call itself is wrapped: anything else that escapes is our own bug."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnspec.core.nouns import DType
from attnspec.core.paths import portable
from attnspec.problems.problem import Array
from attnspec.subjects.lifts.lift import Lift
from attnspec.subjects.stderr import kept_stderr

_READABLE = frozenset(dtype.value for dtype in DType)
_OUR_FRAMES = Path(__file__).parent
_AS_BYTES = 2**16  # up to so many bytes, a copy to compare is up to ten times as fast as an array's own comparison
_DEEPEST = 16  # frames shown of a traceback, counted from where the exception was raised


class SubjectRaised(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """The implementation raised. `traceback` shows its own frames only; `summary` is the exception's last line.

    classes: the names of the exception's class and of those that it comes from.  statement: the line that raised it.
    """

    def __init__(self, summary: str, traceback: str, stderr: str = "", *, classes: frozenset[str] = frozenset(),
                 statement: str = "") -> None:
        super().__init__(summary)
        self.summary = summary
        self.traceback = traceback
        self.stderr = stderr
        self.classes = classes
        self.statement = statement

    @property
    def gist(self) -> str:
        """The summary without numbers: what it has in common with the same refusal of other shapes."""
        return re.sub(r"\d+", "", self.summary)


class UnusableAnswer(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """What came back is no floating-point array of the right shape. `sentence` says what it is and what is expected."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a subject made of a problem.

    output (B,H,T,Dv), of a layer (B,T,M); weights (B,H,T,S), or (B,T,S) of a subject that averages them, or None where
    they were not asked for; both in the dtype that came back, and the holder's own.
    mutated: the inputs that the call changed.  aliases: the inputs whose memory an output shares.
    stderr: what the subject printed there, and its warnings.
    returned: the output in the subject's own memory, and what it held then: a subject that uses one buffer again
    changes it with a later call.
    """

    output: Array
    weights: Array | None = None
    mutated: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    stderr: str = ""
    returned: tuple[Array, Array] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The arguments of a call, and the shapes of what should come back.

    Arrays may also stand in a mapping (`params`). `shapes` has one entry for the output alone, two for the pair.
    """

    arrays: Mapping[str, Array]  # query, key, value: handed over in this order
    keywords: Mapping[str, object]
    dtype: DType
    shapes: tuple[tuple[int, ...], ...]


def perform(function: Callable[..., object], lift: Lift, call: Call) -> Answer:
    """Call the function with private copies. Raises SubjectRaised or UnusableAnswer."""
    inputs = dict(_flat({**call.arrays, **call.keywords}))
    copies = _private(inputs)
    with lift.around(call.dtype):
        arguments = [lift.hand(copies[name]) for name in call.arrays]
        keywords = {name: _handed(name, value, copies, lift) for name, value in call.keywords.items()}
        returned, stderr = _returned(function, arguments, keywords)
        results = _read(returned, call.shapes, lift)
    mutated = tuple(name for name, array in inputs.items() if not _same_bits(array, copies[name]))
    aliases = tuple(name for name, array in copies.items() if any(_share_memory(array, result) for result in results))
    # a subject that uses one buffer again changes with the next call what it returned now
    output, weights = [result.copy() for result in results] + [None] * (2 - len(results))
    assert output is not None  # there is always a first result
    return Answer(output, weights, mutated, aliases, stderr, (results[0], output))


def _flat(arguments: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Array]]:
    """Every array among the arguments, of any shape, by its name (`params.w_out`)."""
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            yield prefix + name, value
        elif isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")


def _private(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Writable copies, any shape; what was one array stays one (a layer may ask whether its query *is* its key)."""
    copies: dict[int, Array] = {}
    for array in arrays.values():
        if id(array) not in copies:
            copies[id(array)] = private_copy(array)
    return {name: copies[id(array)] for name, array in arrays.items()}


def private_copy(array: Array) -> Array:
    """A writable copy, of any shape, with the same strides, so that a strided or broadcast input stays one."""
    if array.flags.c_contiguous:
        return array.copy()
    low = sum((length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True) if stride < 0)
    high = sum((length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True) if stride > 0)
    # zeros in the gaps: a subject that ignores strides then misreads the same each time, and its case can be repeated
    memory = np.zeros(max(high - low, 0) + array.itemsize, np.uint8)
    copy = np.ndarray(array.shape, array.dtype, memory, offset=-low if array.size else 0, strides=array.strides)
    copy[...] = array
    return copy


def _handed(name: str, value: object, copies: Mapping[str, Array], lift: Lift) -> object:
    """The argument as the subject gets it: an array of any shape as its private copy, lifted; the arrays of a mapping
    likewise; the rest as it is.
    """
    if isinstance(value, np.ndarray):
        return lift.hand(copies[name])
    if isinstance(value, Mapping):
        return {inner: lift.hand(copies[f"{name}.{inner}"]) for inner in value}
    return value


def _returned(function: Callable[..., object], arguments: Sequence[object],
              keywords: Mapping[str, object]) -> tuple[object, str]:
    with kept_stderr() as said:
        try:
            returned = function(*arguments, **keywords)
            _await(returned)
        except (Exception, SystemExit) as cause:  # whatever it raises is its own doing
            raised: BaseException | None = cause
        else:
            raised = None
    if raised is not None:
        raise SubjectRaised(_summary(raised), _own_frames(raised), said.text, statement=_statement(raised),
                            classes=frozenset(each.__name__ for each in type(raised).__mro__)) from None
    return returned, said.text


def _await(returned: object) -> None:
    """JAX answers before it has computed: what goes wrong then belongs to the call."""
    for value in returned if isinstance(returned, tuple | list) else (returned,):
        if hasattr(value, "block_until_ready"):
            value.block_until_ready()


def _summary(raised: BaseException) -> str:
    """The exception's type and the first line of what it says (notes and details are in the traceback)."""
    said = portable(str(raised)).strip().partition("\n")[0]
    return f"{type(raised).__name__}: {said}" if said else type(raised).__name__


def _statement(raised: BaseException) -> str:
    """The line of code that raised it: of a bare `assert`, all that it says."""
    frames = traceback.extract_tb(raised.__traceback__)
    return (frames[-1].line or "").strip() if frames else ""


def _own_frames(raised: BaseException) -> str:
    """The traceback from the subject's first frame on."""
    report = traceback.TracebackException.from_exception(raised)
    frames = [frame for frame in report.stack if Path(frame.filename).parent != _OUR_FRAMES]
    report.stack = traceback.StackSummary.from_list(frames[-_DEEPEST:])
    return portable("".join(report.format(chain=False)))


def _read(returned: object, shapes: tuple[tuple[int, ...], ...], lift: Lift) -> list[Array]:
    """The arrays that came back: the output, (B,H,T,Dv) or (B,T,M), alone, or with the weights, (B,H,T,S) or (B,T,S),
    as a pair where those were asked for.
    """
    if len(shapes) == 1:
        return [_array(returned, "the output", shapes[0], lift)]
    if not isinstance(returned, tuple | list) or len(returned) != len(shapes):
        raise UnusableAnswer(f"The subject returned {_named(returned)} where the pair (output, weights) is expected.")
    names = ("the output", "the weights")
    return [_array(value, name, shape, lift) for value, name, shape in zip(returned, names, shapes, strict=True)]


def _array(value: object, name: str, shape: tuple[int, ...], lift: Lift) -> Array:
    """What came back as an array of the shape that is due, as (B,H,T,Dv). Raises UnusableAnswer where it is none."""
    expected = f"where {name} should be: an array of shape {shape} in float64, float32, float16 or bfloat16"
    if value is None or isinstance(value, tuple | dict | str | bytes):
        raise UnusableAnswer(f"The subject returned {_named(value)} {expected}.")
    try:
        array = lift.read(value)
    except Exception as cause:  # the subject's object cannot be read
        raise UnusableAnswer(f"The subject returned {_named(value)} {expected}; "
                             f"NumPy cannot read it: {_summary(cause)}") from None
    if array.dtype.name not in _READABLE or array.shape != shape:
        raise UnusableAnswer(f"The subject returned {_named(value, array)} {expected}.")
    return array


def _named(value: object, array: Array | None = None) -> str:
    """What came back, in words; of an array, any shape will do, its shape and dtype."""
    if value is None:
        return "None"
    if isinstance(value, tuple | list) and array is None:
        return f"a {type(value).__name__} of {len(value)}"
    kind = type(value).__name__
    if array is None:
        return f"{_article(kind)} {kind}"
    return f"{_article(kind)} {kind} of shape {array.shape} and dtype {array.dtype.name}"


def _article(noun: str) -> str:
    return "an" if noun[:1].lower() in "aeiou" else "a"


def _same_bits(first: Array, second: Array) -> bool:
    """Whether no bit of two arrays of one shape, any shape, differs (NaN equals itself here, and +0 is not -0)."""
    if first.nbytes <= _AS_BYTES and first.flags.c_contiguous and second.flags.c_contiguous:
        return first.tobytes() == second.tobytes()
    bits: Any = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[first.itemsize]
    return np.array_equal(first.view(bits), second.view(bits))


def _share_memory(first: Array, second: Array) -> bool:
    """Whether two arrays, of any shape, share memory; where that is too hard to find out, it is taken for granted."""
    if not np.may_share_memory(first, second):  # only the bounds are compared: cheap, and almost always enough
        return False
    try:
        return np.shares_memory(first, second, max_work=10_000)  # type: ignore[arg-type]  # any int is meant
    except np.exceptions.TooHardError:
        return True
