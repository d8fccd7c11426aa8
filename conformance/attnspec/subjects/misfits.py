"""What stands against putting a problem to a subject: what it takes, lacks, declares and was found to refuse.

A layer is posed as attention: its projections are identities or selections, exact in every dtype. So every clause about
attention judges layers too. Where the layer ties widths, heads are padded with zero columns; the padded width then sets
the layer's scale, which `LoweredProblem.head_width` tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from attnspec.core.declaration import Declaration, Limits
from attnspec.core.forms import InputForm
from attnspec.core.keyword import APART, GRAD
from attnspec.core.keywords import AXES, SEGMENTED, load_parts
from attnspec.core.nouns import DType, Kind
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import CACHED_INPUTS, INPUTS, Array, LayerProblem, Problem, Sizes, numpy_dtype
from attnspec.subjects.call import BackwardPass, can_differentiate, refuses_gradients, takes_no_numbers

SHARES: Mapping[str, Mapping[str, int]] = {
    "separate": {"query": 0, "key": 0, "value": 0},
    "memory": {"query": 0, "key": 0, "value": 1},
    "one": {"query": 0, "key": 1, "value": 2},
}
"""By what a layer is fed, which part of its input's columns, within each head, holds query, key and value."""


@dataclass(frozen=True, slots=True, eq=False)
class LoweredProblem:
    """query (B,T,M), key and value (B,S,M), the parameters, and how wide the layer's heads are.

    shares: of which part of a head's columns in its input each of the three is made.
    """

    query: Array
    key: Array
    value: Array
    params: Mapping[str, Array]
    sizes: Sizes
    head_width: int
    value_width: int
    shares: Mapping[str, int]

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """(B,T,M), or (B,T,H·Dv) of a layer without output projection."""
        width = self.sizes.H * self.value_width
        out = self.params.get("w_out")
        return self.sizes.B, self.sizes.T, width if out is None else out.shape[1]

    def heads_of(self, output: Array) -> Array:
        """The layer's output (B,T,M) as that of attention (B,H,T,Dv)."""
        B, H, T = self.sizes.B, self.sizes.H, self.sizes.T
        heads = output[..., : H * self.value_width].reshape(B, T, H, self.value_width)
        return heads.swapaxes(1, 2)[..., : self.sizes.Dv]

    @property
    def first_of(self) -> Mapping[str, str]:
        """For each input, the first one that is the same array: itself, or the one that serves for it, too."""
        first = {id(getattr(self, name)): name for name in reversed(INPUTS)}
        return {name: first[id(getattr(self, name))] for name in INPUTS}

    def output_of(self, heads: Array) -> Array:
        """An array (B,H,T,Dv) that lies as attention's output does, as the layer's (B,T,M)."""
        return _side_by_side(heads, self.value_width, self.output_shape[2])

    def project_heads(self, name: str, heads: Array) -> Array:
        """What a projection, or the heads together (`out`), make, (B,H,T,D) or (B,Hkv,S,·) as attention has it, in the
        layer: (B,T,H·D) and its like, zeros where heads are wider.
        """
        width = self.value_width if name in {"value", "out"} else self.head_width
        return _side_by_side(heads, width, heads.shape[1] * width)

    def heads_of_inputs(self, gradients: Mapping[str, Array]) -> Mapping[str, Array]:
        """Gradients of the layer's inputs, (B,T,M) and its like, as those of attention, (B,H,T,D) and its like: each
        column of an input is an entry of one head. Those of other inputs stay as they are.
        """
        n, parts, found = self.sizes, _parts(self.shares), dict(gradients)
        lie = {"query": (n.H, self.head_width, n.D), "key": (n.Hkv, self.head_width, n.D),
               "value": (n.Hkv, self.value_width, n.Dv)}
        for name, (heads, padded, width) in lie.items():
            columns = gradients[self.first_of[name]][..., : heads * padded]
            apart = columns.reshape(*columns.shape[:2], heads, parts, padded // parts)
            found[name] = apart[:, :, :, self.shares[name], :width].swapaxes(1, 2)
        return found


def lower_problem(problem: Problem, limits: Limits) -> LoweredProblem:
    """The problem for a layer with these limits. Raises ValueError where they forbid it (see `misfit`)."""
    if reason := lowering_misfit(problem.sizes, limits):
        raise ValueError(reason)
    return _three_inputs(problem, limits) if limits.inputs == "separate" else _in_parts(problem, limits)


def lowering_misfit(sizes: Sizes, limits: Limits) -> str:
    """Why a layer with these limits cannot be posed a problem of these sizes; empty if it can."""
    if limits.self_attention_only and sizes.T != sizes.S:
        return f"it attends to its own input, so T = S; here {sizes}"
    if limits.grouped is False and sizes.Hkv != sizes.H:
        return f"it has as many key/value heads as query heads; here {sizes}"
    if limits.single_head and sizes.H != 1:
        return f"it has one head; here {sizes}"
    return ""


def head_width(sizes: Sizes, limits: Limits) -> int:
    """The head width of the lowered layer: the one whose root scales its logits."""
    if (parts := _parts(SHARES[limits.inputs])) > 1:
        # an input that serves for several holds them side by side in every head
        return parts * max(sizes.D, sizes.Dv)
    return max(sizes.D, sizes.Dv) if _ties(limits) else sizes.D


def _parts(shares: Mapping[str, int]) -> int:
    return 1 + max(shares.values())


def _ties(limits: Limits) -> bool:
    return limits.ties_value_width or limits.ties_model_width


def _three_inputs(problem: Problem, limits: Limits) -> LoweredProblem:
    """Identity projections; the model is as wide as the widest of its heads laid side by side."""
    sizes, width = problem.sizes, head_width(problem.sizes, limits)
    value_width = width if _ties(limits) else sizes.Dv
    M = sizes.H * max(width, value_width)
    columns = {"query": (sizes.H, width), "key": (sizes.Hkv, width), "value": (sizes.Hkv, value_width)}
    inputs = {name: _side_by_side(getattr(problem, name), per_head, M) for name, (_, per_head) in columns.items()}
    widths = (sizes.H * width, sizes.Hkv * width, sizes.Hkv * value_width, sizes.H * value_width)
    params = _identities(M, widths, problem.dtype, limits)
    return LoweredProblem(**inputs, params=params, sizes=sizes, head_width=width, value_width=value_width,
                          shares=SHARES[limits.inputs])


def _in_parts(problem: Problem, limits: Limits) -> LoweredProblem:
    """X = [q|k|v], or a query [q|0] and a memory [k|v], within each head, and projections that select them; the first
    heads alone have keys and values.
    """
    shares, width = SHARES[limits.inputs], head_width(problem.sizes, limits)
    held = _join_projections(problem, INPUTS if limits.self_attention_only else CACHED_INPUTS, shares, width)
    query = held if limits.self_attention_only else _join_projections(problem, INPUTS[:1], shares, width)
    params = _selections(problem.sizes.H, problem.sizes.Hkv, width, problem.dtype, limits)
    return LoweredProblem(query, held, held, params, problem.sizes, width, width, shares)


def _join_projections(problem: Problem, names: Sequence[str], shares: Mapping[str, int], width: int) -> Array:
    """(B,T,H·width) or (B,S,H·width): these of query, key and value, each in its part of every head's columns."""
    arrays, parts = {name: getattr(problem, name) for name in names}, _parts(shares)
    B, _, length, _ = arrays[names[0]].shape
    model = np.zeros((B, length, problem.sizes.H, parts, width // parts), problem.query.dtype)
    for name, array in arrays.items():
        model[:, :, :array.shape[1], shares[name], : array.shape[-1]] = array.swapaxes(1, 2)
    return model.reshape(B, length, problem.sizes.H * width)


def _side_by_side(array: Array, per_head: int, M: int) -> Array:
    """(B,H,T,D) to (B,T,M), (B,Hkv,S,D) to (B,S,M): each head takes `per_head` columns, and zeros fill what is left."""
    B, heads, length, width = array.shape
    model = np.zeros((B, length, M), array.dtype)
    model[..., : heads * per_head].reshape(B, length, heads, per_head)[..., :width] = array.swapaxes(1, 2)
    return model


@lru_cache(maxsize=32)
def _identities(M: int, widths: tuple[int, int, int, int], dtype: DType, limits: Limits) -> Mapping[str, Array]:
    """w_query (M,H·D), w_key (M,Hkv·D), w_value (M,Hkv·Dv) and w_out (H·Dv,M), with ones on the diagonal. `widths`: how
    wide the projected query, key and value and the concatenated heads are.
    """
    query, key, value, heads = widths
    weights = {"w_query": _eye(M, query, dtype), "w_key": _eye(M, key, dtype), "w_value": _eye(M, value, dtype),
               "w_out": _eye(heads, M, dtype)}
    return _params(weights, limits)


@lru_cache(maxsize=32)
def _selections(heads: int, kv_heads: int, width: int, dtype: DType, limits: Limits) -> Mapping[str, Array]:
    """w_query (M,M), w_key and w_value (M,Hkv·D): head by head, each selects its part of the input's columns."""
    shares = SHARES[limits.inputs]
    count, read = width // _parts(shares), {"query": heads, "key": kv_heads, "value": kv_heads}
    # heads own blocks of columns, so the parts are picked within each block
    weights = {f"w_{name}": _part(heads, width, share * count, count, dtype)[:, :read[name] * width]
               for name, share in shares.items()}
    return _params({**weights, "w_out": _eye(heads * width, heads * width, dtype)}, limits)


def _part(heads: int, width: int, first: int, count: int, dtype: DType) -> Array:
    """(M,M): per head, the columns `first` … `first + count - 1` moved to the front, zeros behind."""
    block = np.zeros((width, width), bool)
    block[np.arange(first, first + count), np.arange(count)] = True
    return np.kron(np.eye(heads, dtype=bool), block).astype(numpy_dtype(dtype))


def _eye(rows: int, columns: int, dtype: DType) -> Array:
    """A parameter such as w_query (M,H·D), with ones on the diagonal."""
    return np.eye(rows, columns, dtype=bool).astype(numpy_dtype(dtype))


def _params(weights: Mapping[str, Array], limits: Limits) -> Mapping[str, Array]:
    """Only the parameters that the layer has, w_query (M,H·D) and its like; its biases, b_query (H·D,), are zero."""
    kept = {name: weight for name, weight in weights.items() if limits.projects_output or name != "w_out"}
    zeros = {f"b{name[1:]}": np.zeros(weight.shape[1], weight.dtype) for name, weight in kept.items()
             if limits.is_biased(name.removeprefix("w_"))}
    return {**kept, **zeros}


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
            yield from (part.misfit(problem, limits, declaration.form) for part in load_parts("arrays")
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
    if takes_no_numbers(declaration):
        return str(next(part.CALLED for part in load_parts("limits")))
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
