"""One call of an implementation: what is given, and what came of it; and a backward pass that stands beside a function.

Of a backward pass: how it is called, and what the two are asked for together.
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
"""From a tree to a part of it: `["name"]`, `[0]` or `.name` a step."""


@dataclass(frozen=True, slots=True, eq=False)
class ReturnedArray:
    """An array in the tree that a call returned. shape: None where nobody knows.  array: its numbers, of any shape;
    None where it holds none of floating point, or too many.
    """

    path: ValuePath
    type_name: str
    shape: tuple[int, ...] | None
    array: Array | None


@dataclass(frozen=True, slots=True, eq=False)
class ReturnedTree:
    """The tree that a call returned: its type, and its arrays. What is neither an array nor holds any is left out."""

    type_name: str
    parts: tuple[ReturnedArray, ...]


def read_tree(told: Mapping[str, Any], found: Sequence[Entries]) -> ReturnedTree:
    """Reads the tree that a host tells of. Raises what reading something else may raise."""
    return ReturnedTree(str(told["type"]), tuple(_read_part(each, found) for each in told["parts"]))


def _read_part(told: Mapping[str, Any], found: Sequence[Entries]) -> ReturnedArray:
    shape = None if told["shape"] is None else tuple(map(int, told["shape"]))
    array = array_of(found[int(told["array"])]) if "array" in told else None
    return ReturnedArray(tuple(map(str, told["path"])), str(told["type"]), shape, array)


PAIR = 2
UNREACHED = ("the gradients of its parameters cannot be asked for: none flows to those that it is handed, as where a "
             "module is filled by copying")
UNRETURNED = "its backward pass returns no gradients of parameters"


class SubjectRaised(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """The implementation raised. `traceback` shows its own frames only; `summary` is the exception's last line.

    classes: the names of the exception's class and of those that it comes from.  statement: the line that raised it.
    is_stated: whether that is a `raise` or an `assert` in the code of a module, and no call of compiled code.
    asked: the problem that was put, where that is known.  module: the name of the module that raised it.
    place: the line of that.  act: what that line did, as `host.raised` tells it.  own_place: the line of the function's
    own code in which it happened.
    """

    def __init__(self, summary: str, traceback: str, stderr: str = "", *,
                 classes: frozenset[str] = frozenset(),
                 statement: str = "", is_stated: bool = False, module: str = "",
                 place: FileLocation | None = None,
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
        """`IndexError in mine.py:41`: the exception, and the line of the function's own code where that is known."""
        name = self.summary.partition(":")[0]
        return f"{name} in {self.own_place}" if self.own_place else name

    @property
    def says_why(self) -> bool:
        """Whether a reader learns what is wrong: by a message, or by the condition of an `assert` in the code."""
        return not self.is_mute or (self.is_stated and self.statement.startswith("assert "))

    @property
    def is_mute(self) -> bool:
        """Whether the exception has no message, its type alone."""
        return ": " not in self.summary

    @property
    def gist(self) -> str:
        """What the summary has in common with the same refusal of other shapes."""
        return find_gist(self.summary)


def find_gist(words: str) -> str:
    """The words of an exception without numbers."""
    return re.sub(r"\d+", "", words)


