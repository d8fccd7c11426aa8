"""Numbers of keys that are lost, taken from another batch entry, counted wrongly, or heeded in one place only."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attnspec.faults import invariance, serving
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage, WrongForm
from attnspec.faults.staged import staged
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

BLOCK = 8
Keys = Callable[[PreparedCall], Array]


def _all(work: PreparedCall) -> Array:
    """(B,1,1,S): every key of every entry."""
    return np.ones((work.shape[0], 1, 1, work.shape[3]), bool)


def _with_lengths(change: Callable[[Array], Array]) -> Keys:
    """An `own_keys` stage with other lengths (B,) than it was given."""
    return lambda work: serving.own_keys(work if work.key_lengths is None else
                                       work.but(key_lengths=change(work.key_lengths)))


def _dropped_if(condition: Callable[[PreparedCall], bool]) -> Keys:
    return lambda work: _all(work) if condition(work) else serving.own_keys(work)


def _zero_is_all(work: PreparedCall) -> Array:
    """(B,1,1,S): a length of 0 means that none was given."""
    return serving.own_keys(work) | ~serving.own_keys(work).any(axis=-1, keepdims=True)


def _bound_by_queries(work: PreparedCall) -> Array:
    """(B,1,1,S): no more keys than there are queries."""
    lengths = work.key_lengths
    return serving.own_keys(work if lengths is None else work.but(key_lengths=np.minimum(lengths, work.shape[2])))


def _last_ones(work: PreparedCall) -> Array:
    """(B,1,1,S): as many keys as the entry has, counted from the end."""
    return serving.own_keys(work)[..., ::-1]


def _of_flat_heads(work: PreparedCall) -> Array:
    """(B,H,1,S): the lengths are read at the index of the head among those of all entries."""
    B, H, _, S = work.shape
    if work.key_lengths is None:
        return _all(work)
    flat = work.key_lengths[np.arange(B * H).reshape(B, H) % B]
    return np.arange(S) < flat[..., None, None]


def _first_head_only(work: PreparedCall) -> Array:
    """(B,H,1,S): the lengths are heeded in head 0 alone."""
    return serving.own_keys(work) | (np.arange(work.shape[1]) > 0)[:, None, None]


def _not_in_last_row(work: PreparedCall) -> Array:
    """(B,1,T,S): the last query sees what lies beyond."""
    return serving.own_keys(work) | (np.arange(work.shape[2]) == work.shape[2] - 1)[:, None]


def _added(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) with the bias: -1e4 is added to those beyond a length."""
    biased = sound.add_bias(logits, work)
    return np.where(serving.own_keys(work), biased, biased + biased.dtype.type(-1e4))


def _in_the_sum(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S): keys beyond a length take part in the row's sum, and get no value."""
    weights = sound.softmax(logits, work)
    return np.where(serving.own_keys(work), weights, 0)


def _leaking(weights: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv): 0 times NaN is NaN."""
    return weights @ work.value


def _rows_instead(output: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv): the queries are unpadded with the lengths of the keys."""
    cleared = work.but(query_lengths=work.key_lengths if work.key_lengths is not None else work.query_lengths)
    return serving.clear(output, cleared)


def _from_lengths(work: PreparedCall) -> Array:
    """(B,1,T,S): the causal flag is counted from the lengths' ends, although the first key is declared."""
    if not work.causal or work.key_lengths is None:
        return sound.past(work)
    ahead = np.arange(work.shape[3]) - np.arange(work.shape[2])[:, None]
    return ahead <= (work.key_lengths - work.shape[2])[:, None, None, None]


_ANY = "lengths below S"
_UNEQUAL = "entries of unequal length"

