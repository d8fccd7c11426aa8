"""Converts arrays between NumPy and PyTorch, and makes PyTorch's forms of a function.

The forms are compiled, exported, as ONNX, mapped over the batch, and recomputed. bfloat16 is
converted by its bits, since torch and ml_dtypes do not know each other. A function is traced on
other numbers than those of the call, so that a constant that a trace has captured shows.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch

from ..frames import BIT_DTYPES, Entries
from . import making, plain
from .making import (
    CHECKPOINT,
    COMPILE,
    EXPORT,
    ONNX,
    VMAP,
    CallArguments,
    FormCache,
    FormNotMade,
    FrameworkForm,
    call_by_name,
    call_on_entry,
    refusing,
)

MAX_PROGRAMS = 256
"""How often one function may be compiled: beyond its own limit PyTorch runs it uncompiled."""

_LIMIT_NAMES = ("recompile_limit", "cache_size_limit")  # as new versions call it, and older ones

Program = Callable[[Mapping[str, Any]], Any]

FORM_CACHE = FormCache()


def make_form(function: Callable[..., Any], form: FrameworkForm) -> Callable[..., Any]:
    """Makes this form of the function, for tensors (B,H,T,D). Raises FormNotMade."""
    callable_form: Callable[..., Any] = FORM_CACHE.find_form(
        function, form, lambda: _FORMS[form.name](function, form))
    return callable_form


def forget_forms() -> None:
    """Frees all forms, and whatever the compiler keeps of them."""
    if FORM_CACHE.clear():
        with contextlib.suppress(Exception):  # whatever a compiler that failed has left behind
            importlib.import_module("torch._dynamo").reset()


class _TorchForm:
    """A function in one of the forms that PyTorch makes of it. It makes one program for each set
    of shapes, on other numbers than those of the call.
    """

    def __init__(self, function: Callable[..., Any], form: FrameworkForm) -> None:
        self.function, self.form = function, form
        self._programs: Dict[Any, Program] = {}

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """Calls the form on tensors (B,H,T,D) and keywords. Raises FormNotMade."""
        given = CallArguments.from_call(inputs, keywords, _is_tensor)
        key = (*given.kind, _tensor_signature(given.arrays))
        if key not in self._programs:
            with refusing(), _quietly():
                self._programs[key] = self.make_program(
                    given._replace(arrays=self._roll_if_taken(given)))
        return self._programs[key](given.arrays)

    def make_program(self, given: CallArguments) -> Program:
        """Makes the program for arguments of these shapes."""
        raise NotImplementedError

    def _roll_if_taken(self, given: CallArguments) -> Dict[str, Any]:
        """Rolls the numbers in tensors, any shape, if the function accepts that."""
        try:
            call_by_name(self.function, given.rest, _roll_arrays(given.arrays))
        except Exception:  # whatever a function says to arguments that it does not like
            return given.arrays
        return _roll_arrays(given.arrays)


class _Compiled(_TorchForm):
    """Compiles by `torch.compile`: one function, which generalises over shapes as for a user."""

    def __init__(self, function: Callable[..., Any], form: FrameworkForm) -> None:
        super().__init__(function, form)
        self._compiled = torch.compile(function)

    def make_program(self, given: CallArguments) -> Program:
        """Compiles now, also the backward pass if gradients are wanted."""
        program = partial(_run_without_limit, partial(call_by_name, self._compiled, given.rest))
        _compile_backward(program(given.arrays), given.arrays)
        return program


class _Exported(_TorchForm):
    """Exports by `torch.export` a graph of the function for these shapes."""

    def make_program(self, given: CallArguments) -> Program:
        """Makes a module of the graph."""
        module = torch.export.export(_Module(self.function, given.rest), (given.arrays,)).module()
        return lambda arrays: module(dict(arrays))


class _Onnx(_TorchForm):
    """Exports by `torch.onnx.export`, and runs the model by ONNX Runtime on the CPU."""

    def make_program(self, given: CallArguments) -> Program:
        """Makes a session of the exported model, which takes the tensors in order."""
        runtime = _onnxruntime()
        graph = torch.export.export(_Module(self.function, given.rest), (given.arrays,))
        model = torch.onnx.export(graph, (), dynamo=True, verbose=False)
        session = runtime.InferenceSession(model.model_proto.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]

        def run(arrays: Mapping[str, Any]) -> Any:
            given = (each.detach().cpu().numpy() for each in _leaves(arrays))
            results = session.run(None, dict(zip(names, given)))
            outputs = [torch.from_numpy(each) for each in results]
            if len(outputs) == 1:
                return outputs[0]
            return tuple(outputs)

        run(given.arrays)
        return run


class _Mapped(_TorchForm):
    """Maps over the batch by `torch.func.vmap`."""

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """Calls the mapped function on tensors (B,H,T,D). Raises FormNotMade."""
        given = CallArguments.from_call(inputs, keywords, _is_tensor)
        axes = {name: 0 if name in self.form.mapped else None for name in given.arrays}
        with refusing(), _quietly():
            entry = partial(call_on_entry, self.function, given.rest, self.form.mapped)
            return importlib.import_module("torch.func").vmap(entry, in_dims=(axes,))(given.arrays)


class _Recomputed(_TorchForm):
    """Recomputes for the backward pass by `torch.utils.checkpoint`."""

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """Calls the function on tensors (B,H,T,D), again for gradients. Raises FormNotMade."""
        recompute = importlib.import_module("torch.utils.checkpoint").checkpoint
        with refusing():
            return recompute(self.function, *inputs, use_reentrant=False, **keywords)


class _Module(torch.nn.Module):  # type: ignore[misc]  # torch is not seen by mypy
    """Wraps the function in a module that takes its tensors in a mapping."""

    def __init__(self, function: Callable[..., Any], rest: Mapping[str, Any]) -> None:
        super().__init__()
        self._function, self._rest = function, rest

    def forward(self, arrays: Dict[str, Any]) -> Any:
        """Calls the function on tensors (B,H,T,D)."""
        return call_by_name(self._function, self._rest, arrays)


_FORMS: Dict[str, Any] = {COMPILE: _Compiled, EXPORT: _Exported, ONNX: _Onnx, VMAP: _Mapped,
                          CHECKPOINT: _Recomputed}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _leaves(arrays: Mapping[str, Any]) -> List[Any]:
    """Lists every tensor, of any shape, also in mappings."""
    return [leaf for each in arrays.values()
            for leaf in (_leaves(each) if isinstance(each, dict) else [each])]


def _tensor_signature(arrays: Mapping[str, Any]) -> Tuple[Any, ...]:
    """Returns shapes, strides and dtypes of tensors, any shape; a program serves one signature."""
    return tuple((tuple(each.shape), tuple(each.stride()), each.dtype, each.requires_grad)
                 for each in _leaves(arrays))


def _roll_arrays(arrays: Mapping[str, Any]) -> Dict[str, Any]:
    """Rolls the numbers of each tensor, any shape, by one place."""
    return {name: _roll_arrays(each) if isinstance(each, dict) else _roll_tensor(each)
            for name, each in arrays.items()}


def _roll_tensor(tensor: Any) -> Any:
    """Rolls the numbers, any shape, by one place, in a tensor without gaps."""
    plain = tensor.detach()
    return plain.clone().copy_(torch.roll(plain, 1)).requires_grad_(tensor.requires_grad)


def _compile_backward(output: Any, arrays: Mapping[str, Any]) -> None:
    """Compiles the backward pass, if there is one, for arrays of any shape."""
    leaves = [each for each in _leaves(arrays) if each.requires_grad]
    if leaves and isinstance(output, torch.Tensor) and output.requires_grad:
        torch.autograd.grad(output, leaves, torch.ones_like(output), allow_unused=True)


def _run_without_limit(program: Program, arrays: Mapping[str, Any]) -> Any:
    """Runs the program on tensors of any shape, however often it was compiled."""
    config = importlib.import_module("torch._dynamo").config
    limits = {name: MAX_PROGRAMS for name in _LIMIT_NAMES if hasattr(config, name)}
    with config.patch(**limits):
        return program(arrays)


def _onnxruntime() -> Any:
    """Imports ONNX Runtime. Raises FormNotMade if it or its exporters are not installed."""
    try:
        for name in ("onnx", "onnxscript"):
            importlib.import_module(name)
        return importlib.import_module("onnxruntime")
    except ImportError as missing:
        package = missing.name or missing
        raise FormNotMade("{} is not installed where it lives".format(package)) from None


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Suppresses warnings about slow code and optional packages."""
    level = logging.getLogger("torch.onnx").level
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.getLogger("torch.onnx").setLevel(level)


