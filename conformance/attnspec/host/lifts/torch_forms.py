"""The forms that PyTorch makes of a function: compiled, exported, as ONNX, mapped over the batch, recomputed.

What is traced is traced on other numbers than it is asked about, so that what a trace has captured shows.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Mapping, Tuple

import torch

from .making import (
    CHECKPOINT,
    COMPILE,
    EXPORT,
    ONNX,
    VMAP,
    FormNotMade,
    FrameworkForm,
    Given,
    Kept,
    called,
    of_entry,
    refusing,
)

MOST_PROGRAMS = 256
"""How often one function may be compiled anew: beyond PyTorch's own limit it runs as it is, and nothing is judged."""

_LIMITS = ("recompile_limit", "cache_size_limit")  # as new versions call it, and older ones

Program = Callable[[Mapping[str, Any]], Any]

KEPT = Kept()


def formed(function: Callable[..., Any], form: FrameworkForm) -> Callable[..., Any]:
    """The function in this form, with the same arguments: tensors (B,H,T,D). Raises FormNotMade where there is none."""
    made: Callable[..., Any] = KEPT.of(function, form, lambda: _FORMS[form.name](function, form))
    return made


def forget() -> None:
    """Let all go that was made, and what the compiler keeps of it."""
    if KEPT.clear():
        with contextlib.suppress(Exception):  # whatever a compiler that failed has left behind
            importlib.import_module("torch._dynamo").reset()


class _TorchForm:
    """A function in one of the forms that PyTorch makes of it.

    Programs are made by their arguments' shapes, of other numbers.
    """

    def __init__(self, function: Callable[..., Any], form: FrameworkForm) -> None:
        self.function, self.form = function, form
        self._programs: Dict[Any, Program] = {}

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """What the form answers to tensors (B,H,T,D) and keywords. Raises FormNotMade."""
        given = Given.of(inputs, keywords, _is_tensor)
        key = (*given.kind, _signature(given.arrays))
        if key not in self._programs:
            with refusing(), _quietly():
                self._programs[key] = self.made(given._replace(arrays=self._others(given)))
        return self._programs[key](given.arrays)

    def made(self, given: Given) -> Program:
        """The program for arguments of these shapes."""
        raise NotImplementedError

    def _others(self, given: Given) -> Dict[str, Any]:
        """Tensors of the same shapes, any, with other numbers, if the function takes them: it may check its input."""
        try:
            called(self.function, given.rest, _rolled(given.arrays))
        except Exception:  # whatever a function says to arguments that it does not like
            return given.arrays
        return _rolled(given.arrays)


class _Compiled(_TorchForm):
    """By `torch.compile`: one compiled function for all shapes, which becomes general as they come, as for a user."""

    def __init__(self, function: Callable[..., Any], form: FrameworkForm) -> None:
        super().__init__(function, form)
        self._compiled = torch.compile(function)

    def made(self, given: Given) -> Program:
        """Compiled now, the backward pass, too, where gradients are wanted."""
        program = partial(_unlimited, partial(called, self._compiled, given.rest))
        _pull(program(given.arrays), given.arrays)
        return program


class _Exported(_TorchForm):
    """By `torch.export`: a graph of the function for these shapes."""

    def made(self, given: Given) -> Program:
        """The graph as a module."""
        module = torch.export.export(_Module(self.function, given.rest), (given.arrays,)).module()
        return lambda arrays: module(dict(arrays))


class _Onnx(_TorchForm):
    """By `torch.onnx.export`, run by ONNX Runtime on the CPU."""

    def made(self, given: Given) -> Program:
        """A session of the exported model, which takes the tensors in their order."""
        runtime = _onnxruntime()
        graph = torch.export.export(_Module(self.function, given.rest), (given.arrays,))
        model = torch.onnx.export(graph, (), dynamo=True, verbose=False)
        session = runtime.InferenceSession(model.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]

        def run(arrays: Mapping[str, Any]) -> Any:
            given = (each.detach().cpu().numpy() for each in _leaves(arrays))
            found = [torch.from_numpy(each) for each in session.run(None, dict(zip(names, given)))]
            return found[0] if len(found) == 1 else tuple(found)

        run(given.arrays)
        return run


