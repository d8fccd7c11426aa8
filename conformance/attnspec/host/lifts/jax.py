"""Converts arrays between NumPy and JAX, and makes the forms that JAX has of a function.

The forms are compiled, exported, mapped over the batch, and recomputed. float64 exists in JAX only
while x64 is enabled, so it is enabled around each such call. A function is traced on other numbers
than those of the call, so that a constant that a trace has captured shows.
"""

from __future__ import annotations

import contextlib
import importlib
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import jax
import jax.numpy as jnp
import numpy as np

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

Program = Callable[[Mapping[str, Any]], Any]

FORM_CACHE = FormCache()


def make_form(function: Callable[..., Any], form: FrameworkForm) -> Callable[..., Any]:
    """Makes this form of the function, for arrays (B,H,T,D). Raises FormNotMade."""
    if form.name == ONNX:
        raise FormNotMade("JAX itself exports no ONNX")
    callable_form: Callable[..., Any] = FORM_CACHE.find_form(function, form,
                                                             lambda: _JaxForm(function, form))
    return callable_form


class _JaxForm:
    """A function in one of the forms that JAX makes of it. It traces one program for each set of
    shapes, on other numbers than those of the call.
    """

    def __init__(self, function: Callable[..., Any], form: FrameworkForm) -> None:
        self.function, self.form = function, form
        self._programs: Dict[Any, Program] = {}
        self._is_inlined = False

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """Calls the form on arrays (B,H,T,D) and keywords. Raises FormNotMade."""
        given = CallArguments.from_call(inputs, keywords,
                                        lambda value: isinstance(value, jax.Array))
        # it is being differentiated
        if any(isinstance(each, jax.core.Tracer) for each in given.arrays.values()):
            return _PROGRAM_MAKERS[self.form.name](self._plain_function(given), given.arrays,
                                                   self.form)(given.arrays)
        key = (*given.kind, _array_signature(given.arrays))
        if key not in self._programs:
            with refusing():
                self._programs[key] = self._make_program(given)
        return self._programs[key](given.arrays)

    def _make_program(self, given: CallArguments) -> Program:
        """Traces on other numbers, or on those of the call if the function rejects others."""
        # whatever a function says to arguments that it does not like
        with contextlib.suppress(Exception):
            return self._trace_program(
                given, jax.tree_util.tree_map(lambda each: jnp.roll(each, 1), given.arrays))
        return self._trace_program(given, given.arrays)

    def _trace_program(self, given: CallArguments, arrays: Mapping[str, Any]) -> Program:
        """Traces for arrays, any shape; without jit inside if `JaxLift.differentiate` must."""
        try:
            make = _PROGRAM_MAKERS[self.form.name]
            program: Program = make(self._plain_function(given), arrays, self.form)
            jax.block_until_ready(program(arrays))
        except ValueError as nested:
            if "compiler_options" not in str(nested) or self._is_inlined:
                raise
            self._is_inlined = True
            return self._trace_program(given, arrays)
        return program

    def _plain_function(self, given: CallArguments) -> Program:
        """Makes a function of a mapping of arrays, any shape."""
        def plain(arrays: Mapping[str, Any]) -> Any:
            with jax.disable_jit() if self._is_inlined else contextlib.nullcontext():
                if self.form.name == VMAP:
                    return call_on_entry(self.function, given.rest, self.form.mapped, arrays)
                return call_by_name(self.function, given.rest, arrays)

        return plain


def _array_signature(arrays: Mapping[str, Any]) -> Tuple[Any, ...]:
    """Returns shapes and dtypes of arrays, any shape; one program serves one signature."""
    return tuple((each.shape, str(each.dtype)) for each in jax.tree_util.tree_leaves(arrays))


def _compile_program(plain: Program, arrays: Mapping[str, Any], form: FrameworkForm) -> Program:  # noqa: ARG001  (as its siblings)
    """Compiles by `jax.jit`, for arrays of any shape."""
    program: Program = jax.jit(plain)
    return program


def _export_program(plain: Program, arrays: Mapping[str, Any], form: FrameworkForm) -> Program:  # noqa: ARG001  (as its siblings)
    """Exports by `jax.export`, serialised if possible, for arrays of any shape."""
    export = importlib.import_module("jax.export")
    exported = export.export(jax.jit(plain))(arrays)
    with contextlib.suppress(ImportError):
        exported = export.deserialize(exported.serialize())
    program: Program = exported.call
    return program


def _map_program(plain: Program, arrays: Mapping[str, Any], form: FrameworkForm) -> Program:
    """Maps over the batch by `jax.vmap`, in one compiled program, for arrays of any shape."""
    axes = {name: 0 if name in form.mapped else None for name in arrays}
    program: Program = jax.jit(jax.vmap(plain, in_axes=(axes,)))
    return program