class TorchLift(plain.Lift):
    """Passes tensors that, on the CPU, share the arrays' memory, so that a mutation is seen."""

    name = "torch"

    def __init__(self, device: str = "") -> None:
        """Raises LookupError for a missing device, with the devices that exist."""
        self.device = device or "cpu"
        if self.device not in list_devices():
            raise LookupError(", ".join(list_devices()))

    def takes(self, dtype: str) -> str:
        """Accepts every dtype, except float64 on MPS."""
        if dtype == "float64" and self.device == "mps":
            return "MPS has no float64"
        return ""

    def hand(self, entries: Entries) -> Any:
        """Makes a tensor, any shape, with the array's memory, dtype and strides.

        Arrays with negative strides are copied. NumPy gives an empty array strides of 0, for which
        a kernel would take it as not contiguous, so an empty tensor is made anew.
        """
        array = entries.array
        if any(stride < 0 for stride in entries.array.strides):
            array = entries.array.copy()
        is_of_bits = entries.dtype in BIT_DTYPES
        tensor = _tensor_of_bits(entries.dtype, array) if is_of_bits else torch.from_numpy(array)
        if not array.size:
            tensor = tensor.new_empty(tensor.shape)
        if self.device == "cpu":
            return tensor
        return place_tensor(tensor, self.device)

    def read(self, value: Any) -> Entries:
        """Reads the entries of a tensor, any shape; NumPy reads anything else."""
        if isinstance(value, torch.Tensor):
            return plain.read_tensor(value)
        return plain.entries_of(np.asarray(value))

    def wait(self, returned: Any) -> None:
        """Waits for the device, which raises the error of a kernel only then."""
        if self.device == "mps":
            torch.mps.synchronize()
        elif self.device != "cpu":
            getattr(torch, _kind_of_device(self.device)).synchronize(self.device)

    def give_back(self, value: Any, entries: Entries) -> None:
        """Copies a changed array, any shape, from a device; on the CPU memory is shared."""
        if self.device == "cpu":
            return
        left = self.read(value).array
        if left.shape == entries.array.shape and left.tobytes() != entries.array.tobytes():
            np.copyto(entries.array, left)

    def is_lost(self) -> bool:
        """Tries an operation, which fails if a kernel has corrupted the device's context."""
        if self.device == "cpu":
            return False
        try:
            self.wait(torch.zeros(1, device=self.device).add_(1))
        except Exception:  # each kind of device has its own
            return True
        return False

    def about(self) -> Dict[str, str]:
        """Describes the device, its driver, and the platform that PyTorch was built for."""
        if self.device == "cpu":
            return {}
        name = getattr(getattr(torch, _kind_of_device(self.device), None), "get_device_name", None)
        facts = {"gpu": name(self.device) if name else "", "driver": plain.nvidia_driver_version()}
        if self.device.startswith("cuda"):
            facts.update(cuda=str(torch.version.cuda or ""),
                         cudnn=str(torch.backends.cudnn.version() or ""),
                         hip=str(getattr(torch.version, "hip", "") or ""))
        return {each: str(value) for each, value in facts.items() if value}

    def gradients(self, function: Callable[..., Any], inputs: Sequence[Any],
                  rows: Any) -> Tuple[Any, Optional[List[Any]]]:
        """Computes the output, detached, and gradients, (B,H,T,D) of the query; rows (T,). A
        gradient is zero for an input on which the output does not depend.
        """
        leaves = [each.detach().clone().requires_grad_() for each in inputs]
        output = function(*leaves)
        if not isinstance(output, torch.Tensor) or not output.requires_grad:
            return output, None
        chosen = torch.zeros_like(output)
        chosen[..., torch.from_numpy(rows).to(output.device), :] = 1
        gradients = torch.autograd.grad(output, leaves, chosen, allow_unused=True)
        return output.detach(), [_gradient_as_float64(each, leaf)
                                 for each, leaf in zip(gradients, leaves)]

    def differentiate(
        self, function: Callable[..., Any], inputs: Sequence[Any], keywords: Mapping[str, Any],
        wrt: Sequence[str]) -> Tuple[Any, Optional[List[Any]]]:
        """Differentiates by `torch.autograd.grad`, (B,H,T,D) of the query.

        The gradient is zero for an argument on which the output does not depend. Raises NotReached
        where the output depends on no parameter.
        """
        given = {**dict(zip(plain.INPUTS, inputs)), **keywords}
        grad = given.pop(plain.GRAD_KEYWORD)
        leaves = {name: making.find_argument(given, name).detach().requires_grad_()
                  for name in wrt}
        # one input as several
        serves = {id(making.find_argument(given, name)): leaf for name, leaf in leaves.items()}
        given = making.replace_arguments({name: serves.get(id(value), value)
                                          for name, value in given.items()}, leaves)
        inputs = [given.pop(name) for name in plain.INPUTS]
        output = function(*inputs, **given)
        if not isinstance(output, torch.Tensor) or not output.requires_grad:
            return output, None
        gradients = torch.autograd.grad(output, list(leaves.values()), grad.to(output.dtype),
                                        allow_unused=True)
        of_parameters = [each for name, each in zip(wrt, gradients) if making.is_parameter(name)]
        if of_parameters and all(each is None for each in of_parameters):
            raise making.NotReached
        return output.detach(), [torch.zeros_like(leaf) if each is None else each
                                 for each, leaf in zip(gradients, leaves.values())]

    def make_form(self, function: Callable[..., Any], form: FrameworkForm) -> Callable[..., Any]:
        """Makes this form of the function, for tensors (B,H,T,D)."""
        return make_form(function, form)

    def forget(self) -> None:
        """Frees what was compiled and exported."""
        forget_forms()