class SubjectDied(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """The implementation's process ended during the call: `verdict` is CRASHED, or TIMED_OUT where it was ended.

    traceback: where its threads stood.  stderr: the end of what it printed.
    """

    def __init__(self, death: ProcessDeath) -> None:
        super().__init__(death.reason)
        self.verdict: Verdict = death.verdict
        self.traceback = portable_text(death.traceback)
        self.stderr = portable_text(death.printed)


class UnusableAnswer(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """What came back is no floating-point array of the right shape. `sentence` says what it is and what is expected.

    no_array: what stands where the output is due ("a tuple of 2"), if that is no array at all.
    """

    def __init__(self, sentence: str, no_array: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.no_array = no_array


@dataclass(frozen=True, slots=True, eq=False)
class SubjectAnswer:
    """What a subject made of a problem.

    output (B,H,T,Dv), of a layer (B,T,M); weights (B,H,T,S), or (B,T,S) of a subject that averages them, or None where
    they were not asked for; both in the dtype that came back, and the holder's own.
    mutated: the inputs that the call changed.  aliases: the inputs whose memory an output shares.
    stderr: what the subject printed there, and its warnings.
    is_kept: whether the subject's own memory of the output still holds what it held: one that uses a buffer again
    changes it with a later call. True where that memory was let go meanwhile.
    lse: the log-sum-exp (B,H,T), where it was asked for.
    gradients: with respect to the inputs, in their shapes, where they were asked for and there are some.
    by_input: the same by the names of the inputs, in the dtype that came back, where an output's gradient was given.
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
    """The output requires no gradient: there is nothing to judge."""


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of a call, and the shapes of what should come back, which `names` names.

    Arrays may also stand in a mapping (`params`). `shapes` has one entry for the output alone, two for the pair; none
    where nobody knows yet what comes back. wrt: the inputs with respect to which gradients come back, too; of a
    backward pass (is_backward) nothing else does. form: what the framework is to make of the function first.
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
        """Every array among the arguments, of any shape, by its name (`params.w_out`)."""
        return dict(_flatten_arrays({**self.arrays, **self.keywords}))

    @cached_property
    def most_bytes(self) -> int:
        """The bytes that an answer of these shapes may take, gradients and the arguments themselves besides."""
        results = sum(8 * math.prod(shape) for shape in self.shapes) if self.shapes else MAX_SENT_BYTES
        return results + sum(2 * _span(array) + 8 * array.size for array in self.named_arrays.values())

    def arguments(self, kept: Mapping[int, Entries], rows: Array | None = None) -> Arguments:
        """What the host's code is given: entries by the id of the array (any shape) that they stand for; rows (T,)."""
        keywords = {name: _keyword_value(value, kept) for name, value in self.keywords.items()}
        inputs = [kept[id(each)] for each in self.arrays.values()]
        return Arguments(inputs, keywords, self.dtype.value, self.shapes, rows, self.wrt,
                         self.is_backward,
                         self.form)


def _flatten_arrays(arguments: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Array]]:
    """Every array, of any shape, among arguments and in mappings among them, by its dotted name."""
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            yield prefix + name, value
        elif isinstance(value, Mapping):
            yield from _flatten_arrays(value, f"{prefix}{name}.")


def _keyword_value(value: object, kept: Mapping[int, Entries]) -> object:
    """A keyword's value with entries in the place of arrays of any shape."""
    if isinstance(value, np.ndarray):
        return kept[id(value)]
    if isinstance(value, Mapping):
        return {name: _keyword_value(inner, kept) for name, inner in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _span(array: Array) -> int:
    """Bytes from the lowest to the highest of an array of any shape, as it travels."""
    if array.flags.c_contiguous:
        return array.nbytes
    low, high = bounds(array.shape, array.strides)
    return high - low + array.itemsize


def entries_of(array: Array) -> Entries:
    """An array of any shape as the host's code has it: what NumPy has no dtype for by its bits."""
    name = _name_dtype(array.dtype)
    return Entries(name, array.view(BIT_DTYPES[name]) if name in BIT_DTYPES else array)


@cache
def _name_dtype(dtype: np.dtype[Any]) -> str:
    return str(dtype.name)  # NumPy puts it together each time


def array_of(entries: Entries) -> Array:
    """The array of any shape that entries stand for."""
    array: Array = entries.array
    return array.view(numpy_dtype(DType(entries.dtype))) if entries.dtype in BIT_DTYPES else array


def private_copy(array: Array) -> Array:
    """A writable copy, of any shape, with the same strides, so that a strided or broadcast input stays one."""
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
    """What a call that has ended comes to. `changed`: the ids of the arrays given, of any shape, that it changed.
    now: what the subject's memory of the output (B,H,T,Dv) or (B,T,M) holds when asked; None where it was let go.

    Raises SubjectRaised, UnusableAnswer, NotDifferentiated or FormNotMade.
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
        raise UnusableAnswer(_describe_unusable(ended.details, call), _name_no_array(ended.details, call))
    named = call.named_arrays
    mutated = tuple(name for name, array in named.items() if id(array) in changed) if changed else ()
    shared = {id(list(named.values())[at]) for at in ended.aliases}
    aliases = tuple(name for name, array in named.items() if id(array) in shared) if shared else ()
    results = [array_of(each) for each in ended.results]
    gradients = tuple(ended.gradients) if ended.has_gradients else None

    def is_kept() -> bool:
        held = now()
        return held is None or held.tobytes() == results[0].tobytes()

    said = portable_text(ended.stderr) if ended.stderr else ""
    found = dict(zip(call.names, results, strict=False))  # an output alone has one name of two
    by_input = {name: found[name_gradient(name)] for name in call.wrt}
    return SubjectAnswer(found.get("output", results[0]), found.get("weights"), mutated, aliases,
                         said, is_kept,
                         gradients, found.get("lse"), by_input)


def name_gradient(name: str) -> str:
    """What the gradient of an input, or of one of a layer's parameters, is called among what comes back."""
    mapping, _, own = name.rpartition(".")
    return f"gradient of {own}" if mapping else f"gradient of the {own}"


def read_raised(told: Mapping[str, Any], said: str) -> SubjectRaised:
    """The exception in the words of the process that it was raised in."""
    module, file, line = map(str, told.get("by") or ("", "", 0))
    statement = str(told["statement"])
    # a host that was written by others need not say how it was raised; its statement tells nearly always
    is_stated = bool(told.get("is_stated", statement.startswith(("raise", "assert"))))
    return SubjectRaised(portable_text(str(told["summary"])),
                         portable_text(str(told["traceback"])),
                         portable_text(said),
                         classes=frozenset(map(str, told["classes"])), statement=statement,
                         is_stated=is_stated,
                         module=module, place=_format_place(file, int(line)),
                         own_place=_format_place(*told.get("at", ("", 0))),
                         act=str(told.get("act") or ""))


def _format_place(file: str, line: int) -> FileLocation | None:
    return FileLocation(shown_path(Path(file)), line) if file else None


def _describe_unusable(told: Mapping[str, Any], call: Call) -> str:
    """What came back where an array, of any shape, is due, and what is expected."""
    if told["name"] == "the mapping":
        own = [own_name(name) for name in call.wrt]
        kinds = "inputs" if own == list(call.wrt) else "inputs and parameters"
        return (f"The backward pass returned {told['named']} where a mapping from the names of the {kinds} "
                f"({', '.join(own)}) to their gradients is expected.")
    if told["name"] == "the pair":
        kind = "pair" if len(call.names) == PAIR else "triple"
        return f"The subject returned {told['named']} where the {kind} ({', '.join(call.names)}) is expected."
    if told["name"] == "the cache":
        due = ", ".join((*call.names[:len(call.shapes)], "cache"))
        return f"The subject returned {told['named']} where ({due}) is expected: a decoder hands its cache back."
    name, shape = call.names[told["at"]], call.shapes[told["at"]]
    expected = f"where the {name} should be: an array of shape {shape} in float64, float32, float16 or bfloat16"
    reading = f"; NumPy cannot read it: {told['reading']}" if told["reading"] else ""
    return f"The subject returned {told['named']} {expected}{reading}."


def _name_no_array(told: Mapping[str, Any], call: Call) -> str:
    """What came back where the output, of any shape, is due, if it is no array. A host need not say whether it is."""
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
    """name: of the function.  keywords: of attention, those that it takes, too.  wants: `output`, `lse`, as far as it
    has parameters for them.  where: its place; None where nobody knows it.
    """

    name: str
    keywords: frozenset[str]
    wants: frozenset[str] = frozenset()
    where: FileLocation | None = None

    def why_no_gradients(self, problem: Problem, limits: Limits) -> str:
        """Why the backward pass cannot be asked for gradients of a problem; empty if it can. A mask may travel as a
        bias.
        """
        needed = {BIAS if name == "mask" and limits.bias_is_mask else name
                  for name in problem.given if name != GRAD and KEYWORDS[name].acts is not Acts.ANSWER}
        missing = sorted(needed - self.keywords)
        return f"{self.name} takes no {' and no '.join(missing)}" if missing else ""

    def as_taken(self, call: Call) -> Call:
        """The call without flags that are off and that it has no parameter for."""
        given = {name: value for name, value in call.keywords.items() if value is not False or name in self.keywords}
        return replace(call, keywords=given)

    def kept_arrays(self, forward: SubjectAnswer) -> Mapping[str, Array]:
        """The arrays of the forward pass that the backward pass wants: the output, (B,H,T,Dv) or (B,T,M), the
        log-sum-exp (B,H,T).
        """
        found = {OUTPUT: forward.output, LSE: forward.lse}
        return {name: array for name, array in found.items() if array is not None and name in self.wants}

    def unusable(self, sentence: str) -> UnusableAnswer:
        """Says what came of a backward pass, in a sentence, with the place where it is to be mended."""
        return UnusableAnswer(f"{sentence} See {self.name} in {self.where}." if self.where else sentence)


def backward_of(described: FunctionDescription | None, name: str, kind: Kind, *,
                is_named: bool = False) -> BackwardPass | None:
    """What is known of a function that stands beside another, of this kind, by the name of a backward pass; None where
    it is none: it has no parameter `grad_output`. is_named: whether a manifest says that it is one.

    Raises TargetError with file and line where it cannot be called as one.
    """
    if described is None or GRAD not in {each.name for each in described.parameters or ()}:
        if is_named and described is not None:
            raise TargetError(f"the manifest names {name} as a backward pass, but it has no parameter {GRAD!r}: "
                              f"{_FORMS[kind is Kind.LAYER]}.", where=described.where)
        return None
    parameters, form = list(described.parameters or ()), _FORMS[kind is Kind.LAYER]
    inputs, rest = parameters[:len(_GIVEN)], [each for each in parameters[len(_GIVEN):] if each.kind not in _STARS]
    if any(each.kind not in _POSITIONAL for each in inputs) or [each.name for each in inputs][-1] != GRAD:
        raise TargetError(f"{name} takes ({', '.join(map(str, parameters))}); the first four should be query, key, "
                          f"value and grad_output, given by position: {form}.",
                          where=described.where)
    if wrong := _find_misfit(rest, frozenset(word.name for word in KEYWORDS.values() if kind in word.required)):
        raise TargetError(f"{name} takes {wrong.format(form)}", where=described.where)
    known = frozenset(each.name for each in rest)
    return BackwardPass(name, known & KEYWORDS.keys(), known & {OUTPUT, LSE}, described.where)


def _find_misfit(rest: Sequence[Parameter], required: frozenset[str]) -> str:
    """What stands against calling a function with these parameters behind the first four, with a gap for the form that
    is expected; empty if nothing does. required: what is given in every call.
    """
    known = frozenset(each.name for each in rest)
    if absent := sorted(required - known):
        return f"no {' and no '.join(map(repr, absent))}, which a layer's backward pass is given: {{}}."
    needed = [each.name for each in rest if each.default is Parameter.empty and each.name not in required]
    if needed:
        return (f"{' and '.join(map(repr, needed))} without a default, so it cannot be called without. Give a default: "
                "{}.")
    unknown = known - KEYWORDS.keys() - {OUTPUT, LSE}
    return next(filter(None, (suggest_parameter(each, known) for each in sorted(unknown))), "")


def can_differentiate(declaration: Declaration) -> bool:
    """Whether a framework can be asked for gradients of functions that are declared so."""
    forms = {Kind.ATTENTION: {InputForm.DENSE, InputForm.PACKED}, Kind.LAYER: {InputForm.DENSE}}
    is_fit = declaration.form in forms.get(declaration.kind, ())
    refuses = refuses_gradients(declaration) or takes_no_numbers(declaration)
    return bool(declaration.lift) and is_fit and not refuses


def takes_no_numbers(declaration: Declaration) -> bool:
    """Whether entries of query, key or value always stand for others. No framework differentiates with respect to
    these.
    """
    return bool(_arrays_without_numbers(declaration.limits))


def _arrays_without_numbers(limits: Limits) -> frozenset[str]:
    """The arrays that a subject with these limits takes together with what their entries stand for alone."""
    return frozenset(KEYWORDS[name].meaning_of for word in KEYWORDS.values() if word.meaning_of and word.comes_with
                     for name in word.comes_with(limits))


def refuses_gradients(declaration: Declaration) -> bool:
    """Whether the declaration says that no gradients can be had: `refuses: [grad_output]`."""
    return any(each.keywords == {GRAD} and not each.conditions for each in declaration.limits.refuses)


def inputs_of(problem: Problem, limits: Limits) -> tuple[str, ...]:
    """The names of the inputs with respect to which a problem has gradients: of entries that stand for others there are
    none, since what these pass back is a convention.
    """
    constant = {BIAS} if limits.constant_bias else set()
    standing = {KEYWORDS[name].meaning_of for name in problem.given} | _arrays_without_numbers(limits)
    standing |= {past for past, held in zip(CACHED, CACHED_INPUTS, strict=True) if held in standing}
    return tuple(name for name in DIFFERENTIABLE_INPUTS
                 if name not in constant and name not in standing and getattr(problem, name) is not None)


def grad_given(problem: Problem, declaration: Declaration) -> Array:
    """The output's gradient, (B,H,T,Dv), as it is handed over, in the dtype that the output should have, as it lies."""
    assert problem.grad_output is not None
    return problem.grad_output.astype(numpy_dtype(declaration.returned_dtype(problem.dtype)), copy=False)


def call_of_framework(problem: Problem, arrays: Mapping[str, Array],
                      keywords: Mapping[str, object], grad: Array,
                      limits: Limits, *, once: frozenset[str] = frozenset()) -> Call:
    """A call that a framework differentiates: output and gradients come back.

    arrays: query (B,H,T,D), key and value in the form that the function takes.  grad: (B,H,T,Dv), or as the output is.
    once: inputs for which one before them serves, too, so that its gradient is theirs.
    """
    inputs = tuple(name for name in inputs_of(problem, limits) if name not in once)
    parameters = _list_parameters(problem, keywords)
    shapes = (grad.shape, *_list_gradient_shapes(problem, arrays, inputs, parameters))
    names = (*inputs, *parameters)
    return Call(arrays, {**keywords, GRAD: grad}, problem.dtype, shapes,
                (OUTPUT, *map(name_gradient, names)), names)


def call_of_backward(problem: Problem, arrays: Mapping[str, Array],
                     keywords: Mapping[str, object], grad: Array,
                     limits: Limits, *, once: frozenset[str] = frozenset(),
                     kept: Mapping[str, object] = MappingProxyType({})) -> Call:
    """A call of the backward pass: gradients come back. arrays: query (B,H,T,D) and its like.  grad: as the output is.
    once: as of a framework.  kept: what it wants of the forward pass.
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
    """What a parameter of a layer is called among the arguments."""
    return f"{PARAMS}.{name}"


def _list_parameters(problem: Problem, keywords: Mapping[str, object]) -> Mapping[str, Array]:
    """By their names among the arguments, the parameters, w_query (M,H·D) and its like, that have gradients here."""
    given = keywords.get(PARAMS) if problem.of_parameters else None
    return {name_parameter(name): array for name, array in given.items()} if isinstance(given, Mapping) else {}


def _list_gradient_shapes(problem: Problem, arrays: Mapping[str, Array], inputs: tuple[str, ...],
                          parameters: Mapping[str, Array]) -> tuple[tuple[int, ...], ...]:
    """Those of the gradients of inputs, query (B,H,T,D) as the function takes it, and parameters, w_query (M,H·D)."""
    return (*(np.shape(arrays.get(name, getattr(problem, name))) for name in inputs),
            *(np.shape(array) for array in parameters.values()))
