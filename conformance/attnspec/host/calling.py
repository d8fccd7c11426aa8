"""Calls the subject once, and describes what came back or was raised, without judging it.

A backward pass returns a mapping with gradients by the names of inputs and parameters. A decoder's
earlier calls are made first, and each passes its cache on; no cache leaves the process. A return
value of unknown form is described part by part.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import abc
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
)

import numpy as np

from .frames import FLOATS, Entries
from .lifts.making import INPUTS, FormNotMade, FrameworkForm, NotReached, is_parameter, refusing
from .raised import SpeechRecorder, describe_exception, summarise_exception

MAX_PART_DEPTH = 6
MAX_PARTS = 1000  # parts that are told
MAX_SENT_BYTES = 2**18
"""Bytes of all arrays together that are sent; what does not fit is told by its shape."""


def take_apart(returned: Any, lift: Any) -> Tuple[Dict[str, Any], List[Entries]]:
    """Describes a return value part by part, and extracts its arrays, of any shape."""
    parts: List[Dict[str, Any]] = []
    arrays: List[Entries] = []
    room = MAX_SENT_BYTES
    for path, value in itertools.islice(_walk_arrays(returned, ()), MAX_PARTS):
        part: Dict[str, Any] = {"path": list(path), "type": type(value).__name__,
                                "shape": _shape_if_known(value)}
        entries = _read_numbers(value, lift)
        if entries is not None and entries.array.nbytes <= room:
            room -= entries.array.nbytes
            part["array"] = len(arrays)
            arrays.append(entries)
        parts.append(part)
    return {"type": type(returned).__name__, "parts": parts}, arrays


def _walk_arrays(value: Any, path: Tuple[str, ...]) -> Iterator[Tuple[Tuple[str, ...], Any]]:
    """Yields every array, of any shape, with its path."""
    if _has(value, "shape") and _has(value, "dtype"):
        yield path, value
    elif len(path) < MAX_PART_DEPTH:
        for step, part in _list_parts(value):
            yield from _walk_arrays(part, (*path, step))


def _list_parts(value: Any) -> Iterator[Tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from (('["{}"]'.format(name), part) for name, part in value.items())
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((".{}".format(name), getattr(value, name)) for name in value._fields)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((".{}".format(field.name), getattr(value, field.name, None))
                    for field in dataclasses.fields(value))
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        yield from (("[{}]".format(at), part) for at, part in enumerate(value))


def _has(value: Any, name: str) -> bool:
    """Whether the value has the attribute. An attribute that raises another error counts."""
    try:
        return hasattr(value, name)
    except Exception:  # a parameter of PyTorch whose shape nobody knows before the first call
        return True


def _shape_if_known(value: Any) -> Optional[List[int]]:
    """Reads the shape of an array; None where it cannot be read."""
    try:
        return [int(length) for length in value.shape]
    except Exception:  # see above; and what has a `shape` of its own that is none
        return None


def _read_numbers(value: Any, lift: Any) -> Optional[Entries]:
    """Reads an array of floats, of any shape; None for anything else."""
    try:
        entries: Entries = lift.read(value)
        if entries.dtype in FLOATS:
            return Entries(entries.dtype, entries.array.copy())
        return None
    except Exception:  # whatever a framework says to that
        return None


MAX_NAMES = 20
"""Names that are told of a mapping that has others than those that are expected."""


def gradients_in_order(returned: Mapping[Any, Any], wrt: Sequence[str]) -> List[Any]:
    """Orders the gradients, of any shape, as these arguments; None where one is missing. Raises
    NotReached where the arguments include parameters and every gradient of a parameter is missing.
    """
    gradients = {name: returned.get(own_name(name)) for name in wrt}
    of_parameters = [each for name, each in gradients.items() if is_parameter(name)]
    if of_parameters and all(each is None for each in of_parameters):
        raise NotReached
    return list(gradients.values())


def tell_misnamed(returned: Mapping[Any, Any], wrt: Sequence[str],
                  keywords: Mapping[str, Any]) -> str:
    """Lists the names in the mapping if a missing gradient may be among them under another name.

    That is so if a gradient is missing and the mapping has a name that no argument has. The text
    is empty otherwise.
    """
    arrays = {name for name, value in keywords.items() if isinstance(value, Entries)}
    known = arrays.union(INPUTS, map(own_name, wrt),
                         *(value for value in keywords.values() if isinstance(value, dict)))
    names = [name for name, value in returned.items() if value is not None]
    is_whole = all(own_name(name) in names for name in wrt)
    if is_whole or known.issuperset(names):
        return ""
    return "a mapping of {}".format(", ".join(map(str, names[:MAX_NAMES])))


def own_name(name: str) -> str:
    """Returns the name of an argument in the mapping: `w_out` for `params.w_out`."""
    return name.rpartition(".")[2]


CACHE_KEYWORD = "cache"
"""The keyword of a decoder's cache. Over the wire it tells the calls before (docs/protocol.md)."""