def _longest(work: PreparedCall) -> Sequence[int]:
    """Two parts, cut in the middle of the longest batch entry's keys."""
    S = work.shape[3]
    most = S if work.key_lengths is None else int(work.key_lengths.max(initial=0))
    return (most // 2, S)


FAULTS = (
    Fault("key_lengths_ignored", Stage.KEY_LENGTHS, "The lengths are accepted and not applied.", _ANY,
          staged(own_keys=_all), link="https://github.com/jax-ml/jax/issues/23349"),
    Fault("key_lengths_of_next", Stage.KEY_LENGTHS, "Each batch entry has the length of the next one.", _UNEQUAL,
          staged(own_keys=_with_lengths(lambda lengths: np.roll(lengths, -1)))),
    Fault("key_lengths_of_first", Stage.KEY_LENGTHS, "All batch entries have the length of the first.", _UNEQUAL,
          staged(own_keys=_with_lengths(lambda lengths: np.full_like(lengths, lengths[0])))),
    Fault("key_lengths_largest", Stage.KEY_LENGTHS, "The batch is cut to its longest entry, and no further.", _UNEQUAL,
          staged(own_keys=_with_lengths(lambda lengths: np.full_like(lengths, lengths.max())))),
    Fault("key_lengths_one_longer", Stage.KEY_LENGTHS, "The comparison is <= in place of <.", _ANY,
          staged(own_keys=_with_lengths(lambda lengths: lengths + 1))),
    Fault("key_lengths_one_shorter", Stage.KEY_LENGTHS, "The index of the last key is taken for the number of keys.",
          "lengths of 1 or more", staged(own_keys=_with_lengths(lambda lengths: lengths - 1))),
    Fault("key_lengths_rounded_up", Stage.KEY_LENGTHS, "The last block of 8 keys is attended to whole.",
          "lengths below S that are no multiple of 8",
          staged(own_keys=_with_lengths(lambda lengths: -(-lengths // BLOCK) * BLOCK))),
    Fault("key_lengths_rounded_down", Stage.KEY_LENGTHS, "The last block of 8 keys is left out where it is not full.",
          "lengths above 8 that are no multiple of 8",
          staged(own_keys=_with_lengths(lambda lengths: np.where(lengths > BLOCK, lengths // BLOCK * BLOCK, lengths)))),
    Fault("key_lengths_zero_is_all", Stage.KEY_LENGTHS, "A length of 0 is taken for one that was not given.",
          "a length of 0", staged(own_keys=_zero_is_all)),
    Fault("key_lengths_from_the_end", Stage.KEY_LENGTHS, "The last keys are attended to, as after padding on the left.",
          _ANY, staged(own_keys=_last_ones), link="https://github.com/lablup/mlxcel/issues/75"),
    Fault("key_lengths_of_flat_heads", Stage.KEY_LENGTHS,
          "The kernel's index runs over batch entries and heads, and reads the lengths as if over entries.",
          "entries of unequal length, H > 1", staged(own_keys=_of_flat_heads)),
    Fault("key_lengths_first_head_only", Stage.KEY_LENGTHS, "The lengths are heeded in the first head only.",
          "lengths below S, H > 1", staged(own_keys=_first_head_only)),
    Fault("key_lengths_not_in_last_row", Stage.KEY_LENGTHS, "The last query is masked by the tile's edge alone.", _ANY,
          staged(own_keys=_not_in_last_row)),
    Fault("key_lengths_bound_by_queries", Stage.KEY_LENGTHS, "One length serves queries and keys.",
          "lengths above T", staged(own_keys=_bound_by_queries),
          link="https://github.com/NVIDIA/TransformerEngine/pull/399"),
    Fault("key_lengths_of_queries", Stage.KEY_LENGTHS, "The query rows are unpadded with the lengths of the keys.",
          "lengths below T", staged(clear=_rows_instead),
          link="https://github.com/vllm-project/vllm-omni/issues/5865"),
    Fault("key_lengths_shift_causal", Stage.KEY_LENGTHS,
          "With lengths, the causal flag is aligned at the end, and without at the beginning.",
          "lengths other than T, together with causal", staged(past=_from_lengths)),
    Fault("key_lengths_add_1e4", Stage.KEY_LENGTHS, "Logits beyond a length are lowered by 1e4, not hidden.",
          "logits that differ by 1e4, or a length of 0", staged(own_keys=_all, add_bias=_added)),
    Fault("key_lengths_after_softmax", Stage.KEY_LENGTHS, "Weights beyond a length become 0 after the softmax.", _ANY,
          staged(own_keys=_all, softmax=_in_the_sum)),
    Fault("key_lengths_zero_times_content", Stage.KEY_LENGTHS,
          "What lies beyond a length is multiplied by a weight of 0, and 0 times NaN is NaN.",
          "NaN or infinity beyond a length", staged(mix=_leaking)),
    Fault("key_lengths_dropped_with_causal", Stage.KEY_LENGTHS, "The lengths are dropped where the causal flag is set.",
          "lengths below S, together with causal", staged(own_keys=_dropped_if(lambda work: work.causal))),
    Fault("key_lengths_dropped_with_mask", Stage.KEY_LENGTHS, "The lengths are dropped where there is a mask.",
          "lengths below S, together with a mask", staged(own_keys=_dropped_if(lambda work: work.mask is not None))),
    Fault("key_lengths_dropped_with_bias", Stage.KEY_LENGTHS, "The lengths are dropped where there is a bias.",
          "lengths below S, together with a bias", staged(own_keys=_dropped_if(lambda work: work.bias is not None))),
    Fault("key_lengths_dropped_with_window", Stage.KEY_LENGTHS, "The lengths are dropped where there is a window.",
          "lengths below S, together with a window",
          staged(own_keys=_dropped_if(lambda work: work.window is not None))),
    Fault("key_lengths_dropped_for_one_query", Stage.KEY_LENGTHS, "The decoding path (T = 1) reads the whole buffer.",
          "lengths below S, T = 1", staged(own_keys=_dropped_if(lambda work: work.shape[2] == 1)),
          link="https://github.com/huggingface/transformers/pull/45940"),
    Fault("mapped_lengths_of_first", Stage.KEY_LENGTHS, "The lengths are not mapped along with the queries.",
          "lengths that differ, mapped", staged(),
          made=WrongForm("vmap", staged(own_keys=_with_lengths(lambda own: np.broadcast_to(own[:1], own.shape))))),
    invariance.fault("parts_by_longest", "The keys are cut in the middle of the longest entry's.",
                     "entries of several lengths", invariance.in_parts(_longest), Stage.KEY_LENGTHS),
)
