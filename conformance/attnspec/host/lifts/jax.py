"""NumPy to JAX and back, and the forms that JAX makes of a function: compiled, exported, mapped
over the batch, recomputed.

float64 exists in JAX only while x64 is enabled, so it is enabled around each such call. What is
traced is traced on other numbers than it is asked about, so that what a trace has captured shows.
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
    """The function in this form, of arrays (B,H,T,D). Raises FormNotMade."""
    if form.name == ONNX:
        raise FormNotMade("JAX itself exports no ONNX")
    made: Callable[..., Any] = FORM_CACHE.find_form(function, form,
                                                    lambda: _JaxForm(function, form))
    return made


class _JaxForm:
    """A function in one of the forms that JAX makes of it.

    Programs are traced by their arguments' shapes, on other numbers.
    """

    def __init__(self, function: Callable[..., Any], form: FrameworkForm) -> None:
        self.function, self.form = function, form
        self._programs: Dict[Any, Program] = {}
        self._is_inlined = False

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """What the form answers to arrays (B,H,T,D) and keywords. Raises FormNotMade."""
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
        """Traces on other numbers; on those given, where the function checks its input."""
        # whatever a function says to arguments that it does not like
        with contextlib.suppress(Exception):
            return self._trace_program(
                given, jax.tree_util.tree_map(lambda each: jnp.roll(each, 1), given.arrays))
        return self._trace_program(given, given.arrays)

    def _trace_program(self, given: CallArguments, arrays: Mapping[str, Any]) -> Program:
        """Traces and compiles for arrays, any shape; inlined as `JaxLift.differentiate` says."""
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
        """The function of its arrays, any shape, by name."""
        def plain(arrays: Mapping[str, Any]) -> Any:
            with jax.disable_jit() if self._is_inlined else contextlib.nullcontext():
                if self.form.name == VMAP:
                    return call_on_entry(self.function, given.rest, self.form.mapped, arrays)
                return call_by_name(self.function, given.rest, arrays)

        return plain


def _array_signature(arrays: Mapping[str, Any]) -> Tuple[Any, ...]:
    """What arrays, any shape, have in common that one program can answer."""
    return tuple((each.shape, str(each.dtype)) for each in jax.tree_util.tree_leaves(arrays))


def _compile_program(plain: Program, arrays: Mapping[str, Any], form: FrameworkForm) -> Program:  # noqa: ARG001  (as its siblings)
    """By `jax.jit`; arrays of any shape."""
    program: Program = jax.jit(plain)
    return program


def _export_program(plain: Program, arrays: Mapping[str, Any], form: FrameworkForm) -> Program:  # noqa: ARG001  (as its siblings)
    """By `jax.export`, written and read where that is installed; arrays of any shape."""
    export = importlib.import_module("jax.export")
    exported = export.export(jax.jit(plain))(arrays)
    with contextlib.suppress(ImportError):
        exported = export.deserialize(exported.serialize())
    program: Program = exported.call
    return program


def _map_program(plain: Program, arrays: Mapping[str, Any], form: FrameworkForm) -> Program:
    """By `jax.vmap`, over the batch, in one compiled program; arrays of any shape."""
    axes = {name: 0 if name in form.mapped else None for name in arrays}
    program: Program = jax.jit(jax.vmap(plain, in_axes=(axes,)))
    return program


def _checkpoint_program(plain: Program, arrays: Mapping[str, Any], form: FrameworkForm) -> Program:  # noqa: ARG001  (as its siblings)
    """By `jax.checkpoint`: nothing is kept for the backward pass; arrays of any shape."""
    program: Program = jax.checkpoint(plain)
    return program


_PROGRAM_MAKERS: Dict[str, Callable[..., Program]] = {COMPILE: _compile_program,
                                                      EXPORT: _export_program, VMAP: _map_program,
                                                      CHECKPOINT: _checkpoint_program}


class JaxLift(plain.Lift):
    """Arrays on a device of JAX."""

    name = "jax"

    def __init__(self, device: str = "") -> None:
        """Raises LookupError, with the devices there are, for one that is not there."""
        there = _devices_by_name()
        if device and device not in there:
            raise LookupError(", ".join(sorted(there)))
        self._place = there[device] if device else None
        self.device = device or _kinds_of_device(jax.devices()[0])[0]
        # with the function, so that no other has its id
        self._programs: Dict[Any, Tuple[Any, Any]] = {}
        self._inlined: Set[int] = set()

    def context_for(self, dtype: str) -> Any:
        """x64 is on for float64 and off for the rest. JAX's caches keep the two apart."""
        return _enable_x64()(dtype == "float64")

    def takes(self, dtype: str) -> str:
        """It takes them all."""
        return ""

    def hand(self, entries: Entries) -> Any:
        """A JAX array of the same dtype and of any shape (JAX keeps no strides).

        `jnp.asarray` compiles a copy for every new shape, half of all that is compiled.
        `device_put` may share memory instead, and so gets a copy to itself.
        """
        array = np.array(entries.array, order="C")
        named = array
        if entries.dtype in BIT_DTYPES:
            named = array.view(plain.narrow_dtype(entries.dtype))
        return jax.device_put(named, self._place)

    def read(self, value: Any) -> Entries:
        """The array's entries, of any shape, once they are computed."""
        return plain.entries_of(np.asarray(value))

    def wait(self, returned: Any) -> None:
        """JAX answers before it has computed."""
        for value in returned if isinstance(returned, (tuple, list)) else (returned,):
            if hasattr(value, "block_until_ready"):
                value.block_until_ready()

    def is_lost(self) -> bool:
        """Tried out: every further operation raises where a kernel has corrupted a context."""
        if self.device.startswith("cpu"):
            return False
        try:
            jax.block_until_ready(jax.device_put(np.zeros(1, np.float32), self._place) + 1)
        except Exception:  # XLA's own, of which each version has another
            return True
        return False

    def about(self) -> Dict[str, str]:
        """What JAX calls the device, its driver, and the platform that XLA was built for."""
        first = self._place or jax.devices()[0]
        if first.platform == "cpu":
            return {}
        told = {"gpu": str(first.device_kind), "driver": plain.nvidia_driver_version(),
                "platform": _platform_version(first)}
        return {each: words for each, words in told.items() if words}

    def gradients(self, function: Callable[..., Any], inputs: Sequence[Any],
                  rows: Any) -> Tuple[Any, Optional[List[Any]]]:
        """The output, and the gradients in the shapes of the inputs, as (B,H,T,D), in one compiled
        program; rows (T,).

        A function that asks for compiler options of its own cannot stand inside another one's jit,
        nor be differentiated, so jit within is left out.
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
        """By `jax.vjp`, in the shapes of the arguments, as (B,H,T,D), in one compiled program.

        A function that asks for compiler options of its own cannot stand inside another one's jit:
        only then jit within is left out, with which loops are. What the compiled program cannot do
        is asked operation by operation: an error of this jit is none of the function's.
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
            found: Tuple[Any, List[Any]] = self._programs[key][1](arrays)
        except Exception as raised:  # of the function, or of JAX, which has many
            if "compiler_options" in str(raised) and id(function) not in self._inlined:
                self._inlined.add(id(function))
                del self._programs[key]
                return self.differentiate(function, inputs, keywords, wrt)
            found = both(arrays)
            self._programs[key] = function, both
        return found

    def make_form(self, function: Callable[..., Any], form: FrameworkForm) -> Callable[..., Any]:
        """The function in this form, of arrays (B,H,T,D)."""
        return make_form(function, form)

    def forget(self) -> None:
        """Drop what is compiled: megabytes for a shape, gigabytes in a long run."""
        self._programs.clear()
        self._inlined.clear()
        FORM_CACHE.clear()
        jax.clear_caches()


