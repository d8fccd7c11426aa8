"""Backward passes that are wrong though the forward pass beside them is right: scales, delta, sums, masks, the cap."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnspec.aspects.gradients.parameter_faults import FAULTS as OF_PARAMETERS
from attnspec.aspects.gradients.state_faults import FAULTS as OF_STATE
from attnspec.core.keyword import GRAD
from attnspec.core.nouns import DType
from attnspec.faults import backward as edit
from attnspec.faults.backward import BFLOAT16, FLOAT16, BackwardMethod, BackwardValues, rounded, times, where
from attnspec.faults.backward import gradient_fault as _fault
from attnspec.faults.fault import AspectFaults, Outside
from attnspec.problems.problem import Array

_ANY = "gradients"
_SCALED = "gradients, a scale other than 1"
_HALVES = (DType.FLOAT16, DType.BFLOAT16)
_TOO_SMALL = dict.fromkeys(_HALVES, "an error of 1e-5 is below a hundredth of a rounding")
_EXACT = dict.fromkeys(_HALVES, "TF32 holds every number of this dtype")


def _one(array: Array, known: BackwardValues) -> Array:  # noqa: ARG001  (an edit's signature)
    """Of any shape, ones."""
    return np.ones_like(array)


_SCALES = (
    _fault("query_unscaled", "The query's gradient is not multiplied by the scale.", _SCALED, query_scale=_one),
    _fault("key_unscaled", "The key's gradient is not multiplied by the scale.", _SCALED, key_scale=_one),
    _fault("key_scaled_twice", "The key's gradient is scaled in the kernel and after it.",
           "gradients, a scale other than 0 and 1",
           key_scale=lambda a, _: a * a),
    _fault("key_scale_of_values", "The key's gradient is scaled by 1/sqrt(Dv), whatever scale is given.",
           "gradients with Dv ≠ D, or together with scale",
           key_scale=lambda a, known: a * 0 + known.taken.value.shape[-1] ** -0.5),
    _fault("query_scale_default", "The query's gradient is scaled by 1/sqrt(D), whatever scale is given.",
           "gradients together with scale", query_scale=lambda a, known: a * 0 + known.taken.query.shape[-1] ** -0.5),
    _fault("scale_default_anew",
           "The backward pass is not told the scale and takes 1/sqrt(D).", "gradients together with scale",
           reread=edit.without("scale")),
    _fault("query_one_percent", "A constant of the query's gradient is off by a hundredth.", query_scale=times(1.01)),
    _fault("key_one_thousandth", "A constant of the key's gradient is off by a thousandth.", key_scale=times(1.001)),
    _fault("scores_one_thousandth", "A factor of dS is off by a thousandth.", wide_scores=times(1.001)),
)

_DELTA = (
    _fault("without_delta", "The weighted mean of dP in a row, sum(P·dP), is not subtracted.", delta=edit.zero),
    _fault("delta_negated", "The weighted mean of dP in a row is added, not subtracted.", delta=times(-1)),
    _fault("delta_twice", "The weighted mean of dP in a row is subtracted twice.", delta=times(2)),
    _fault("delta_of_next_row", "Delta is that of the neighbouring query.", "T > 1", delta=edit.rolled(2)),
    _fault("delta_of_next_head", "Delta is that of the neighbouring head.", "H > 1", delta=edit.rolled(1)),
    _fault("delta_of_output", "Delta is the output times itself.",
           delta=lambda _, known: (known.returned**2).sum(axis=-1, keepdims=True)),
    _fault("delta_bfloat16", "Delta is stored in bfloat16.", delta=rounded(BFLOAT16)),
    _fault("delta_of_float16", "Delta comes of an output that was stored in float16.",
           delta=lambda _, known: (known.taken.grad * rounded(FLOAT16)(known.output, known)).sum(-1, keepdims=True)),
    _fault("delta_lost_at_tile", "The last query of a tile has no delta.", "T > 15",
           delta=where(lambda rows, _: rows % 16 == 15, edit.zero)),
    _fault("delta_unweighted", "Delta is taken off behind the product with the weights.",
           wide_scores=lambda _, known: known.weights * known.products - np.where(known.weights > 0, known.delta, 0)),
    _fault("delta_of_half", "Delta is summed over the first half of the channels.", "Dv > 1",
           delta=lambda _, known: (known.taken.grad * known.output)[..., : -(-known.output.shape[-1] // 2)].sum(
                       axis=-1, keepdims=True)),
)

_WEIGHTS = (
    _fault("weights_unnormalised", "Recomputed weights are not divided by their sum.",
           weights=lambda _, known: known.exponentials),
    _fault("value_weights_unnormalised", "The weights of the value's gradient are not divided by their sum.",
           value_weights=lambda _, known: known.exponentials),
    _fault("weights_epsilon", "An epsilon stands in the denominator, in the backward pass alone.", same=_TOO_SMALL,
           weights=edit.with_epsilon),
    _fault("weights_float16", "Recomputed weights are stored in float16.", weights=rounded(FLOAT16)),
    _fault("weights_bfloat16", "Recomputed weights are stored in bfloat16.", weights=rounded(BFLOAT16)),
    _fault("dropout_left_on", "The backward pass drops weights which the forward pass has kept.", weights=edit.dropped),
    _fault("short_logarithm", "log2(e) has four digits in the backward kernel.", weights=edit.of_short_logarithm),
    _fault("lse_base_two", "The log-sum-exp is read to base two.", lse=lambda a, _: a / a.dtype.type(np.log(2))),
    _fault("lse_bfloat16", "The log-sum-exp is kept in bfloat16.", lse=rounded(BFLOAT16)),
    _fault("lse_of_next_row", "The log-sum-exp is that of the neighbouring query.", "T > 1", lse=edit.rolled(2)),
    _fault("lse_of_next_head", "The log-sum-exp is that of the neighbouring head.", "H > 1", lse=edit.rolled(1)),
    _fault("products_tf32", "dP is formed in TF32.", same=_EXACT, products=edit.products_tf32),
    _fault("products_of_first_head", "dP is formed with the values of the first head.", "Hkv > 1",
           products=lambda _, known: known.taken.grad @ known.taken.value[:, :1].swapaxes(-1, -2)),
    _fault("scores_bfloat16", "dS is stored in bfloat16.", scores=rounded(BFLOAT16)),
    _fault("scores_float16", "dS is stored in float16.", scores=rounded(FLOAT16)),
    _fault("scores_truncated", "dS is cut off to 16 bits.", scores=edit.truncated),
)

_READ = (
    _fault("misread", "The output's gradient is read as if channels came before queries.", "T > 1 and Dv > 1",
           grad=edit.misread),
    _fault("heads_misread", "The output's gradient is read as if it lay (B,T,H,Dv).", "H > 1 and T > 1",
           grad=edit.heads_misread),
    _fault("of_first_entry", "All batch entries have the output's gradient of the first.", "B > 1",
           grad=lambda a, _: a[:1] + 0 * a),
    _fault("of_first_row", "A gradient at stride 0 is taken for granted: the first query's serves all.", "T > 1",
           grad=lambda a, _: a[:, :, :1] + 0 * a),
    _fault("value_of_next_head", "The value's gradient is formed with the neighbouring head's.", "H > 1",
           value_grad=edit.rolled(1)),
    _fault("query_of_first_keys", "The query's gradient is formed with the keys of the first head.", "Hkv > 1",
           query_keys=lambda a, _: a[:, :1] + 0 * a),
    _fault("key_of_next_queries", "The key's gradient is formed with the neighbouring head's queries.", "H > 1",
           key_queries=edit.rolled(1)),
    _fault("key_transposed", "dS is not transposed for the key's gradient.", "T = S > 1",
           key_dots=lambda a, _: a.swapaxes(-1, -2) if a.shape[-1] == a.shape[-2] else a),
    _fault("key_channels_reversed", "The key's channels are written in the order of the registers.", "D > 1",
           key_result=lambda a, _: a[..., ::-1]),
    _fault("key_of_other_entry", "The key's gradient is written to another batch entry.", "B > 1",
           key_sum=lambda a, _: a[::-1]),
    _fault("value_of_other_entry", "The value's gradient is written to another batch entry.", "B > 1",
           value_sum=lambda a, _: a[::-1]),
)

_SUMS = (
    _fault("key_of_one_head", "Of a group, the first head's gradient of the key is kept.", "Hkv < H",
           key_sum=edit.first_of_group),
    _fault("value_of_one_head", "Of a group, the first head's gradient of the value is kept.", "Hkv < H",
           link="https://github.com/marin-community/levanter/pull/449",
           value_sum=edit.first_of_group),
    _fault("key_group_mean", "The key's gradient is the mean over the group.", "Hkv < H", key_sum=edit.mean_of_group),
    _fault("value_group_mean", "The value's gradient is the mean over the group.", "Hkv < H",
           value_sum=edit.mean_of_group),
    _fault("key_groups_by_turns", "Gradients of heads by turns are added up.", "1 < Hkv < H",
           link="https://github.com/XunhaoLai/native-sparse-attention-triton/issues/27",
           key_sum=edit.groups_by_turns),
    _fault("last_keys_skipped", "The last block of keys is left out of the query's gradient.", "S > 16",
           query_dots=where(lambda _, keys: edit.last_block(keys) & (len(keys) > edit.BLOCK), edit.zero)),
    _fault("update_lost", "Two blocks write the query's gradient at once, and the last one stays.", "S > 16",
           query_dots=where(lambda _, keys: ~edit.last_block(keys), edit.zero)),
    _fault("block_twice", "The first block of queries is added to the key's gradient twice.", "T > 4",
           key_dots=where(lambda rows, _: (rows < 4) & (len(rows) > 4), times(2))),
    _fault("last_rows_skipped", "Queries beyond the last whole block are left out of the value's gradient.",
           "T > 16, not a multiple of 16",
           value_weights=where(lambda rows, _: (rows >= len(rows) // 16 * 16) & (len(rows) > 16), edit.zero)),
    _fault("without_diagonal", "The key at a query's own place is left out of the key's gradient.",
           key_dots=where(np.equal, edit.zero)),
    _fault("query_float16", "The query's gradient is stored in float16.", query_result=rounded(FLOAT16),
           same={DType.FLOAT16: "it is returned in float16 anyway"}),
    _fault("query_fixed_point", "The query's gradient is stored in fixed point.",
           query_result=lambda a, _: np.round(a, 4)),
    _fault("partial_sums_stored", "Sums are stored in the dtype after every 32 terms.",
           "T > 32 or S > 32 in half precision",
           BackwardMethod(frozenset({"partial"}), block=32), link="https://github.com/facebookresearch/xformers/pull/467",
           same={DType.FLOAT64: "it is computed in the dtype", DType.FLOAT32: "it is computed in the dtype"}),
)

_VISIBILITY = (
    _fault("hidden_keys_leak", "Hidden keys get a thousandth of the output's gradient.", "hidden keys",
           value_weights=lambda a, known: np.where(known.taken.visible, a, a.dtype.type(1e-3))),
    _fault("causal_dropped", "The backward pass is not causal.", "gradients together with causal",
           reread=edit.without("causal")),
    _fault("causal_off_by_one", "The backward pass leaves out the diagonal.", "gradients together with causal",
           weights=lambda a, known: np.where(known.taken.call.causal & np.equal(*edit.places(known)), 0, a)),
    _fault("mask_dropped", "The backward pass does not mask.", "gradients together with mask",
           reread=edit.without("mask")),
    _fault("bias_dropped", "Weights are recomputed without the bias.", "gradients together with bias",
           reread=edit.without("bias")),
    _fault("window_wider", "The window is one key wider in the backward pass.",
           "gradients together with a window that is bounded to the left",
           reread=edit.reread(window=lambda call: call.window and (
                       None if call.window[0] is None else call.window[0] + 1, call.window[1]))),
    _fault("key_lengths_dropped", "The backward pass knows no lengths.", "gradients together with key_lengths",
           reread=edit.without("key_lengths")),
    _fault("empty_row_nan", "0/0 stands in the gradients of rows that see no key.", "a row that sees no key",
           link="https://github.com/pytorch/pytorch/issues/41508",
           scores=lambda a, known: np.where(edit.empty_rows(known), np.nan, a)),
    _fault("empty_row_mean", "A row that sees no key has the gradient of a mean.", "a row that sees no key",
           scores=lambda a, known: np.where(edit.empty_rows(known), (known.products - known.delta) / a.shape[-1], a)),
)

_ADDED = (
    _fault("bias_scaled", "The bias's gradient is multiplied by the scale.", "gradients together with bias",
           full_bias=lambda a, known: a * a.dtype.type(known.taken.factor)),
    _fault("bias_not_summed", "Of a bias that is broadcast, the first row's gradient is kept.",
           "gradients together with a bias of four axes that is broadcast",
           bias_sum=lambda a, known: known.scores[tuple(map(slice, a.shape))] if a.ndim == 4 else a),
    _fault("bias_mean", "The gradient of a bias that is broadcast is a mean.",
           "gradients together with a bias that is broadcast",
           bias_sum=lambda a, known: a * a.dtype.type(a.size / known.scores[..., :known.taken.keys].size)),
    _fault("bias_leaks", "The bias's gradient is not masked.", "gradients together with bias and hidden keys",
           full_bias=lambda a, known: np.where(known.taken.visible[..., :known.taken.keys], a, a.dtype.type(1e-3))),
    _fault("sinks_negated", "The sink's gradient has the opposite sign.", "gradients together with sinks",
           sinks_sum=times(-1)),
    _fault("sinks_of_first_entry", "The sink's gradient is that of the first batch entry.",
           "gradients together with sinks and B > 1",
           sinks_sum=lambda _, known: known.scores[:1, :, :, known.taken.keys].sum(axis=(0, 2))),
    _fault("sinks_dropped", "Weights are recomputed without the sink's share.", "gradients together with sinks",
           lse=lambda a, known: a if known.taken.call.sinks is None else a + np.log1p(
                       -np.minimum(known.weights[..., known.taken.keys:], 0.999))),
)

_BUGS: Mapping[str, Mapping[str, str | Outside]] = {"backward pass": {
    "ROCm/aotriton/issues/236": "grad_ignores_strides",
    "marin-community/levanter/pull/449": "grad_key_of_one_head grad_value_of_one_head",
    "XunhaoLai/native-sparse-attention-triton/issues/27": "grad_key_groups_by_turns",
    "pytorch/pytorch/issues/41508": "grad_empty_row_nan",
    "facebookresearch/xformers/pull/467": "grad_partial_sums_stored",
    "huggingface/diffusers/pull/14341": "grad_heads_misread",
    "paiml/aprender/pull/2203": "grad_param_severed",
    "hao-ai-lab/FastVideo/pull/925": "grad_key_lengths_dropped",
}}

MISTAKES = AspectFaults(
    about={GRAD: (*_SCALES, *_DELTA, *_WEIGHTS, *_READ, *_SUMS, *_VISIBILITY, *_ADDED)},
    backward=(*OF_STATE, *OF_PARAMETERS), bugs=_BUGS)
