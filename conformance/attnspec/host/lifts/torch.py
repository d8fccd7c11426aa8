"""NumPy to PyTorch and back, and the forms that PyTorch makes of a function: compiled, exported,
as ONNX, mapped over the batch, recomputed.

bfloat16 travels as its bits, since torch and ml_dtypes know nothing of each other. What is traced
is traced on other numbers than it is asked about, so that what a trace has captured shows.
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
    """The function in this form, of tensors (B,H,T,D). Raises FormNotMade."""
    made: Callable[..., Any] = FORM_CACHE.find_form(function, form,
                                                    lambda: _FORMS[form.name](function, form))
    return made


def forget_forms() -> None:
    """Let all go that was made, and what the compiler keeps of it."""
    if FORM_CACHE.clear():
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
        given = CallArguments.from_call(inputs, keywords, _is_tensor)
        key = (*given.kind, _tensor_signature(given.arrays))
        if key not in self._programs:
            with refusing(), _quietly():
                self._programs[key] = self.make_program(
                    given._replace(arrays=self._roll_if_taken(given)))
        return self._programs[key](given.arrays)

    def make_program(self, given: CallArguments) -> Program:
        """The program for arguments of these shapes."""
        raise NotImplementedError

    def _roll_if_taken(self, given: CallArguments) -> Dict[str, Any]:
        """Other numbers in tensors of the same shapes, any shape, if the function takes them."""
        try:
            call_by_name(self.function, given.rest, _roll_arrays(given.arrays))
        except Exception:  # whatever a function says to arguments that it does not like
            return given.arrays
        return _roll_arrays(given.arrays)


class _Compiled(_TorchForm):
    """By `torch.compile`: one function, which becomes general as shapes come, as for a user."""

    def __init__(self, function: Callable[..., Any], form: FrameworkForm) -> None:
        super().__init__(function, form)
        self._compiled = torch.compile(function)

    def make_program(self, given: CallArguments) -> Program:
        """Compiled now, the backward pass, too, where gradients are wanted."""
        program = partial(_run_without_limit, partial(call_by_name, self._compiled, given.rest))
        _compile_backward(program(given.arrays), given.arrays)
        return program


class _Exported(_TorchForm):
    """By `torch.export`: a graph of the function for these shapes."""

    def make_program(self, given: CallArguments) -> Program:
        """The graph as a module."""
        module = torch.export.export(_Module(self.function, given.rest), (given.arrays,)).module()
        return lambda arrays: module(dict(arrays))


class _Onnx(_TorchForm):
    """By `torch.onnx.export`, run by ONNX Runtime on the CPU."""

    def make_program(self, given: CallArguments) -> Program:
        """A session of the exported model, which takes the tensors in their order."""
        runtime = _onnxruntime()
        graph = torch.export.export(_Module(self.function, given.rest), (given.arrays,))
        model = torch.onnx.export(graph, (), dynamo=True, verbose=False)
        session = runtime.InferenceSession(model.model_proto.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]

        def run(arrays: Mapping[str, Any]) -> Any:
            given = (each.detach().cpu().numpy() for each in _leaves(arrays))
            found = [torch.from_numpy(each) for each in session.run(None, dict(zip(names, given)))]
            if len(found) == 1:
                return found[0]
            return tuple(found)

        run(given.arrays)
        return run


class _Mapped(_TorchForm):
    """By `torch.func.vmap`, over the batch."""

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """What the mapped function answers to tensors (B,H,T,D). Raises FormNotMade."""
        given = CallArguments.from_call(inputs, keywords, _is_tensor)
        axes = {name: 0 if name in self.form.mapped else None for name in given.arrays}
        with refusing(), _quietly():
            entry = partial(call_on_entry, self.function, given.rest, self.form.mapped)
            return importlib.import_module("torch.func").vmap(entry, in_dims=(axes,))(given.arrays)


class _Recomputed(_TorchForm):
    """By `torch.utils.checkpoint`: nothing is kept for the backward pass."""

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """Answers to tensors (B,H,T,D), and computes again for gradients. Raises FormNotMade."""
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
        return call_by_name(self._function, self._rest, arrays)


_FORMS: Dict[str, Any] = {COMPILE: _Compiled, EXPORT: _Exported, ONNX: _Onnx, VMAP: _Mapped,
                          CHECKPOINT: _Recomputed}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _leaves(arrays: Mapping[str, Any]) -> List[Any]:
    """Every tensor, of any shape, also in mappings."""
    return [leaf for each in arrays.values()
            for leaf in (_leaves(each) if isinstance(each, dict) else [each])]


def _tensor_signature(arrays: Mapping[str, Any]) -> Tuple[Any, ...]:
    """What tensors, any shape, have in common that one program can answer."""
    return tuple((tuple(each.shape), tuple(each.stride()), each.dtype, each.requires_grad)
                 for each in _leaves(arrays))


def _roll_arrays(arrays: Mapping[str, Any]) -> Dict[str, Any]:
    """The same numbers in each tensor, any shape, at other places."""
    return {name: _roll_arrays(each) if isinstance(each, dict) else _roll_tensor(each)
            for name, each in arrays.items()}


def _roll_tensor(tensor: Any) -> Any:
    """The same numbers, any shape, at other places, with the strides of a gapless tensor."""
    plain = tensor.detach()
    return plain.clone().copy_(torch.roll(plain, 1)).requires_grad_(tensor.requires_grad)


def _compile_backward(output: Any, arrays: Mapping[str, Any]) -> None:
    """Have the backward pass compiled, too, where there is one; arrays of any shape."""
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
    """The package. Raises FormNotMade where it, or what writes ONNX for it, is not installed."""
    try:
        for name in ("onnx", "onnxscript"):
            importlib.import_module(name)
        return importlib.import_module("onnxruntime")
    except ImportError as missing:
        package = missing.name or missing
        raise FormNotMade("{} is not installed where it lives".format(package)) from None


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


class TorchLift(plain.Lift):
    """Tensors that, on the CPU, share the arrays' memory, so that a mutation is seen."""

    name = "torch"

    def __init__(self, device: str = "") -> None:
        """Raises LookupError, with the devices there are, for one that is not there."""
        self.device = device or "cpu"
        if self.device not in list_devices():
            raise LookupError(", ".join(list_devices()))

    def takes(self, dtype: str) -> str:
        """It takes them all, but for MPS, which has no float64."""
        if dtype == "float64" and self.device == "mps":
            return "MPS has no float64"
        return ""

    def hand(self, entries: Entries) -> Any:
        """A tensor, any shape, with the array's memory, dtype and strides (those with negative
        ones are copied). NumPy gives an array of nothing strides of 0, by which a kernel takes it
        for one that is not contiguous.
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
        """The tensor's entries, any shape; what is no tensor is read by NumPy."""
        if isinstance(value, torch.Tensor):
            return plain.read_tensor(value)
        return plain.entries_of(np.asarray(value))

    def wait(self, returned: Any) -> None:
        """An error of a kernel is told when the device is waited for."""
        if self.device == "mps":
            torch.mps.synchronize()
        elif self.device != "cpu":
            getattr(torch, _kind_of_device(self.device)).synchronize(self.device)

    def give_back(self, value: Any, entries: Entries) -> None:
        """On the CPU memory is shared; from a device it is copied where it has changed."""
        if self.device == "cpu":
            return
        left = self.read(value).array
        if left.shape == entries.array.shape and left.tobytes() != entries.array.tobytes():
            np.copyto(entries.array, left)

    def is_lost(self) -> bool:
        """Tried out: every further operation raises where a kernel has corrupted a context."""
        if self.device == "cpu":
            return False
        try:
            self.wait(torch.zeros(1, device=self.device).add_(1))
        except Exception:  # each kind of device has its own
            return True
        return False

    def about(self) -> Dict[str, str]:
        """The device, its driver, and what of it PyTorch was built for."""
        if self.device == "cpu":
            return {}
        name = getattr(getattr(torch, _kind_of_device(self.device), None), "get_device_name", None)
        found = {"gpu": name(self.device) if name else "", "driver": plain.nvidia_driver_version()}
        if self.device.startswith("cuda"):
            found.update(cuda=str(torch.version.cuda or ""),
                         cudnn=str(torch.backends.cudnn.version() or ""),
                         hip=str(getattr(torch.version, "hip", "") or ""))
        return {each: str(told) for each, told in found.items() if told}

    def gradients(self, function: Callable[..., Any], inputs: Sequence[Any],
                  rows: Any) -> Tuple[Any, Optional[List[Any]]]:
        """The output detached, and the gradients in the shapes of the inputs, (B,H,T,D) of the
        query, zero for an input that it does not depend on; rows (T,).
        """
        leaves = [each.detach().clone().requires_grad_() for each in inputs]
        output = function(*leaves)
        if not isinstance(output, torch.Tensor) or not output.requires_grad:
            return output, None
        chosen = torch.zeros_like(output)
        chosen[..., torch.from_numpy(rows).to(output.device), :] = 1
        found = torch.autograd.grad(output, leaves, chosen, allow_unused=True)
        return output.detach(), [_gradient_as_float64(each, leaf)
                                 for each, leaf in zip(found, leaves)]

    def differentiate(
        self, function: Callable[..., Any], inputs: Sequence[Any], keywords: Mapping[str, Any],
        wrt: Sequence[str]) -> Tuple[Any, Optional[List[Any]]]:
        """By `torch.autograd.grad`, in the shapes of the arguments, (B,H,T,D) of the query; zeros
        with respect to one that the output does not depend on. Raises NotReached where that is
        none of the parameters.
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
        found = torch.autograd.grad(output, list(leaves.values()), grad.to(output.dtype),
                                    allow_unused=True)
        of_parameters = [each for name, each in zip(wrt, found) if making.is_parameter(name)]
        if of_parameters and all(each is None for each in of_parameters):
            raise making.NotReached
        return output.detach(), [torch.zeros_like(leaf) if each is None else each
                                 for each, leaf in zip(found, leaves.values())]

    def make_form(self, function: Callable[..., Any], form: FrameworkForm) -> Callable[..., Any]:
        """The function in this form, of tensors (B,H,T,D)."""
        return make_form(function, form)

    def forget(self) -> None:
        """Drop what was compiled and exported."""
        forget_forms()


LIFT = TorchLift


def place_tensor(tensor: Any, device: str) -> Any:
    """The tensor, any shape, on the device with its strides, which `to` may change."""
    if any(stride == 0 and length > 1 for stride, length in zip(tensor.stride(), tensor.shape)):
        base = tensor[tuple(slice(0, 1) if stride == 0 else slice(None)
                            for stride in tensor.stride())]
        return place_tensor(base, device).expand(tensor.shape)
    there = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    return there.copy_(tensor)


def _gradient_as_float64(gradient: Any, leaf: Any) -> Any:
    """A gradient, in the shape of its leaf, such as (B,H,T,D)."""
    found = torch.zeros_like(leaf) if gradient is None else gradient
    return found.detach().to("cpu", torch.float64).numpy()


def list_devices() -> List[str]:
    """The devices that are there, those of a backend of its own (PrivateUse1, as npu) too."""
    own = getattr(torch._C, "_get_privateuse1_backend_name", lambda: "")()
    mps = getattr(torch.backends, "mps", None)
    return ["cpu", *(each for kind in ("cuda", "xpu", own) for each in _devices_of_kind(kind)),
            *(["mps"] if mps and mps.is_available() else [])]


def _devices_of_kind(kind: str) -> List[str]:
    """The names of a kind's devices: `cuda`, `cuda:0`, …; none where there is no such device."""
    module = getattr(torch, kind, None) if kind else None
    if module is None or not module.is_available():
        return []
    return [kind, *("{}:{}".format(kind, at) for at in range(module.device_count()))]


def _kind_of_device(device: str) -> str:
    return device.partition(":")[0]


def _tensor_of_bits(dtype: str, bits: Any) -> Any:
    """A tensor of any shape, of a dtype that travels as its bits. PyTorch has no int4 and no uint4
    that a function can read, so that int4 comes as int8 and uint4 as uint8.
    """
    if dtype == "int4":
        return torch.from_numpy(((bits.view(np.int8) << 4) >> 4).astype(np.int8))
    if dtype == "uint4":
        return torch.from_numpy(bits.view(np.uint8))
    return torch.from_numpy(bits.view("i{}".format(bits.itemsize))).view(getattr(torch, dtype))