LIFT = JaxLift


def _devices_by_name() -> Dict[str, Any]:
    """Every device by its names, `cpu:0` or `cuda:0`; the first of a kind by its kind, too."""
    found: Dict[str, Any] = {}
    for each in _list_devices():
        for kind in _kinds_of_device(each):
            found.setdefault(kind, each)
            found["{}:{}".format(kind, each.id)] = each
    return found


def _kinds_of_device(device: Any) -> Sequence[str]:
    """What it is called: a GPU by its maker's platform, and as JAX does."""
    if device.platform != "gpu":
        return (str(device.platform),)
    return ("rocm" if "rocm" in _platform_version(device).lower() else "cuda", "gpu")


def _platform_version(device: Any) -> str:
    return " ".join(str(getattr(device.client, "platform_version", "")).split())


def _list_devices() -> List[Any]:
    """The devices of every platform that is there."""
    found = list(jax.devices())
    try:
        if any(each.platform == "cpu" for each in found):
            return found
        return found + list(jax.devices("cpu"))
    except RuntimeError:  # JAX_PLATFORMS leaves the CPU out
        return found


def _make_backward(pulled: Callable[..., Any], rest: Mapping[str, Any], wrt: Sequence[str],
                   is_inlined: bool) -> Callable[..., Any]:
    """Arrays, any shape, by name to output and gradients. pulled: see `_call_with_leaves`."""
    def both(arrays: Dict[str, Any]) -> Any:
        with jax.disable_jit() if is_inlined else contextlib.nullcontext():
            leaves = [making.find_argument(arrays, name) for name in wrt]
            output, pull = jax.vjp(partial(pulled, {**arrays, **rest}), *leaves)
            return output, list(pull(arrays[plain.GRAD_KEYWORD].astype(output.dtype)))

    return both


def _call_with_leaves(function: Callable[..., Any], given: Mapping[str, Any], *leaves: Any,
                      wrt: Sequence[str], once: Sequence[str]) -> Any:
    """What the function makes of arguments, arrays of any shape among them, of which some are the
    leaves. once: those that are the query itself.
    """
    every = making.replace_arguments(given, dict(zip(wrt, leaves)))
    every.update(dict.fromkeys(once, every["query"]))
    del every[plain.GRAD_KEYWORD]
    inputs = [every.pop(name) for name in plain.INPUTS]
    return function(*inputs, **every)


_hasty_jits: List[Any] = []


def _hasty_jit() -> Callable[..., Any]:
    """`jax.jit` with a hasty compiler, five times as fast, where JAX takes its options."""
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
    found: Callable[..., Any] = _hasty_jits[0]
    return found


def _enable_x64() -> Any:
    """The context manager, under the name that it has in this version of JAX."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64
    from jax.experimental import enable_x64  # noqa: PLC0415  (gone from new versions)

    return enable_x64