SplitAnswer = Callable[[Any], Tuple[Any, Any]]


def bind_cache(function: Callable[..., Any], calls: Mapping[str, Any],
               split: SplitAnswer) -> Callable[..., Any]:
    """Makes a decoder's earlier calls, and returns its last call as a function without a cache.
    parted: splits what the decoder returns into the answer and the cache.
    """
    caches: Dict[str, Any] = {"": None}
    for each in calls["earlier"].values():
        answer = function(*each["inputs"].values(), **each["keywords"],
                          **{CACHE_KEYWORD: caches[each["takes"]]})
        caches[each["makes"]] = split(answer)[1]

    def last(*inputs: Any, **keywords: Any) -> Any:
        """Passes query (B,H,T,D) or (B,T,M), key and value; returns all but the cache."""
        return split(function(*inputs, **keywords, **{CACHE_KEYWORD: caches[calls["takes"]]}))[0]

    return last


# where an output does not depend on its inputs in a way that can be differentiated
NO_GRADIENT = "no gradient"
NOT_REACHED = "not reached"  # where no gradient flows to any of the parameters of a layer
NOT_MADE = "not made"  # where a framework refuses the form of the function that is asked for
# of two that come back, the judge knows the second
ANSWER_NAMES = ("the output", "the weights", "the log-sum-exp")

Shape = Tuple[int, ...]


class Arguments(NamedTuple):
    """The arguments of a call: arrays by position, and keywords, which may hold arrays too.

    dtype: of the problem.
    shapes: of the expected results, one for the output alone, two for the pair; none where the
    results are unknown and are described part by part.
    rows: asks for gradients of the sum of these rows of the output, (T,) bool; None: no such
    gradients.
    wrt: the names of the arguments with respect to which gradients come back, behind the output.
    is_backward: whether the function is a backward pass, which returns only gradients, in a
    mapping.
    form: what the framework makes of the function first; None: nothing.
    """

    inputs: Sequence[Entries]
    keywords: Mapping[str, Any]
    dtype: str
    shapes: Sequence[Shape]
    rows: Any = None
    wrt: Sequence[str] = ()
    is_backward: bool = False
    form: Optional[FrameworkForm] = None


class CallEnding(NamedTuple):
    """Says how a call ended.

    how: answered, raised or unusable.

    results: copies of the output, (B,H,T,Dv) or (B,T,M), and of weights and log-sum-exp, if they
    were asked for.
    own: the same in the subject's own memory.
    gradients: in the shapes of the inputs.
    aliases: the places of the arguments' arrays with which a result shares memory.
    details: of an exception, of an unusable result, and of a result that is described part by
    part.
    stderr: what was printed during the call.
    """

    how: str
    results: Sequence[Entries] = ()
    own: Sequence[Entries] = ()
    gradients: Sequence[Any] = ()
    has_gradients: bool = False
    aliases: Sequence[int] = ()
    details: Mapping[str, Any] = {}
    stderr: str = ""


