"""What the forms share that frameworks make of a function: how they are asked for and refused."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Sequence, Tuple

COMPILE, EXPORT, ONNX, VMAP, CHECKPOINT = "compile", "export", "onnx", "vmap", "checkpoint"

INPUTS = ("query", "key", "value")


class FrameworkForm(NamedTuple):
    """A form that a framework is to make of a function, such as a compiled one.

    mapped: the names of the arguments that have an entry for each of the batch, along their first
    axis.
    """

    name: str
    mapped: Sequence[str] = ()


class FormNotMade(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """The framework does not make this form. Its words are the cause, or the text."""


class NotReached(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """No gradient flows from the output to any of a layer's parameters."""


def find_argument(given: Mapping[str, Any], name: str) -> Any:
    """An argument, an array of any shape, by its name, as `query` or `params.w_out`."""
    outer, _, inner = name.partition(".")
    if inner:
        return given[outer][inner]
    return given[outer]


def replace_arguments(given: Mapping[str, Any], arrays: Mapping[str, Any]) -> Dict[str, Any]:
    """Arguments of which some, arrays of any shape by name, are others."""
    every = dict(given)
    for name, array in arrays.items():
        outer, _, inner = name.partition(".")
        every[outer] = {**every[outer], inner: array} if inner else array
    return every


def is_parameter(name: str) -> bool:
    """Whether an argument of this name stands in a mapping, as a layer's parameters do."""
    return "." in name


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Inside, what is raised is a refusal."""
    try:
        yield
    except FormNotMade:
        raise
    except Exception as cause:
        raise FormNotMade(str(cause)) from cause


class CallArguments(NamedTuple):
    """The arguments of a call: arrays by name, mappings of arrays among them (the parameters of a
    layer), and the rest, which a framework takes for constants.
    """

    arrays: Dict[str, Any]
    rest: Dict[str, Any]

    @classmethod
    def from_call(cls, inputs: Sequence[Any], keywords: Mapping[str, Any],
                  is_array: Callable[[Any], bool]) -> CallArguments:
        """Parted. inputs: query, key and value."""
        every = {**dict(zip(INPUTS, inputs)), **keywords}
        arrays = {name: value for name, value in every.items() if is_array(value)
                  or isinstance(value, dict)}
        return cls(arrays, {name: value for name, value in every.items() if name not in arrays})

    @property
    def kind(self) -> Tuple[Any, ...]:
        """What calls have in common that share a program, but for the shapes of their arrays."""
        return tuple(self.arrays), repr(sorted(self.rest.items()))


def call_by_name(function: Callable[..., Any], rest: Mapping[str, Any],
                 arrays: Mapping[str, Any]) -> Any:
    """What the function answers to arrays by name, any shape, and the rest of its arguments."""
    every = {**arrays, **rest}
    inputs = [every.pop(name) for name in INPUTS]
    return function(*inputs, **every)


def call_on_entry(function: Callable[..., Any], rest: Mapping[str, Any], mapped: Sequence[str],
                  arrays: Mapping[str, Any]) -> Any:
    """What the function makes of one entry of the batch: arrays without their first axis if they
    are mapped, which is then as long as one.
    """
    alone = {name: value[None] if name in mapped else value for name, value in arrays.items()}
    answer = call_by_name(function, rest, alone)
    if isinstance(answer, (tuple, list)):
        return tuple(each[0] for each in answer)
    return answer[0]


class FormCache:
    """Keeps the forms that were made, so that a framework finds its own by identity."""

    def __init__(self) -> None:
        # with the function, so that no other has its id
        self._made: Dict[Any, Tuple[Any, Callable[..., Any]]] = {}

    def find_form(self, function: Callable[..., Any], form: FrameworkForm,
                  made: Callable[[], Callable[..., Any]]) -> Any:
        """The form of the function, made now where it was not before."""
        key = (id(function), form.name, tuple(form.mapped))
        if key not in self._made:
            self._made[key] = function, made()
        return self._made[key][1]

    def clear(self) -> bool:
        """Let all go; whether there was any."""
        was_any = bool(self._made)
        self._made.clear()
        return was_any