LIFT = TorchLift


def place_tensor(tensor: Any, device: str) -> Any:
    """Copies the tensor, any shape, to the device with its strides, which `to` may change."""
    if any(stride == 0 and length > 1 for stride, length in zip(tensor.stride(), tensor.shape)):
        base = tensor[tuple(slice(0, 1) if stride == 0 else slice(None)
                            for stride in tensor.stride())]
        return place_tensor(base, device).expand(tensor.shape)
    there = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    return there.copy_(tensor)


def _gradient_as_float64(gradient: Any, leaf: Any) -> Any:
    """Converts a gradient, in the shape of its leaf, such as (B,H,T,D); zero for None."""
    value = torch.zeros_like(leaf) if gradient is None else gradient
    return value.detach().to("cpu", torch.float64).numpy()


def list_devices() -> List[str]:
    """Lists the devices, also those of a third-party backend (PrivateUse1, such as npu)."""
    own = getattr(torch._C, "_get_privateuse1_backend_name", lambda: "")()
    mps = getattr(torch.backends, "mps", None)
    return ["cpu", *(each for kind in ("cuda", "xpu", own) for each in _devices_of_kind(kind)),
            *(["mps"] if mps and mps.is_available() else [])]


def _devices_of_kind(kind: str) -> List[str]:
    """Lists the names of a kind's devices: `cuda`, `cuda:0`, …; none without such a device."""
    module = getattr(torch, kind, None) if kind else None
    if module is None or not module.is_available():
        return []
    return [kind, *("{}:{}".format(kind, at) for at in range(module.device_count()))]


def _kind_of_device(device: str) -> str:
    return device.partition(":")[0]


def _tensor_of_bits(dtype: str, bits: Any) -> Any:
    """Makes a tensor of any shape of a dtype that is sent as its bits. PyTorch has no int4 and no
    uint4 that a function can read, so int4 becomes int8, and uint4 becomes uint8.
    """
    if dtype == "int4":
        return torch.from_numpy(((bits.view(np.int8) << 4) >> 4).astype(np.int8))
    if dtype == "uint4":
        return torch.from_numpy(bits.view(np.uint8))
    return torch.from_numpy(bits.view("i{}".format(bits.itemsize))).view(getattr(torch, dtype))