class _Unusable(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    def __init__(self, named: str, name: str, at: int, reading: str = "", *,
                 is_array: bool = False) -> None:
        super().__init__(named)
        self.details = {"named": named, "name": name, "at": at, "reading": reading,
                        "is_array": is_array}


def perform(function: Any, lift: Any, given: Arguments, *,
            caught: Tuple[Type[BaseException], ...] = (BaseException,),
            is_sent: bool = False) -> CallEnding:
    """Calls the function, and returns how the call ended.

    caught: the exceptions that count as an end of the call.  is_sent: whether the results are sent
    at once; then only those are copied that are not contiguous.
    """
    arrays = arrays_of(given)
    with lift.context_for(given.dtype), SpeechRecorder() as spoken:
        try:
            form, results, gradients = _call_function(function, lift, given, arrays)
        except _Unusable as unusable:
            ending = CallEnding("unusable", details=unusable.details)
        except NotReached:
            ending = CallEnding("unusable",
                                details={"named": "", "name": NOT_REACHED, "at": 0, "reading": ""})
        except FormNotMade as refused:
            words = summarise_exception(refused.__cause__) if refused.__cause__ else str(refused)
            ending = CallEnding("unusable",
                                details={"named": words, "name": NOT_MADE, "at": 0, "reading": ""})
        except caught as raised:
            ending = CallEnding("raised", details=describe_exception(raised))
        else:
            copies = [each if is_sent and each.array.flags.c_contiguous
                      else Entries(each.dtype, each.array.copy()) for each in results]
            ending = CallEnding("answered", copies, results, gradients, bool(gradients),
                                _aliases(arrays, results), form)
    if spoken.text:
        return ending._replace(stderr=spoken.text)
    return ending


def _call_function(function: Any, lift: Any, given: Arguments, arrays: Sequence[Entries]) -> Tuple[
    Dict[str, Any], Sequence[Entries], Sequence[Any]]:
    """Returns the form of unknown parts, the results, and the gradients of rows. Any shape."""
    handed = _hand_over_arrays(lift, arrays)
    inputs = [handed[id(each.array)] for each in given.inputs]
    keywords = {name: _lift_keyword(value, handed) for name, value in given.keywords.items()}
    if CACHE_KEYWORD in keywords:
        function = bind_cache(function, keywords.pop(CACHE_KEYWORD), _split_cache)
    form: Dict[str, Any] = {}
    pulled: List[Any] = []
    if given.form is not None:
        results = _call_form(lift.make_form(function, given.form), lift, given, inputs, keywords)
    elif given.wrt:
        results = _call_for_gradients(function, lift, given, inputs, keywords)
    else:
        returned = _call_and_wait(function, lift, inputs, keywords, rows=given.rows, pulled=pulled)
        if given.shapes:
            results = _read_answer(returned, given.shapes, lift)
        else:
            form, results = take_apart(returned, lift)
    for each in arrays:
        lift.give_back(handed[id(each.array)], each)
    if pulled and pulled[0]:
        return form, results, pulled[0]
    return form, results, ()


def _hand_over_arrays(lift: Any, arrays: Sequence[Entries]) -> Dict[int, Any]:
    """Makes the framework's array for each array, of any shape, by the array's id. An array that
    occurs twice becomes one object.
    """
    handed: Dict[int, Any] = {}
    for each in arrays:
        if id(each.array) not in handed:
            handed[id(each.array)] = lift.hand(each)
    return handed


def arrays_of(given: Arguments) -> List[Entries]:
    """Lists every array, of any shape, among the arguments."""
    return list(given.inputs) + [each for value in given.keywords.values()
                                 for each in _arrays_within(value)]


def _arrays_within(value: Any) -> List[Entries]:
    """Lists the arrays, of any shape, in a keyword's value."""
    if isinstance(value, Entries):
        return [value]
    if isinstance(value, dict):
        return [each for inner in value.values() for each in _arrays_within(inner)]
    return []


def _lift_keyword(value: Any, handed: Mapping[int, Any]) -> Any:
    if isinstance(value, Entries):
        return handed[id(value.array)]
    if isinstance(value, dict):
        return {name: _lift_keyword(inner, handed) for name, inner in value.items()}
    return value


def _call_and_wait(function: Any, lift: Any, inputs: Sequence[Any], keywords: Mapping[str, Any], *,
                   rows: Any, pulled: List[Any]) -> Any:
    """Calls the function and waits for the computation, whose errors are the call's."""
    if rows is None:
        returned = function(*inputs, **keywords)
    else:
        returned, gradients = lift.gradients(lambda *given: function(*given, **keywords), inputs,
                                             rows)
        pulled.append(gradients)
    lift.wait(returned)
    return returned


def _split_cache(returned: Any) -> Tuple[Any, Any]:
    """Splits a decoder's answer into the results and the cache, which is its last element.

    The results are the output, (B,H,T,Dv) or (B,T,M), alone or in a tuple with whatever else was
    asked for. Raises _Unusable.
    """
    if not isinstance(returned, (tuple, list)) or len(returned) < 2:
        raise _Unusable(describe_returned(returned), "the cache", 0)
    *results, cache = returned
    if len(results) == 1:
        return results[0], cache
    return tuple(results), cache


def _call_form(function: Any, lift: Any, given: Arguments, inputs: Sequence[Any],
               keywords: Mapping[str, Any]) -> List[Entries]:
    """Calls a form, and reads results of the expected shapes. Errors of gradients are refusals."""
    if not given.wrt:
        return _read_answer(_call_and_wait(function, lift, inputs, keywords, rows=None, pulled=[]),
                            given.shapes, lift)
    with refusing():
        return _call_for_gradients(function, lift, given, inputs, keywords)


def _call_for_gradients(function: Any, lift: Any, given: Arguments, inputs: Sequence[Any],
                        keywords: Mapping[str, Any]) -> List[Entries]:
    """Returns output and gradients, (B,H,T,D) of the query; for a backward pass gradients only."""
    names: Tuple[str, ...] = ()
    if given.is_backward:
        returned = function(*inputs, **keywords)
        lift.wait(list(returned.values()) if isinstance(returned, abc.Mapping) else returned)
        found = _order_backward_gradients(returned, given)
    else:
        output, gradients = lift.differentiate(function, inputs, keywords, given.wrt)
        if gradients is None:
            raise _Unusable(describe_returned(output), NO_GRADIENT, 0)
        lift.wait(gradients)
        found, names = [output, *gradients], ANSWER_NAMES[:1]
    every = (*names, *("the gradient of the {}".format(name) for name in given.wrt))
    return [_read_entries(value, name, at, shape, lift) for at, (value, name, shape)
            in enumerate(zip(found, every, given.shapes))]


def _order_backward_gradients(returned: Any, given: Arguments) -> List[Any]:
    """Orders the gradients of a backward pass as `wrt` does. Raises _Unusable."""
    told = describe_returned(returned)
    if isinstance(returned, abc.Mapping):
        told = tell_misnamed(returned, given.wrt, given.keywords)
    if told:
        raise _Unusable(told, "the mapping", 0)
    return gradients_in_order(returned, given.wrt)


def _read_answer(returned: Any, shapes: Sequence[Shape], lift: Any) -> List[Entries]:
    """Reads the output, (B,H,T,Dv) or (B,T,M), and whatever was asked for beside it. That may be
    the weights, (B,H,T,S) or (B,T,S), the log-sum-exp, (B,H,T), or both.
    """
    if len(shapes) == 1:
        return [_read_entries(returned, ANSWER_NAMES[0], 0, shapes[0], lift)]
    if not isinstance(returned, (tuple, list)) or len(returned) != len(shapes):
        raise _Unusable(describe_returned(returned), "the pair", 0)
    return [_read_entries(value, name, at, shape, lift) for at, (value, name, shape)
            in enumerate(zip(returned, ANSWER_NAMES, shapes))]


def _read_entries(value: Any, name: str, at: int, shape: Shape, lift: Any) -> Entries:
    """Reads a result as floating-point numbers of this shape, any shape. Raises _Unusable."""
    if value is None or isinstance(value, (tuple, dict, str, bytes)):
        raise _Unusable(describe_returned(value), name, at)
    try:
        entries: Entries = lift.read(value)
    except BaseException as cause:
        raise _Unusable(describe_returned(value), name, at, summarise_exception(cause)) from None
    if entries.dtype not in FLOATS or entries.array.shape != tuple(shape):
        raise _Unusable(describe_returned(value, entries), name, at, is_array=True)
    return entries


def describe_returned(value: Any, entries: Any = None) -> str:
    """Describes a return value in words; an array, of any shape, by shape and dtype."""
    if value is None:
        return "None"
    if isinstance(value, (tuple, list)) and entries is None:
        return "a {} of {}".format(type(value).__name__, len(value))
    kind = type(value).__name__
    told = "{} {}".format("an" if kind[:1].lower() in "aeiou" else "a", kind)
    if entries is None:
        return told
    return "{} of shape {} and dtype {}".format(told, entries.array.shape, entries.dtype)


def _aliases(arrays: Sequence[Entries], results: Sequence[Entries]) -> List[int]:
    return [at for at, each in enumerate(arrays)
            if any(_share(each.array, result.array) for result in results)]


def _share(first: Any, second: Any) -> bool:
    """Whether two arrays, of any shape, share memory; True where NumPy cannot decide it."""
    # only the bounds are compared: cheap, and almost always enough
    if not np.may_share_memory(first, second):
        return False
    try:
        return bool(np.shares_memory(first, second, max_work=10_000))  # type: ignore[arg-type]  # any int is meant
    except Exception:  # TooHardError stands in another place in every NumPy
        return True
