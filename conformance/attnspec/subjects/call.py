"""Describes one call of an implementation: what is given, and what came of it.

It also knows backward passes that stand beside a function: how they are called, and what is asked
of both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from inspect import Parameter
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from attnspec.core.declaration import Declaration, Limits
from attnspec.core.errors import FileLocation, TargetError
from attnspec.core.forms import InputForm
from attnspec.core.keyword import GRAD, LSE, OUTPUT, Acts
from attnspec.core.keywords import BIAS, CACHED, DIFFERENTIABLE_INPUTS, KEYWORDS
from attnspec.core.nouns import DType, Kind, Verdict
from attnspec.core.paths import portable_text
from attnspec.host.calling import MAX_SENT_BYTES, NO_GRADIENT, NOT_MADE, NOT_REACHED, Arguments, CallEnding, own_name
from attnspec.host.frames import BIT_DTYPES, Entries, bounds, place_array
from attnspec.host.lifts.making import FormNotMade, FrameworkForm
from attnspec.hosting.client import ProcessDeath
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import CACHED_INPUTS, INPUTS, Array, LayerProblem, Problem, numpy_dtype
from attnspec.spec.yaml_lines import shown_path
from attnspec.subjects.signature import FunctionDescription, suggest_parameter

ValuePath = tuple[str, ...]
"""The path from a tree to a part: `["name"]`, `[0]` or `.name` a step."""


@dataclass(frozen=True, slots=True, eq=False)
class ReturnedArray:
    """An array in the tree that a call returned.

    shape: None where it is not known.  array: its numbers, of any shape; None where it holds no
    floating-point numbers, or too many.
    """

    path: ValuePath
    type_name: str
    shape: tuple[int, ...] | None
    array: Array | None


@dataclass(frozen=True, slots=True, eq=False)
class ReturnedTree:
    """The tree that a call returned: its type and its arrays; nothing else is kept."""

    type_name: str
    parts: tuple[ReturnedArray, ...]


def read_tree(told: Mapping[str, Any], found: Sequence[Entries]) -> ReturnedTree:
    """Reads the tree that a host describes. Raises what reading anything else may raise."""
    parts = tuple(_read_part(each, found) for each in told["parts"])
    return ReturnedTree(str(told["type"]), parts)


def _read_part(told: Mapping[str, Any], found: Sequence[Entries]) -> ReturnedArray:
    shape = None if told["shape"] is None else tuple(map(int, told["shape"]))
    array = array_of(found[int(told["array"])]) if "array" in told else None
    return ReturnedArray(tuple(map(str, told["path"])), str(told["type"]), shape, array)


PAIR = 2
UNREACHED = ("the gradients of its parameters cannot be asked for: none flows to those that it is "
             "handed, as where a module is filled by copying")
UNRETURNED = "its backward pass returns no gradients of parameters"


class SubjectRaised(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """Raised when the implementation raised.

    traceback: of its own frames. summary: the exception's last line. classes: the names of the
    exception's class and its bases. statement: the line that raised it. is_stated: whether that is
    a `raise` or an `assert` in the code of a module, and no call of compiled code. asked: the
    problem, where it is known. module: the name of the module that raised it. place: the line.
    act: what that line did, as `host.raised` names it. own_place: the line of the function's own
    code in which it happened.
    """

    def __init__(self, summary: str, traceback: str, stderr: str = "", *,
                 classes: frozenset[str] = frozenset(), statement: str = "",
                 is_stated: bool = False, module: str = "", place: FileLocation | None = None,
                 own_place: FileLocation | None = None, act: str = "") -> None:
        super().__init__(summary)
        self.summary = summary
        self.traceback = traceback
        self.stderr = stderr
        self.classes = classes
        self.statement = statement
        self.is_stated = is_stated
        self.module = module
        self.place = place
        self.act = act
        self.own_place = own_place or place
        self.asked: Problem | LayerProblem | RotaryProblem | None = None

    @property
    def origin(self) -> str:
        """Returns `IndexError in mine.py:41`: the exception and, if known, the line."""
        name = self.summary.partition(":")[0]
        return f"{name} in {self.own_place}" if self.own_place else name

    @property
    def says_why(self) -> bool:
        """Says whether a message, or an `assert`'s condition, tells a reader what is wrong."""
        return not self.is_mute or (self.is_stated and self.statement.startswith("assert "))

    @property
    def is_mute(self) -> bool:
        """Says whether the exception has no message."""
        return ": " not in self.summary

    @property
    def gist(self) -> str:
        """Returns what the summary shares with the same refusal of other shapes."""
        return find_gist(self.summary)