def _checkpoint_program(plain: Program, arrays: Mapping[str, Any], form: FrameworkForm) -> Program:  # noqa: ARG001  (as its siblings)
    """Recomputes for the backward pass by `jax.checkpoint`, for arrays of any shape."""
    program: Program = jax.checkpoint(plain)
    return program


_PROGRAM_MAKERS: Dict[str, Callable[..., Program]] = {COMPILE: _compile_program,
                                                      EXPORT: _export_program, VMAP: _map_program,
                                                      CHECKPOINT: _checkpoint_program}


class JaxLift(plain.Lift):
    """Arrays on a device of JAX."""

    name = "jax"

    def __init__(self, device: str = "") -> None:
        """Raises LookupError for a missing device, with the devices that exist."""
        devices = _devices_by_name()
        if device and device not in devices:
            raise LookupError(", ".join(sorted(devices)))
        self._place = devices[device] if device else None
        self.device = device or _kinds_of_device(jax.devices()[0])[0]
        # with the function, so that no other has its id
        self._programs: Dict[Any, Tuple[Any, Any]] = {}
        self._inlined: Set[int] = set()

    def context_for(self, dtype: str) -> Any:
        """Enables x64 for float64 only. JAX's caches separate the two."""
        return _enable_x64()(dtype == "float64")

    def takes(self, dtype: str) -> str:
        """Accepts every dtype."""
        return ""

    def hand(self, entries: Entries) -> Any:
        """Makes a JAX array of the same dtype and of any shape (JAX has no strides).

        `jnp.asarray` compiles a copy for every new shape, half of all compilation. `device_put`
        does not, but may share memory, so it gets a copy.
        """
        array = np.array(entries.array, order="C")
        typed = array
        if entries.dtype in BIT_DTYPES:
            typed = array.view(plain.narrow_dtype(entries.dtype))
        return jax.device_put(typed, self._place)

    def read(self, value: Any) -> Entries:
        """Reads the array's entries, of any shape, once they are computed."""
        return plain.entries_of(np.asarray(value))

    def wait(self, returned: Any) -> None:
        """Waits for the computation, since JAX returns before it has computed."""
        for value in returned if isinstance(returned, (tuple, list)) else (returned,):
            if hasattr(value, "block_until_ready"):
                value.block_until_ready()

    def is_lost(self) -> bool:
        """Tries an operation, which fails if a kernel has corrupted the device's context."""
        if self.device.startswith("cpu"):
            return False
        try:
            jax.block_until_ready(jax.device_put(np.zeros(1, np.float32), self._place) + 1)
        except Exception:  # XLA's own, of which each version has another
            return True
        return False

    def about(self) -> Dict[str, str]:
        """Describes the device, its driver, and the platform that XLA was built for."""
        first = self._place or jax.devices()[0]
        if first.platform == "cpu":
            return {}
        facts = {"gpu": str(first.device_kind), "driver": plain.nvidia_driver_version(),
                "platform": _platform_version(first)}
        return {each: words for each, words in facts.items() if words}

    def gradients(self, function: Callable[..., Any], inputs: Sequence[Any],
                  rows: Any) -> Tuple[Any, Optional[List[Any]]]:
        """Computes the output, and gradients in the inputs' shapes, as (B,H,T,D); rows (T,).

        All is one compiled program. A function with compiler options of its own cannot be jitted
        or differentiated inside another jit, so jit inside of it is disabled.
        """
        def both(*given: Any) -> Any:
            with jax.disable_jit():
                output, pull = jax.vjp(function, *given)
                return output, pull(jnp.zeros_like(output).at[..., np.flatnonzero(rows), :].set(1))

        output, pulled = _hasty_jit()(both)(*inputs)
        return output, [np.asarray(each).astype(np.float64) for each in pulled]

    def differentiate(
        self, function: Callable[..., Any], inputs: Sequence[Any], keywords: Mapping[str, Any],
        wrt: Sequence[str]) -> Tuple[Any, Optional[List[Any]]]:
        """Differentiates by `jax.vjp`, in the shapes of the arguments, as (B,H,T,D).

        All is one compiled program. A function with compiler options of its own cannot be jitted
        inside another jit. Only then jit inside of it is disabled, together with loops. If the
        compiled program fails, the operations run one by one, since an error of this jit is not
        the function's.
        """
        given = {**dict(zip(plain.INPUTS, inputs)), **keywords}
        arrays = {name: value for name, value in given.items()
                  if isinstance(value, (jax.Array, dict))}
        rest = {name: value for name, value in given.items() if name not in arrays}
        once = tuple(name for name in plain.INPUTS[1:] if given[name] is given["query"]
                     and name not in wrt)
        key = (id(function), given["query"].dtype.name, tuple(wrt), once, tuple(arrays),
               repr(sorted(rest.items())))
        both = _make_backward(partial(_call_with_leaves, function, wrt=wrt, once=once), rest, wrt,
                              id(function) in self._inlined)
        if key not in self._programs:
            self._programs[key] = function, _hasty_jit()(both)
        try:
            result: Tuple[Any, List[Any]] = self._programs[key][1](arrays)
        except Exception as raised:  # of the function, or of JAX, which has many
            if "compiler_options" in str(raised) and id(function) not in self._inlined:
                self._inlined.add(id(function))
                del self._programs[key]
                return self.differentiate(function, inputs, keywords, wrt)
            result = both(arrays)
            self._programs[key] = function, both
        return result

    def make_form(self, function: Callable[..., Any], form: FrameworkForm) -> Callable[..., Any]:
        """Makes this form of the function, for arrays (B,H,T,D)."""
        return make_form(function, form)

    def forget(self) -> None:
        """Frees compiled programs, which take megabytes each, gigabytes in a long run."""
        self._programs.clear()
        self._inlined.clear()
        FORM_CACHE.clear()
        jax.clear_caches()


