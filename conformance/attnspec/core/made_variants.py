"""Variants that attnspec makes itself: the forms that a framework makes of a function, each = the plain function.

They have clauses, a profile and a pool of sizes of their own, and are judged only where they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from attnspec.core.errors import UsageError
from attnspec.core.plan import Plan

THEME = "variants"
PROFILE = "variants"
POOL = "variants"

MadeForm = Literal["compile", "export", "onnx", "vmap", "checkpoint"]

VARIANTS: Mapping[str, tuple[MadeForm, ...]] = {
    "compile": ("compile",), "export": ("export", "onnx"), "vmap": ("vmap",), "checkpoint": ("checkpoint",)}
"""What `--variants` names, and the forms that are made for it."""

FORMS: tuple[MadeForm, ...] = tuple(form for forms in VARIANTS.values() for form in forms)

COMPILING: frozenset[str] = frozenset({"compile", "export", "onnx"})
"""Forms for which a compiler runs at every new shape, whatever the framework."""

_NAMES: Mapping[str, Mapping[str, str]] = {
    "torch": {"compile": "torch.compile", "export": "torch.export", "onnx": "the export to ONNX",
              "vmap": "torch.func.vmap", "checkpoint": "torch.utils.checkpoint"},
    "jax": {"compile": "jax.jit", "export": "jax.export", "onnx": "the export to ONNX", "vmap": "jax.vmap",
            "checkpoint": "jax.checkpoint"}}

SHAPES = 5
"""At so many shapes a clause asks for what compiles."""

AS_DECLARED = "declared"
"""In the place of names, in an audit: of each subject those that its manifest asks for."""


def called_there(form: str, lift: str) -> str:
    """What makes the form in a framework: `torch.compile`."""
    return _NAMES[lift][form] if lift in _NAMES else form


def read_variants(texts: Iterable[str]) -> tuple[str, ...]:
    """Names that are separated by commas or stand alone, each once. Raises UsageError for one that there is not."""
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    for name in names:
        if name not in VARIANTS:
            raise UsageError.unknown("variant", name, VARIANTS)
    return tuple(dict.fromkeys(names))


def forms_asked(plan: Plan, declared: Iterable[str] = ()) -> frozenset[str]:
    """The forms that a plan asks for: those that it names; else all, if it names the profile or clauses of the theme.

    declared: of a subject, the variants that its manifest asks for.
    """
    if plan.variants:
        names = declared if plan.variants == (AS_DECLARED,) else plan.variants
        return frozenset(form for name in names for form in VARIANTS[name])
    is_named = PROFILE in plan.asked_for or any(name.partition(".")[0] == THEME for name in plan.clauses)
    return frozenset(FORMS) if is_named else frozenset()


def foretold_variants(names: Iterable[str]) -> Iterator[str]:
    """What the variants are to cost, a line for those that compile, to be told before they are tried."""
    compiling = [name for name in names if name in VARIANTS and COMPILING & {*VARIANTS[name]}]
    if compiling:
        yield (f"variants: {' and '.join(compiling)} run a compiler for every shape, some seconds each, "
               f"up to {SHAPES} shapes a clause and dtype")
