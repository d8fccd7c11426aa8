"""Defines the forms that attnspec has a framework make, and the errors of a refusal."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Sequence, Tuple

COMPILE, EXPORT, ONNX, VMAP, CHECKPOINT = "compile", "export", "onnx", "vmap", "checkpoint"

INPUTS = ("query", "key", "value")


class FrameworkForm(NamedTuple):
    """A form that attnspec has a framework make, such as a compiled one. mapped: the names of
    the arguments whose first axis is the batch.
    """

    name: str
    mapped: Sequence[str] = ()


class FormNotMade(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """The framework does not make this form. The cause, or the text, has its words."""


class NotReached(Exception):  # noqa: N818  (named for what happened; it is no error of ours)
    """No gradient flows from the output to any parameter of a layer."""


def find_argument(given: Mapping[str, Any], name: str) -> Any:
    """Finds an argument, an array of any shape, by its name: `query` or `params.w_out`."""
    outer, _, inner = name.partition(".")
    if inner:
        return given[outer][inner]
    return given[outer]


def replace_arguments(given: Mapping[str, Any], arrays: Mapping[str, Any]) -> Dict[str, Any]:
    """Replaces some arguments, arrays of any shape, by name."""
    every = dict(given)
    for name, array in arrays.items():
        outer, _, inner = name.partition(".")
        every[outer] = {**every[outer], inner: array} if inner else array
    return every


def is_parameter(name: str) -> bool:
    """Whether an argument of this name is in a mapping, as a layer's parameters are."""
    return "." in name


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turns every exception inside into FormNotMade."""
    try:
        yield
    except FormNotMade:
        raise
    except Exception as cause:
        raise FormNotMade(str(cause)) from cause


class CallArguments(NamedTuple):
    """The arguments of a call: arrays and mappings of arrays, and the rest. A framework takes the
    rest for constants. A layer's parameters are such a mapping.
    """

    arrays: Dict[str, Any]
    rest: Dict[str, Any]

    @classmethod
    def from_call(cls, inputs: Sequence[Any], keywords: Mapping[str, Any],
                  is_array: Callable[[Any], bool]) -> CallArguments:
        """Separates arrays from other arguments. inputs: query, key and value."""
        every = {**dict(zip(INPUTS, inputs)), **keywords}
        arrays = {name: value for name, value in every.items() if is_array(value)
                  or isinstance(value, dict)}
        return cls(arrays, {name: value for name, value in every.items() if name not in arrays})

    @property
    def kind(self) -> Tuple[Any, ...]:
        """Returns what calls that share a program have in common beside shapes."""
        return tuple(self.arrays), repr(sorted(self.rest.items()))


def call_by_name(function: Callable[..., Any], rest: Mapping[str, Any],
                 arrays: Mapping[str, Any]) -> Any:
    """Calls the function with arrays, any shape, by name, and the rest of its arguments."""
    every = {**arrays, **rest}
    inputs = [every.pop(name) for name in INPUTS]
    return function(*inputs, **every)


def call_on_entry(function: Callable[..., Any], rest: Mapping[str, Any], mapped: Sequence[str],
                  arrays: Mapping[str, Any]) -> Any:
    """Calls the function on one entry of the batch. A mapped array comes without its first axis,
    and gets one of length 1.
    """
    alone = {name: value[None] if name in mapped else value for name, value in arrays.items()}
    answer = call_by_name(function, rest, alone)
    if isinstance(answer, (tuple, list)):
        return tuple(each[0] for each in answer)
    return answer[0]


class FormCache:
    """Keeps the forms, so that a framework finds its own by identity."""

    def __init__(self) -> None:
        # with the function, so that no other has its id
        self._forms: Dict[Any, Tuple[Any, Callable[..., Any]]] = {}

    def find_form(self, function: Callable[..., Any], form: FrameworkForm,
                  make: Callable[[], Callable[..., Any]]) -> Any:
        """Returns the form of the function, and makes it if there is none yet."""
        key = (id(function), form.name, tuple(form.mapped))
        if key not in self._forms:
            self._forms[key] = function, make()
        return self._forms[key][1]

    def clear(self) -> bool:
        """Removes all forms, and returns whether there were any."""
        was_any = bool(self._forms)
        self._forms.clear()
        return was_any