LIFT = JaxLift


def _devices_by_name() -> Dict[str, Any]:
    """Finds devices by `cpu:0` or `cuda:0`; the first of a kind also by its kind."""
    devices: Dict[str, Any] = {}
    for each in _list_devices():
        for kind in _kinds_of_device(each):
            devices.setdefault(kind, each)
            devices["{}:{}".format(kind, each.id)] = each
    return devices


def _kinds_of_device(device: Any) -> Sequence[str]:
    """Names the kind of a device; a GPU by its maker's platform, and as JAX does."""
    if device.platform != "gpu":
        return (str(device.platform),)
    return ("rocm" if "rocm" in _platform_version(device).lower() else "cuda", "gpu")


def _platform_version(device: Any) -> str:
    return " ".join(str(getattr(device.client, "platform_version", "")).split())


def _list_devices() -> List[Any]:
    devices = list(jax.devices())
    try:
        if any(each.platform == "cpu" for each in devices):
            return devices
        return devices + list(jax.devices("cpu"))
    except RuntimeError:  # JAX_PLATFORMS leaves the CPU out
        return devices


def _make_backward(pulled: Callable[..., Any], rest: Mapping[str, Any], wrt: Sequence[str],
                   is_inlined: bool) -> Callable[..., Any]:
    """Makes a function from arrays, any shape, by name to output and gradients. pulled: see
    `_call_with_leaves`.
    """
    def both(arrays: Dict[str, Any]) -> Any:
        with jax.disable_jit() if is_inlined else contextlib.nullcontext():
            leaves = [making.find_argument(arrays, name) for name in wrt]
            output, pull = jax.vjp(partial(pulled, {**arrays, **rest}), *leaves)
            return output, list(pull(arrays[plain.GRAD_KEYWORD].astype(output.dtype)))

    return both


def _call_with_leaves(function: Callable[..., Any], given: Mapping[str, Any], *leaves: Any,
                      wrt: Sequence[str], once: Sequence[str]) -> Any:
    """Calls the function with leaves in place of some arguments, arrays of any shape. once: the
    arguments that are the query itself.
    """
    every = making.replace_arguments(given, dict(zip(wrt, leaves)))
    every.update(dict.fromkeys(once, every["query"]))
    del every[plain.GRAD_KEYWORD]
    inputs = [every.pop(name) for name in plain.INPUTS]
    return function(*inputs, **every)


_hasty_jits: List[Any] = []


def _hasty_jit() -> Callable[..., Any]:
    """Returns `jax.jit` with few optimisations, five times as fast, if JAX takes its options."""
    if not _hasty_jits:
        hurried = partial(jax.jit, compiler_options={
            "xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True,
            "xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1})
        try:
            hurried(lambda x: x + 1)(0.0)
        except Exception:  # an older jit raises TypeError, another XLA whatever it likes
            _hasty_jits.append(jax.jit)
        else:
            _hasty_jits.append(hurried)
    jit: Callable[..., Any] = _hasty_jits[0]
    return jit


def _enable_x64() -> Any:
    """Returns the context manager, whose name depends on the version of JAX."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64
    from jax.experimental import enable_x64  # noqa: PLC0415  (gone from new versions)

    return enable_x64
