"""The forms that JAX makes of a function: compiled, exported, mapped over the batch, recomputed.

What is traced is traced on other numbers than it is asked about, so that what a trace has captured shows.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any, Callable, Dict, Mapping, Tuple

import jax
import jax.numpy as jnp

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

Program = Callable[[Mapping[str, Any]], Any]

KEPT = Kept()


def formed(function: Callable[..., Any], form: FrameworkForm) -> Callable[..., Any]:
    """The function in this form, with the same arguments: arrays (B,H,T,D). Raises FormNotMade where there is none."""
    if form.name == ONNX:
        raise FormNotMade("JAX itself exports no ONNX")
    made: Callable[..., Any] = KEPT.of(function, form, lambda: _JaxForm(function, form))
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
        given = Given.of(inputs, keywords, lambda value: isinstance(value, jax.Array))
        if any(isinstance(each, jax.core.Tracer) for each in given.arrays.values()):  # it is being differentiated
            return _MADE[self.form.name](self._plain(given), given.arrays, self.form)(given.arrays)
        key = (*given.kind, _signature(given.arrays))
        if key not in self._programs:
            with refusing():
                self._programs[key] = self._program(given)
        return self._programs[key](given.arrays)

    def _program(self, given: Given) -> Program:
        """Traced and compiled now; on the numbers that are given where the function checks what it gets."""
        with contextlib.suppress(Exception):  # whatever a function says to arguments that it does not like
            return self._traced(given, jax.tree_util.tree_map(lambda each: jnp.roll(each, 1), given.arrays))
        return self._traced(given, given.arrays)

    def _traced(self, given: Given, arrays: Mapping[str, Any]) -> Program:
        """One that asks for compiler options of its own is inlined, see `JaxLift.differentiated`; arrays, any shape."""
        try:
            program: Program = _MADE[self.form.name](self._plain(given), arrays, self.form)
            jax.block_until_ready(program(arrays))
        except ValueError as nested:
            if "compiler_options" not in str(nested) or self._is_inlined:
                raise
            self._is_inlined = True
            return self._traced(given, arrays)
        return program

    def _plain(self, given: Given) -> Program:
        """The function of its arrays, any shape, by name."""
        def plain(arrays: Mapping[str, Any]) -> Any:
            with jax.disable_jit() if self._is_inlined else contextlib.nullcontext():
                if self.form.name == VMAP:
                    return of_entry(self.function, given.rest, self.form.mapped, arrays)
                return called(self.function, given.rest, arrays)

        return plain


def _signature(arrays: Mapping[str, Any]) -> Tuple[Any, ...]:
    """What arrays, any shape, have in common that one program can answer."""
    return tuple((each.shape, str(each.dtype)) for each in jax.tree_util.tree_leaves(arrays))


def _compiled(plain: Program, arrays: Mapping[str, Any], form: FrameworkForm) -> Program:  # noqa: ARG001  (as its siblings)
    """By `jax.jit`; arrays of any shape."""
    program: Program = jax.jit(plain)
    return program


def _exported(plain: Program, arrays: Mapping[str, Any], form: FrameworkForm) -> Program:  # noqa: ARG001  (as its siblings)
    """By `jax.export`, written and read again where what writes it is installed; arrays of any shape."""
    export = importlib.import_module("jax.export")
    exported = export.export(jax.jit(plain))(arrays)
    with contextlib.suppress(ImportError):
        exported = export.deserialize(exported.serialize())
    program: Program = exported.call
    return program


def _mapped(plain: Program, arrays: Mapping[str, Any], form: FrameworkForm) -> Program:
    """By `jax.vmap`, over the batch, in one compiled program; arrays of any shape."""
    axes = {name: 0 if name in form.mapped else None for name in arrays}
    program: Program = jax.jit(jax.vmap(plain, in_axes=(axes,)))
    return program


def _recomputed(plain: Program, arrays: Mapping[str, Any], form: FrameworkForm) -> Program:  # noqa: ARG001  (as its siblings)
    """By `jax.checkpoint`: nothing is kept for the backward pass; arrays of any shape."""
    program: Program = jax.checkpoint(plain)
    return program


_MADE: Dict[str, Callable[..., Program]] = {
    COMPILE: _compiled, EXPORT: _exported, VMAP: _mapped, CHECKPOINT: _recomputed}