class _Mapped(_TorchForm):
    """By `torch.func.vmap`, over the batch."""

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """What the mapped function answers to tensors (B,H,T,D). Raises FormNotMade."""
        given = Given.of(inputs, keywords, _is_tensor)
        axes = {name: 0 if name in self.form.mapped else None for name in given.arrays}
        with refusing(), _quietly():
            entry = partial(of_entry, self.function, given.rest, self.form.mapped)
            return importlib.import_module("torch.func").vmap(entry, in_dims=(axes,))(given.arrays)


class _Recomputed(_TorchForm):
    """By `torch.utils.checkpoint`: nothing is kept for the backward pass."""

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """What the function answers to tensors (B,H,T,D), computed again for its gradients. Raises FormNotMade."""
        recompute = importlib.import_module("torch.utils.checkpoint").checkpoint
        with refusing():
            return recompute(self.function, *inputs, use_reentrant=False, **keywords)


class _Module(torch.nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """The function as a module that takes its tensors in a mapping."""

    def __init__(self, function: Callable[..., Any], rest: Mapping[str, Any]) -> None:
        super().__init__()
        self._function, self._rest = function, rest

    def forward(self, arrays: Dict[str, Any]) -> Any:
        """What the function answers to tensors (B,H,T,D)."""
        return called(self._function, self._rest, arrays)


_FORMS: Dict[str, Any] = {COMPILE: _Compiled, EXPORT: _Exported, ONNX: _Onnx, VMAP: _Mapped, CHECKPOINT: _Recomputed}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _leaves(arrays: Mapping[str, Any]) -> List[Any]:
    """Every tensor, of any shape, also in mappings."""
    return [leaf for each in arrays.values() for leaf in (_leaves(each) if isinstance(each, dict) else [each])]


def _signature(arrays: Mapping[str, Any]) -> Tuple[Any, ...]:
    """What tensors, any shape, have in common that one program can answer."""
    return tuple((tuple(each.shape), tuple(each.stride()), each.dtype, each.requires_grad) for each in _leaves(arrays))


def _rolled(arrays: Mapping[str, Any]) -> Dict[str, Any]:
    """The same numbers in each tensor, any shape, at other places."""
    return {name: _rolled(each) if isinstance(each, dict) else _other(each) for name, each in arrays.items()}


def _other(tensor: Any) -> Any:
    """The same numbers, any shape, at other places, with the strides of a tensor that has no gaps."""
    plain = tensor.detach()
    return plain.clone().copy_(torch.roll(plain, 1)).requires_grad_(tensor.requires_grad)


def _pull(output: Any, arrays: Mapping[str, Any]) -> None:
    """Have the backward pass compiled, too, where there is one; arrays of any shape."""
    leaves = [each for each in _leaves(arrays) if each.requires_grad]
    if leaves and isinstance(output, torch.Tensor) and output.requires_grad:
        torch.autograd.grad(output, leaves, torch.ones_like(output), allow_unused=True)


def _unlimited(program: Program, arrays: Mapping[str, Any]) -> Any:
    """What the program answers to tensors of any shape, compiled however often it was compiled before."""
    config = importlib.import_module("torch._dynamo").config
    limits = {name: MOST_PROGRAMS for name in _LIMITS if hasattr(config, name)}
    with config.patch(**limits):
        return program(arrays)


def _onnxruntime() -> Any:
    """The package. Raises FormNotMade where it, or what writes ONNX for it, is not installed."""
    try:
        for name in ("onnx", "onnxscript"):
            importlib.import_module(name)
        return importlib.import_module("onnxruntime")
    except ImportError as missing:
        raise FormNotMade("{} is not installed where it lives".format(missing.name or missing)) from None


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Inside, no warning is printed of what is not optimal, or not installed and not needed."""
    level = logging.getLogger("torch.onnx").level
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.getLogger("torch.onnx").setLevel(level)