def find_gist(words: str) -> str:
    """Returns the words of an exception without numbers."""
    return re.sub(r"\d+", "", words)


class SubjectDied(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """Raised when the implementation's process ended during the call.

    verdict: CRASHED, or TIMED_OUT where it was ended. traceback: where its threads stood. stderr:
    the end of what it printed.
    """

    def __init__(self, death: ProcessDeath) -> None:
        super().__init__(death.reason)
        self.verdict: Verdict = death.verdict
        self.traceback = portable_text(death.traceback)
        self.stderr = portable_text(death.printed)


class UnusableAnswer(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """Raised when what came back is no floating-point array of the right shape.

    sentence: what it is and what is expected. no_array: what stands where the output is due ("a
    tuple of 2"), if that is no array at all.
    """

    def __init__(self, sentence: str, no_array: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.no_array = no_array


@dataclass(frozen=True, slots=True, eq=False)
class SubjectAnswer:
    """What a subject made of a problem.

    output: (B,H,T,Dv), of a layer (B,T,M).  weights: (B,H,T,S), or (B,T,S) where they are
    averaged, or None where they were not asked for. Both are in the dtype that came back, and the
    holder's own.  mutated: the inputs that the call changed.  aliases: the inputs whose memory an
    output shares.  stderr: what the subject printed, and its warnings.  is_kept: says whether the
    subject's own memory of the output still holds the same; a reused buffer does not. True where
    that memory was freed.  gradients: of the inputs, in their shapes, where they were asked for
    and exist.  lse: the log-sum-exp (B,H,T), where it was asked for.  by_input: the gradients by
    the inputs' names, in the dtype that came back, where an output's gradient was given.
    """

    output: Array
    weights: Array | None = None
    mutated: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    stderr: str = ""
    is_kept: Callable[[], bool] = lambda: True
    gradients: tuple[Array, ...] | None = None
    lse: Array | None = None
    by_input: Mapping[str, Array] = field(default_factory=dict)


class NotDifferentiated(Exception):  # noqa: N818  (named for what happened; it is no error)
    """Raised when the output requires no gradient: there is nothing to judge."""


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of a call, and what should come back.

    arrays, keywords: arrays may also stand in a mapping (`params`).  shapes: of what comes back,
    one for the output alone, two for the pair, none where that is not known.  names: theirs. wrt:
    the inputs whose gradients come back too.  is_backward: whether nothing else does.  form: what
    the framework makes of the function first.
    """

    arrays: Mapping[str, Array]  # query, key, value: handed over in this order
    keywords: Mapping[str, object]
    dtype: DType
    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...] = ("output", "weights")
    wrt: tuple[str, ...] = ()
    is_backward: bool = False
    form: FrameworkForm | None = None

    @cached_property
    def named_arrays(self) -> Mapping[str, Array]:
        """Returns every array among the arguments, of any shape, by name (`params.w_out`)."""
        return dict(_flatten_arrays({**self.arrays, **self.keywords}))

    @cached_property
    def most_bytes(self) -> int:
        """Returns the bytes that such an answer may take, with gradients and the arguments."""
        results = MAX_SENT_BYTES
        if self.shapes:
            results = sum(8 * math.prod(shape) for shape in self.shapes)
        given = (2 * _span(array) + 8 * array.size for array in self.named_arrays.values())
        return results + sum(given)

    def arguments(self, kept: Mapping[int, Entries], rows: Array | None = None) -> Arguments:
        """Returns what the host's code takes: entries by id of any shape of array, rows (T,)."""
        keywords = {name: _keyword_value(value, kept) for name, value in self.keywords.items()}
        inputs = [kept[id(each)] for each in self.arrays.values()]
        return Arguments(inputs, keywords, self.dtype.value, self.shapes, rows, self.wrt,
                         self.is_backward, self.form)


def _flatten_arrays(arguments: Mapping[str, object],
                    prefix: str = "") -> Iterator[tuple[str, Array]]:
    """Yields every array, of any shape, among arguments and mappings, by its dotted name."""
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            yield prefix + name, value
        elif isinstance(value, Mapping):
            yield from _flatten_arrays(value, f"{prefix}{name}.")


def _keyword_value(value: object, kept: Mapping[int, Entries]) -> object:
    """Replaces arrays of any shape in a keyword's value by their entries."""
    if isinstance(value, np.ndarray):
        return kept[id(value)]
    if isinstance(value, Mapping):
        return {name: _keyword_value(inner, kept) for name, inner in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _span(array: Array) -> int:
    """Returns the bytes from the lowest to the highest of an array of any shape, as it travels."""
    if array.flags.c_contiguous:
        return array.nbytes
    low, high = bounds(array.shape, array.strides)
    return high - low + array.itemsize


def entries_of(array: Array) -> Entries:
    """Returns an array of any shape as the host has it: by its bits, if NumPy lacks the dtype."""
    name = _name_dtype(array.dtype)
    return Entries(name, array.view(BIT_DTYPES[name]) if name in BIT_DTYPES else array)


@cache
def _name_dtype(dtype: np.dtype[Any]) -> str:
    return str(dtype.name)  # NumPy puts it together each time


def array_of(entries: Entries) -> Array:
    """Returns the array of any shape that entries stand for."""
    array: Array = entries.array
    return array.view(numpy_dtype(DType(entries.dtype))) if entries.dtype in BIT_DTYPES else array


def private_copy(array: Array) -> Array:
    """Returns a writable copy, of any shape, with the same strides."""
    if array.flags.c_contiguous:
        return array.copy()
    low, high = bounds(array.shape, array.strides)
    # zeros in the gaps: a subject that ignores strides then misreads the same each time, and its case can be repeated
    memory = np.zeros(high - low + array.itemsize, np.uint8)
    copy: Array = place_array(array.shape, array.dtype, memory, array.strides, -low)
    copy[...] = array
    return copy


def read_answer(ended: CallEnding, call: Call, changed: Set[int],
                now: Callable[[], Array | None]) -> SubjectAnswer:
    """Reads the answer of a call that has ended.  changed: the ids of the given arrays, of any
    shape, that it changed.  now: returns what the subject's memory of the output (B,H,T,Dv) or
    (B,T,M) holds, or None where it was freed. Raises SubjectRaised, UnusableAnswer,
    NotDifferentiated or FormNotMade.
    """
    if ended.how == "raised":
        raise read_raised(ended.details, ended.stderr)
    if ended.how == "unusable":
        if ended.details["name"] == NO_GRADIENT:
            raise NotDifferentiated("its output requires no gradient")
        if ended.details["name"] == NOT_REACHED:
            raise NotDifferentiated(UNRETURNED if call.is_backward else UNREACHED)
        if ended.details["name"] == NOT_MADE:
            raise FormNotMade(portable_text(str(ended.details["named"])))
        raise UnusableAnswer(_describe_unusable(ended.details, call),
                             _name_no_array(ended.details, call))
    named = call.named_arrays
    mutated: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    if changed:
        mutated = tuple(name for name, array in named.items() if id(array) in changed)
    if ended.aliases:
        arrays = list(named.values())
        shared = {id(arrays[at]) for at in ended.aliases}
        aliases = tuple(name for name, array in named.items() if id(array) in shared)
    results = [array_of(each) for each in ended.results]
    gradients = tuple(ended.gradients) if ended.has_gradients else None

    def is_kept() -> bool:
        held = now()
        return held is None or held.tobytes() == results[0].tobytes()

    said = portable_text(ended.stderr) if ended.stderr else ""
    found = dict(zip(call.names, results, strict=False))  # an output alone has one name of two
    by_input = {name: found[name_gradient(name)] for name in call.wrt}
    return SubjectAnswer(found.get("output", results[0]), found.get("weights"), mutated, aliases,
                         said, is_kept, gradients, found.get("lse"), by_input)


def name_gradient(name: str) -> str:
    """Names the gradient of an input, or of a layer's parameter, among what comes back."""
    mapping, _, own = name.rpartition(".")
    return f"gradient of {own}" if mapping else f"gradient of the {own}"


def read_raised(told: Mapping[str, Any], said: str) -> SubjectRaised:
    """Reads an exception in the words of the process that raised it."""
    module, file, line = map(str, told.get("by") or ("", "", 0))
    statement = str(told["statement"])
    # a host that was written by others need not say how it was raised; its statement tells nearly always
    is_stated = bool(told.get("is_stated", statement.startswith(("raise", "assert"))))
    return SubjectRaised(portable_text(str(told["summary"])),
                         portable_text(str(told["traceback"])), portable_text(said),
                         classes=frozenset(map(str, told["classes"])), statement=statement,
                         is_stated=is_stated, module=module, place=_format_place(file, int(line)),
                         own_place=_format_place(*told.get("at", ("", 0))),
                         act=str(told.get("act") or ""))


def _format_place(file: str, line: int) -> FileLocation | None:
    return FileLocation(shown_path(Path(file)), line) if file else None


def _describe_unusable(told: Mapping[str, Any], call: Call) -> str:
    """Says what came back where an array, of any shape, is due, and what is expected."""
    if told["name"] == "the mapping":
        own = [own_name(name) for name in call.wrt]
        kinds = "inputs" if own == list(call.wrt) else "inputs and parameters"
        return (f"The backward pass returned {told['named']} where a mapping from the names of "
                f"the {kinds} ({', '.join(own)}) to their gradients is expected.")
    if told["name"] == "the pair":
        kind = "pair" if len(call.names) == PAIR else "triple"
        return (f"The subject returned {told['named']} where the {kind} ({', '.join(call.names)}) "
                "is expected.")
    if told["name"] == "the cache":
        due = ", ".join((*call.names[:len(call.shapes)], "cache"))
        return (f"The subject returned {told['named']} where ({due}) is expected: a decoder hands "
                "its cache back.")
    name, shape = call.names[told["at"]], call.shapes[told["at"]]
    expected = (f"where the {name} should be: an array of shape {shape} in float64, float32, "
                "float16 or bfloat16")
    reading = f"; NumPy cannot read it: {told['reading']}" if told["reading"] else ""
    return f"The subject returned {told['named']} {expected}{reading}."


def _name_no_array(told: Mapping[str, Any], call: Call) -> str:
    """Names what is no array and came back where the output, of any shape, is due; often ""."""
    is_none = told["name"] not in {"the pair", "the mapping",
                                   "the cache"} and told.get("is_array") is False
    return str(told["named"]) if is_none and call.names[told["at"]] == "output" else ""


PARAMS = "params"
_FORMS = ("attend_backward(query, key, value, grad_output, *, ..., output=None, lse=None)",
          "layer_backward(query, key, value, grad_output, *, params, heads, ..., output=None)")
_GIVEN = (*INPUTS, GRAD)
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_STARS = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class BackwardPass:
    """A backward pass that stands beside a function.

    name: of the function.  keywords: those of attention that it takes, too.  wants: `output` and
    `lse`, if it has parameters for them.  where: its place; None where it is not known.
    """

    name: str
    keywords: frozenset[str]
    wants: frozenset[str] = frozenset()
    where: FileLocation | None = None

    def why_no_gradients(self, problem: Problem, limits: Limits) -> str:
        """Says why it cannot be asked for a problem's gradients; empty if it can."""
        needed = {name for name in problem.given
                  if name != GRAD and KEYWORDS[name].acts is not Acts.ANSWER}
        if limits.bias_is_mask and "mask" in needed:
            needed = needed - {"mask"} | {BIAS}
        missing = sorted(needed - self.keywords)
        return f"{self.name} takes no {' and no '.join(missing)}" if missing else ""

    def as_taken(self, call: Call) -> Call:
        """Removes flags that are off and that it has no parameter for from a call."""
        given = {name: value for name, value in call.keywords.items()
                 if value is not False or name in self.keywords}
        return replace(call, keywords=given)

    def kept_arrays(self, forward: SubjectAnswer) -> Mapping[str, Array]:
        """Returns what it wants of the output (B,H,T,Dv) or (B,T,M), and the lse (B,H,T)."""
        found = {OUTPUT: forward.output, LSE: forward.lse}
        return {name: array for name, array in found.items()
                if array is not None and name in self.wants}

    def unusable(self, sentence: str) -> UnusableAnswer:
        """Makes the error for what came of a backward pass, with the place to be mended."""
        place = f" See {self.name} in {self.where}." if self.where else ""
        return UnusableAnswer(f"{sentence}{place}")


def backward_of(described: FunctionDescription | None, name: str, kind: Kind, *,
                is_named: bool = False) -> BackwardPass | None:
    """Returns the backward pass that stands beside a function of this kind. Returns None for a
    function without a parameter `grad_output`.  is_named: whether a manifest names it. Raises
    TargetError with file and line where it cannot be called as a backward pass.
    """
    if described is None or GRAD not in {each.name for each in described.parameters or ()}:
        if is_named and described is not None:
            raise TargetError(f"the manifest names {name} as a backward pass, but it has no "
                              f"parameter {GRAD!r}: {_FORMS[kind is Kind.LAYER]}.",
                              where=described.where)
        return None
    parameters, form = list(described.parameters or ()), _FORMS[kind is Kind.LAYER]
    inputs = parameters[:len(_GIVEN)]
    rest = [each for each in parameters[len(_GIVEN):] if each.kind not in _STARS]
    if inputs[-1].name != GRAD or any(each.kind not in _POSITIONAL for each in inputs):
        raise TargetError(f"{name} takes ({', '.join(map(str, parameters))}); the first four "
                          "should be query, key, value and grad_output, given by position: "
                          f"{form}.",
                          where=described.where)
    required = frozenset(word.name for word in KEYWORDS.values() if kind in word.required)
    if wrong := _find_misfit(rest, required):
        raise TargetError(f"{name} takes {wrong.format(form)}", where=described.where)
    known = frozenset(each.name for each in rest)
    return BackwardPass(name, known & KEYWORDS.keys(), known & {OUTPUT, LSE}, described.where)


def _find_misfit(rest: Sequence[Parameter], required: frozenset[str]) -> str:
    """Says what stands against calling a function so, with a gap for the form; else ""."""
    known = frozenset(each.name for each in rest)
    if absent := sorted(required - known):
        return (f"no {' and no '.join(map(repr, absent))}, which a layer's backward pass is "
                "given: {}.")
    needed = [each.name for each in rest
              if each.default is Parameter.empty and each.name not in required]
    if needed:
        return (f"{' and '.join(map(repr, needed))} without a default, so it cannot be called "
                f"without. Give a default: {{}}.")
    unknown = known - KEYWORDS.keys() - {OUTPUT, LSE}
    return next(filter(None, (suggest_parameter(each, known) for each in sorted(unknown))), "")


def can_differentiate(declaration: Declaration) -> bool:
    """Says whether a framework can be asked for gradients of functions declared so."""
    forms = {Kind.ATTENTION: {InputForm.DENSE, InputForm.PACKED}, Kind.LAYER: {InputForm.DENSE}}
    is_fit = declaration.form in forms.get(declaration.kind, ())
    refuses = refuses_gradients(declaration) or takes_no_numbers(declaration)
    return bool(declaration.lift) and is_fit and not refuses


def takes_no_numbers(declaration: Declaration) -> bool:
    """Says whether entries of query, key or value always stand for others, without gradients."""
    return bool(_arrays_without_numbers(declaration.limits))


def _arrays_without_numbers(limits: Limits) -> frozenset[str]:
    """Returns the arrays that are always passed with what their entries stand for."""
    return frozenset(KEYWORDS[name].meaning_of for word in KEYWORDS.values()
                     if word.meaning_of and word.comes_with for name in word.comes_with(limits))


def refuses_gradients(declaration: Declaration) -> bool:
    """Says whether `refuses: [grad_output]` is declared."""
    return any(each.keywords == {GRAD} and not each.conditions
               for each in declaration.limits.refuses)


def inputs_of(problem: Problem, limits: Limits) -> tuple[str, ...]:
    """Returns the inputs that have gradients; entries that stand for others have none."""
    constant = {BIAS} if limits.constant_bias else set()
    standing = {KEYWORDS[name].meaning_of for name in problem.given}
    standing |= _arrays_without_numbers(limits)
    standing |= {past for past, held in zip(CACHED, CACHED_INPUTS, strict=True) if held in standing}
    return tuple(name for name in DIFFERENTIABLE_INPUTS if name not in constant | standing
                 and getattr(problem, name) is not None)


def grad_given(problem: Problem, declaration: Declaration) -> Array:
    """Returns the output's gradient (B,H,T,Dv) as it is passed, in the dtype of the output."""
    assert problem.grad_output is not None
    dtype = numpy_dtype(declaration.returned_dtype(problem.dtype))
    return problem.grad_output.astype(dtype, copy=False)


def call_of_framework(problem: Problem, arrays: Mapping[str, Array],
                      keywords: Mapping[str, object], grad: Array,
                      limits: Limits, *, once: frozenset[str] = frozenset()) -> Call:
    """Makes a call that a framework differentiates: output and gradients come back.  arrays: query
    (B,H,T,D), key and value in the form that the function takes.  grad: (B,H,T,Dv), or as the
    output is.  once: inputs for which an earlier one serves too, so that its gradient is theirs.
    """
    inputs = tuple(name for name in inputs_of(problem, limits) if name not in once)
    parameters = _list_parameters(problem, keywords)
    shapes = (grad.shape, *_list_gradient_shapes(problem, arrays, inputs, parameters))
    names = (*inputs, *parameters)
    return Call(arrays, {**keywords, GRAD: grad}, problem.dtype, shapes,
                (OUTPUT, *map(name_gradient, names)), names)


def call_of_backward(problem: Problem, arrays: Mapping[str, Array], keywords: Mapping[str, object],
                     grad: Array, limits: Limits, *, once: frozenset[str] = frozenset(),
                     kept: Mapping[str, object] = MappingProxyType({})) -> Call:
    """Makes a call of the backward pass: gradients come back.  arrays: query (B,H,T,D) and its
    like.  grad: as the output is.  once: as for a framework.  kept: what it wants of the forward
    pass.
    """
    inputs = tuple(name for name in inputs_of(problem, limits) if name not in once)
    parameters = _list_parameters(problem, keywords)
    given = {name: value for name, value in keywords.items()
             if name != GRAD and KEYWORDS[name].acts is not Acts.ANSWER}
    names = (*inputs, *parameters)
    return Call({**arrays, GRAD: grad}, {**given, **kept}, problem.dtype,
                _list_gradient_shapes(problem, arrays, inputs, parameters),
                tuple(map(name_gradient, names)), names, is_backward=True)


def name_parameter(name: str) -> str:
    """Names a parameter of a layer among the arguments."""
    return f"{PARAMS}.{name}"


def _list_parameters(problem: Problem, keywords: Mapping[str, object]) -> Mapping[str, Array]:
    """Returns, by name, the parameters, w_query (M,H·D) and its like, that have gradients."""
    given = keywords.get(PARAMS)
    if not problem.of_parameters or not isinstance(given, Mapping):
        return {}
    return {name_parameter(name): array for name, array in given.items()}


def _list_gradient_shapes(problem: Problem, arrays: Mapping[str, Array], inputs: tuple[str, ...],
                          parameters: Mapping[str, Array]) -> tuple[tuple[int, ...], ...]:
    """Returns the shapes of gradients, of inputs (B,H,T,D) and then of parameters (M,H·D)."""
    return (*(np.shape(arrays.get(name, getattr(problem, name))) for name in inputs),
            *(np.shape(array) for array in parameters.values()))
