"""Words of `then` about the forms of a subject that attnspec makes itself."""

from __future__ import annotations

from attnspec.core.made_variants import COMPILING, MadeForm, called_there
from attnspec.core.nouns import DType
from attnspec.record.outcome import Measured
from attnspec.vocabulary.measures import keep, measure, seen_of
from attnspec.vocabulary.observables import Observable, claimed_of_both, see
from attnspec.vocabulary.scene import OutsideLimits, Scene, Side
from attnspec.vocabulary.signature import ORIGINAL, RunName

SPARED = "forms that compile are not made in this case, to save time"

OF_OPERATORS = "an ONNX graph stores what each operator returns: in half precision that is arithmetic of its own"


def form_agrees(scene: Scene, *, form: MadeForm, observe: Observable, run: RunName = ORIGINAL) -> Measured:
    """The form that a framework makes of the subject's function gives the array that the plain function gives, within
    rounding.

    What is traced for it is traced on other numbers of the same shapes.
    """
    lift = scene.subject.declaration.lift
    if not scene.compiles and (form in COMPILING or lift == "jax"):
        raise OutsideLimits(SPARED)
    if form == "onnx" and scene.dtype in (DType.FLOAT16, DType.BFLOAT16):
        raise OutsideLimits(OF_OPERATORS)
    name = called_there(form, lift)
    other = see(scene.against(scene.evaluator.made(form)), run, observe)
    base = see(scene, run, observe)
    slack, claimed = base.allowance + other.allowance, claimed_of_both(base, other)
    found = measure("form_agrees", other.array, base.array, slack, claimed,
                    what=f"{observe} by {name} should be that without")
    shown = seen_of(observe, run, other.array)
    return keep(scene, found, Side(f"{shown.name} by `{name}`", run, other.array),
                Side(f"{shown.name} without it", run, base.array), (slack, claimed), observed=observe)
