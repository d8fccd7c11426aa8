"""What stands against putting a problem to a subject: what it takes, lacks, declares and was found to refuse."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnspec.core.declaration import Declaration, Limits
from attnspec.core.forms import InputForm
from attnspec.core.keyword_nouns import APART, GRAD
from attnspec.core.keywords import AXES, SEGMENTED, load_parts
from attnspec.core.nouns import Kind
from attnspec.problems.problem import Array, LayerProblem, Problem, Sizes
from attnspec.problems.rotary import RotaryProblem
from attnspec.subjects.backward import BackwardPass, can_differentiate, refuses_gradients
from attnspec.subjects.lower import lowering_misfit

_MADE: Mapping[InputForm, str] = {InputForm.PACKED: "a packed function's inputs are made by packing",
                                  InputForm.PAGED: "a paged function's keys and values are put into pages"}
"""By form, why a subject is not asked about the memory of its arrays."""

STRIDED, GAPS = "inputs that are not contiguous", "inputs with gaps along their last axis"
"""What a function refuses that takes contiguous arrays only, and one that takes contiguous features only."""

WITHOUT_CAUSAL = "calls without the causal flag"


@dataclass(frozen=True, slots=True)
class Misfits:
    """What stands against putting problems to one subject: its declaration, what it was found to refuse, its backward
    pass.
    """

    id: str
    declaration: Declaration
    refused_words: Mapping[str, str]
    backward: BackwardPass | None

    def why_lacking(self, keywords: frozenset[str]) -> str:
        """Why a problem with these keywords cannot be put to the subject; empty if it can."""
        missing = sorted(keywords - self.declaration.keywords)
        if GRAD in missing and GRAD not in self.refused_words:
            return self._without_gradients()
        if refused := next((name for name in missing if name in self.refused_words), ""):
            return f"{self.id} refuses {refused} ({self.refused_words[refused]})"
        return f"{self.id} takes no {' and no '.join(missing)}" if missing else ""

    def _without_gradients(self) -> str:
        """Why it is not asked for gradients."""
        if refuses_gradients(self.declaration):
            return f"{self.id} gives no gradients, as it declares"
        if can_differentiate(self.declaration):
            return APART.format(self.id)
        if self.declaration.lift and (noun := _undifferentiated(self.declaration)):
            return f"gradients of {noun} are not judged"
        return f"{self.id} has no backward pass"

    def why_unfit(self, problem: Problem | LayerProblem | RotaryProblem) -> str:
        """Why this problem cannot be put to the subject: a keyword that it lacks or a limit; empty if it can."""
        reasons = self._of_rotary(problem) if isinstance(problem, RotaryProblem) else self._reasons(problem)
        return next(filter(None, reasons), "")

    def _of_rotary(self, problem: RotaryProblem) -> Iterator[str]:
        """What stands against the problem of a rotary embedding."""
        if self.declaration.kind is not Kind.ROTARY:
            yield f"{self.id} is not a rotary embedding"
        if problem.dtype not in self.declaration.dtypes:
            yield f"{self.id} does not support {problem.dtype.value}"
        yield self._misfit(self.declaration.limits, problem.sizes, problem.given)
        yield self.why_lacking(problem.keywords)

    def _reasons(self, problem: Problem | LayerProblem) -> Iterator[str]:
        """What stands against the problem, one after the other; "" where something does not."""
        declaration, limits, sizes, given = self.declaration, self.declaration.limits, problem.sizes, problem.given
        if declaration.kind is Kind.ROTARY:
            yield f"{self.id} is a rotary embedding"
        if problem.dtype not in declaration.dtypes:
            yield f"{self.id} does not support {problem.dtype.value}"
        if not limits.broadcasts and not _at_full_shape(given, sizes):
            yield f"{self.id} takes masks and biases at full shape only"
        if limits.contiguous_features and not _has_contiguous_features(problem):
            yield f"{self.id} takes inputs that are contiguous along their last axis only{self._words_for(GAPS)}"
        if limits.contiguous and not is_contiguous(problem):
            yield f"{self.id} takes contiguous inputs only{self._words_for(STRIDED)}"
        if declaration.form in _MADE:
            yield _own_layout(problem, _MADE[declaration.form])
        if problem.key.shape[-2] != problem.value.shape[-2]:
            yield "a page holds a value for every key" if declaration.form is InputForm.PAGED else \
                "one input serves as key and value" if limits.one_memory else ""
        yield from self._of_keywords(given)
        if isinstance(problem, Problem):
            yield from (part.misfit(problem, limits) for part in load_parts("arrays")
                        if not declaration.keywords.isdisjoint(part.ARRAYS))
        if GRAD in given and isinstance(problem, Problem):
            without = "" if can_differentiate(declaration) else self._without_gradients()
            yield self.backward.why_no_gradients(problem, limits) if self.backward else without
        if declaration.kind is Kind.LAYER:
            misfit = lowering_misfit(_of_call(problem), limits)
            yield misfit or _own_layout(problem, "a layer's inputs are made by the lowering")
            limits = replace(limits, ties_value_width=False)  # what is lowered to it is as wide as it needs
        elif isinstance(problem, LayerProblem):
            yield f"{self.id} is not a layer"
        if problem.has_past:
            yield self._of_past(_of_call(problem))
        yield self._misfit(limits, sizes, given)
        yield self.why_lacking(frozenset(given))

    def of_sizes(self, sizes: Sizes, keywords: Collection[str]) -> str:
        """Why attention of these sizes cannot be put to the subject with these keywords; empty if it can."""
        return self._misfit(self.declaration.limits, sizes, keywords)

    def _misfit(self, limits: Limits, sizes: Sizes, keywords: Collection[str]) -> str:
        reason = limits.misfit_of(sizes.by_axis, keywords)
        return f"{self.id} {reason}{self._words_for(reason)}; here {sizes}" if reason else ""

    def _of_past(self, call: Sizes) -> str:
        """What stands against a call of these sizes behind a past."""
        limits = self.declaration.limits
        return "" if limits.takes_behind_past(call.T, call.S) else (
            f"{self.id} takes only as many new keys as queries where there is a past; here {call}")

    def _words_for(self, reason: str) -> str:
        """What the function said where it is known to refuse it."""
        words = self.refused_words.get(reason.removeprefix("refuses "), "")
        return f" ({words})" if words else ""

    def _of_keywords(self, given: Mapping[str, Any]) -> Iterator[str]:
        """What stands against the keywords in use."""
        limits, is_causal = self.declaration.limits, "causal" in given
        if limits.causal_only and not is_causal:
            yield f"{self.id} is always causal{self._words_for(WITHOUT_CAUSAL)}"
        for name, value in given.items():
            if reason := limits.misfit(name, value, causal=is_causal):
                yield f"{self.id} takes {reason}; here {value}"
        if limits.segments_are_shared and not np.array_equal(*(given.get(name, ()) for name in SEGMENTED)):
            yield f"{self.id} takes one array of segments, for queries and keys"
        if limits.mask_axes != "BHTS" and _varies(given.get("mask"), limits.mask_axes):
            yield f"{self.id} takes masks that differ along {', '.join(limits.mask_axes)} only"


def _undifferentiated(declaration: Declaration) -> str:
    """What a reader calls subjects that no framework is asked about; empty of others."""
    return {InputForm.PAGED: "functions that read pages", InputForm.DECODER: "decoders"}.get(declaration.form, "")


def _at_full_shape(given: Mapping[str, Any], sizes: Sizes) -> bool:
    full = (sizes.B, sizes.H, sizes.T, sizes.S)
    return all(array.shape == full for name, array in given.items() if AXES.get(name) == "BHTS")


def _varies(mask: Array | None, axes: str) -> bool:
    """Whether a mask, (B,H,T,S) or of its last axes, differs along another axis than these."""
    others = () if mask is None else tuple(at - 4 for at, axis in enumerate("BHTS") if axis not in axes)
    return mask is not None and any(-at <= mask.ndim and (mask != mask.take([0], at)).any() for at in others)


def _has_contiguous_features(problem: Problem | LayerProblem) -> bool:
    """A stride along a single feature leads nowhere, but kernels look at it all the same."""
    return all(array.strides[-1] == array.itemsize for array in (problem.query, problem.key, problem.value))


def is_contiguous(problem: Problem | LayerProblem) -> bool:
    """Whether query, key and value lie in memory without gaps, in the order of their axes."""
    return all(array.flags.c_contiguous for array in (problem.query, problem.key, problem.value))


def _of_call(problem: Problem | LayerProblem) -> Sizes:
    """The sizes of the call alone: S counts its new keys."""
    return replace(problem.sizes, S=problem.key.shape[-2])


def _own_layout(problem: Problem | LayerProblem, because: str) -> str:
    """Why a subject cannot be asked about the memory layout of this problem's arrays; empty if it is not asked."""
    arrays = (problem.query, problem.key, problem.value, problem.given.get(GRAD))
    is_plain = all(array is None or array.flags.c_contiguous for array in arrays)
    return "" if is_plain else f"{because}, so it is not asked about their layout"
