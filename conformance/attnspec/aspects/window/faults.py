"""Faults of windows: lost, a key too wide, one-sided, or laid along the wrong diagonal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attnspec.core.forms import CACHE, InputForm
from attnspec.core.keyword import Window
from attnspec.core.keywords import KeywordArguments
from attnspec.core.nouns import Kind
from attnspec.faults import backward as edit
from attnspec.faults import staged as sound
from attnspec.faults.backward import gradient_fault
from attnspec.faults.edges import over_zero
from attnspec.faults.fault import (
    EVEN,
    GROUPED,
    ONE,
    QUERIES,
    SQUARE,
    AspectFaults,
    Fault,
    Outside,
    SizeThread,
    Stage,
    panel_recipe,
)
from attnspec.faults.lost_keywords import LostKeyword, forget, forget_in_layer, heed_in_first
from attnspec.faults.size_family import BLOCKS, LENGTHS, FaultFamily, longer_than
from attnspec.faults.staged import Attend, staged
from attnspec.faults.staged_forms import CacheContent, attending, decoder, staged_layer
from attnspec.faults.staged_work import AspectStage, Mechanism, PreparedCall, Reach, each_by
from attnspec.problems.problem import Array

Near = Callable[[PreparedCall], Array]


def _lie_within(ahead: Array, window: Window) -> Array:
    """Which keys are in the window, by how far `ahead` they lie, (T,S) or (B,1,T,S)."""
    left, right = window
    return (ahead >= (-np.inf if left is None else -left)) & (ahead <= (np.inf if right is None else right))


def within_window(T: int, S: int, window: Window, shift: int = 0) -> Array:
    """Query i sees the keys i + shift - left … i + shift + right: (T,S); None is no bound."""
    return _lie_within(np.arange(S) - np.arange(T)[:, None] - shift, window)


class WindowStage(AspectStage):
    """The window as attention computes it."""

    def visible_keys(self, call: KeywordArguments[Array], ahead: Array) -> Array | None:
        """The keys in the window, (T,S) or (B,1,T,S); None without one."""
        return None if call.window is None else _lie_within(ahead, call.window)

    def reach(self, call: KeywordArguments[Array]) -> Reach:
        """The two sides of the window."""
        return call.window or (None, None)


STAGE = WindowStage()


def _with_window(change: Callable[[Window], Window]) -> Near:
    """A `near` stage with another window."""
    return lambda work: sound.near(work if work.window is None else work.but(window=change(work.window)))


def _where_windowed(make: Callable[[int, int, Window], Array]) -> Near:
    """A `near` stage with other bounds, (T,S), if there is a window."""
    return lambda work: sound.near(work) if work.window is None else make(*work.shape[2:], work.window)


def _wider(window: Window, *, left: int = 0, right: int = 0) -> Window:
    before, after = window
    return (None if before is None else max(before + left, 0), None if after is None else max(after + right, 0))


def _over_zero_in_window(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) divided by the row's sum, even if that is 0, if there is a window."""
    return sound.softmax(logits, work) if work.window is None else over_zero(logits, work)


def _from_first(work: PreparedCall) -> Array:
    """The keys in the window, (T,S), with queries counted from the first key, past or not."""
    return sound.near(work.but(start=0))


def _in_steps(T: int, S: int, window: Window, step: int = 4) -> Array:
    """The keys in the window, (T,S), of the first of each group of four queries."""
    return within_window(T, S, window)[np.arange(T) // step * step]


def _blocks_of_4(T: int, S: int, window: Window) -> Array:
    """The keys in the window, (T,S), in whole blocks of four."""
    near = within_window(T, S, window)
    padded = np.pad(near, [(0, 0), (0, -S % 4)]).reshape(T, -1, 4)
    return np.repeat(padded.any(axis=-1), 4, axis=-1)[:, :S]


def _ring(T: int, S: int, window: Window) -> Array:
    """The keys in the window, (T,S), of a ring: the first queries see the end."""
    return within_window(T, S, window) | within_window(T, S, window, shift=S)


def _left_on(work: PreparedCall, width: int = 32) -> Array:
    """The keys that a query sees under the causal flag, (T,S): itself and the width - 1 before."""
    return sound.past(work) & (within_window(*work.shape[2:], (width - 1, 0)) | (not work.causal))


def _move_edges(left: Callable[[Array, int], Array], right: Callable[[Array, int], Array]) -> Mechanism:
    """A window with other edges: `left` and `right` of the exact ones, (T,1), and the size."""
    def allowed_keys(work: PreparedCall, size: int) -> Array:
        """What the window allows with these edges, (T,S)."""
        _, _, T, S = work.shape
        before, after = work.window or (None, None)
        row, column, allowed = np.arange(T)[:, None], np.arange(S), np.ones((T, S), bool)
        if before is not None:
            allowed &= column >= left(row - before, size)
        if after is not None:
            allowed &= column <= right(row + after, size)
        return allowed
    return each_by("near", allowed_keys)


def _exact(edge: Array, size: int) -> Array:
    """The edge (T,1) as it should be."""
    return edge


_HF = "https://github.com/huggingface/transformers/"
_ANY = "a window narrower than S"

_LOST = LostKeyword("window", "The window is", "a window")

_FAULTS = (
    Fault("window_ignored", "window", "The window is accepted and never used.", _ANY, forget("window")),
    Fault("window_ignored_when_alone", "window",
          "The window is dropped where there is no mask, no bias and no causal flag.",
          f"{_ANY}, without mask, bias and causal flag",
          forget("window", where=lambda call: call.given.keys().isdisjoint({"mask", "bias", "causal"}))),
    Fault("window_left_one_wider", "window", "A window of W keys is cut at W, which keeps W + 1.",
          "a bound on the left", staged(near=_with_window(lambda window: _wider(window, left=1))),
          link=f"{_HF}pull/26792"),
    Fault("window_left_one_narrower", "window", "`>` for `>=`: the window lacks its last key on the left.",
          "a bound of 1 and more on the left", staged(near=_with_window(lambda window: _wider(window, left=-1)))),
    Fault("window_right_one_wider", "window", "The window shows one key too many on the right.",
          "a bound on the right, no causal flag", staged(near=_with_window(lambda window: _wider(window, right=1)))),
    Fault("window_right_one_narrower", "window", "The right bound is exclusive.",
          "a bound of 1 and more on the right, no causal flag",
          staged(near=_with_window(lambda window: _wider(window, right=-1)))),
    Fault("window_right_ignored", "window", "The right bound of the window is ignored.",
          "a bound on the right, no causal flag", staged(near=_with_window(lambda window: (window[0], None)))),
    Fault("window_left_ignored", "window", "The left bound of the window is ignored.",
          "a bound on the left", staged(near=_with_window(lambda window: (None, window[1])))),
    Fault("window_sides_swapped", "window", "The two bounds of the window are exchanged.",
          "unequal sides", staged(near=_with_window(lambda window: (window[1], window[0])))),
    Fault("window_made_symmetric", "window", "The left bound of the window is used for both sides.",
          "unequal sides, no causal flag", staged(near=_with_window(lambda window: (window[0], window[0])))),
    Fault("window_zero_is_none", "window", "A window's bound of 0 is taken for no bound.",
          "a bound of 0; on the right, without causal flag",
          staged(near=_with_window(lambda window: (window[0] or None, window[1] or None)))),
    Fault("window_none_is_zero", "window", "A window's side without bound is taken for 0.",
          "a side without bound; on the right, without causal flag",
          staged(near=_with_window(lambda window: (window[0] or 0, window[1] or 0)))),
    Fault("window_bottom_right", "window", "The window is aligned bottom-right, while top-left is expected.", "T ≠ S",
          staged(near=_where_windowed(lambda T, S, window: within_window(T, S, window, S - T)))),
    Fault("window_replaces_causal", "window",
          "The causal flag is dropped where there is a window: both share one mask.", "a window together with causal",
          forget("causal", where=lambda call: call.window is not None)),
    Fault("window_replaces_mask", "window", "The mask is dropped where there is a window: both share one argument.",
          "a window together with a mask", forget("mask", where=lambda call: call.window is not None)),
    *_LOST.dropped("with_mask", "with_bias", "with_causal", "with_weights", "for_one_query"),
    Fault("window_of_four_rows", "window", "The window is computed once for four queries together.",
          "a window with T > 1", staged(near=_where_windowed(_in_steps))),
    Fault("window_in_blocks_of_4", "window", "The window is applied to whole blocks of keys.",
          _ANY, staged(near=_where_windowed(_blocks_of_4))),
    Fault("window_wraps_round", "window", "Rolled keys make a ring: the first queries see the last keys.",
          "a left side other than 0, no causal flag", staged(near=_where_windowed(_ring))),
    Fault("window_first_batch_only", "window", "The window is applied to the first batch entry only.",
          "a window with B > 1", heed_in_first(0, "window")),
    Fault("window_first_head_only", "window", "The window is applied to the first head only.",
          "a window with H > 1", heed_in_first(1, "window")),
    Fault("window_after_softmax", "window", "Keys outside are cut from the weights, which then do not sum to one.",
          _ANY, staged(near=lambda work: np.ones(work.shape[2:], bool),
                       weigh=lambda weights, work: weights * sound.near(work))),
    Fault("window_hidden_row_nan", "window",
          "A row whose window holds no key is divided by its sum, 0, and becomes NaN; zeros are declared.",
          "a window, and a row that sees no key", staged(softmax=_over_zero_in_window)),
    Fault("past_window_from_first", "past_key", "The window is built with row numbers of the chunk.",
          "a past, together with a window", staged(near=_from_first)),
    Fault("past_window_keeps_past", "past_key", "Every slot of the cache stays visible, whatever the window.",
          "a past, together with a bound on the left",
          staged(near=lambda work: sound.near(work) | (np.arange(work.shape[3]) < sound.start(work)))),
    Fault("switch_window_dropped", "window", "The window is dropped on one of two backends.", _ANY,
          forget("window"), other_path=staged()),
    Fault("layer_window_ignored", "window", "The window is ignored: the layer does not pass it on.", _ANY,
          forget_in_layer("window"), kind=Kind.LAYER),
    Fault("layer_window_one_wider", "window", "The layer's window is one key too wide.", "a bound on the left",
          staged_layer(attend=attending(near=_with_window(lambda window: _wider(window, left=1)))), kind=Kind.LAYER),
)

_LEFT_ON = (
    Fault("causal_window", Stage.CAUSAL, "A sliding window of 32 is left switched on.",
          "causal with T > 32", staged(past=_left_on)),
)


# Decoders whose ring is no larger than the window that a query has


def _in_ring(change: Callable[[int, CacheContent, PreparedCall, Array], Array]) -> Callable[[], Attend]:
    """A maker of decoders that see other keys (T,S) behind a cache, where the window has a left
    bound.

    change: of the ring's number of slots, what is held, the call, and the keys in the window.
    """
    def behind_cache(held: CacheContent) -> dict[str, Any]:
        def visible_keys(work: PreparedCall) -> Array:
            """The keys that each query sees, (T,S)."""
            left, _ = work.window or (None, None)
            visible = sound.near(work)
            return visible if left is None else change(left + 1, held, work, visible)
        return {"near": visible_keys}
    return decoder(behind=behind_cache)


def _chunk_overwrites(ring: int, held: CacheContent, work: PreparedCall, near: Array) -> Array:
    """The keys that queries see, (T,S), if a chunk is in the ring before the first query looks."""
    places = np.arange(work.shape[3])
    return near & ((places > work.shape[3] - 1 - ring) | (places >= held.count))


def _clamp_to_ring(ring: int, held: CacheContent, work: PreparedCall, near: Array) -> Array:
    """The keys that queries see, (T,S), if a full ring has new keys written over the last."""
    places = np.arange(work.shape[3])
    in_ring = (places < ring - 1) | (places == held.count - 1) | (places >= held.count)
    return in_ring & np.ones_like(near) if held.count > ring else near


def _whole_chunk(ring: int, held: CacheContent, work: PreparedCall, near: Array) -> Array:
    """The keys that queries see, (T,S), if each sees what the first of its chunk sees."""
    return near | (near[..., :1, :] & (np.arange(work.shape[3]) < held.count))


_BOUNDED = "a past, together with a window that is bounded to the left"


def _decoder_fault(name: str, story: str, reach: str, make: Callable[[], Attend]) -> Fault:
    return Fault(f"decoder_{name}", CACHE, story, reach, make, form=InputForm.DECODER)


_OF_DECODERS = (
    _decoder_fault("window_restarts", "A window is laid with row numbers of the chunk.",
                   "a past, together with a window", decoder(behind=lambda _: {"near": _from_first})),
    _decoder_fault("window_first_call_only", "A single query behind a cache has no window.", f"{_BOUNDED}, T = 1",
                   _in_ring(lambda _ring, _held, work, near: near | (work.shape[2] == 1))),
    _decoder_fault("ring_rolls_early", "A ring forgets the oldest key one step early.",
                   f"{_BOUNDED} by no more keys than are past", _in_ring(
                       lambda ring, held, work, near: near & (np.arange(work.shape[3]) > held.count - ring + 1))),
    _decoder_fault("ring_overwritten_by_chunk",
                   "A chunk is written to the ring before its first queries have looked.",
                   f"{_BOUNDED}, and several queries", _in_ring(_chunk_overwrites)),
    _decoder_fault("ring_clamped", "Where a ring is full, each key is written over the last slot.",
                   f"{_BOUNDED}, shorter than the past", _in_ring(_clamp_to_ring)),
    _decoder_fault("ring_of_first_row", "All queries of a chunk see the slots that its first query sees.",
                   f"{_BOUNDED}, and several queries", _in_ring(_whole_chunk)),
)

_BACKWARD = (
    gradient_fault("window_dropped", "The backward pass has no window.",
                   "gradients together with window", reread=edit.reread_without("window")),
    gradient_fault("window_wider", "The window is one key wider in the backward pass.",
                   "gradients together with a window that is bounded to the left",
                   reread=edit.reread(window=lambda call: call.window and _wider(call.window, left=1))),
)

_FAMILIES = (
    FaultFamily("size_window_begins_with_block", "window", "the window begins with its block",
                "The window begins at a whole block of keys.", BLOCKS,
                (longer_than("T"), longer_than("S")), "window", needs="a bound on the left"),
    FaultFamily("size_window_begins_late", "window", "the window begins with the next block",
                "The block in which the window begins is skipped.", BLOCKS,
                (longer_than("T"), longer_than("S")), "window", needs="a bound on the left"),
    FaultFamily("size_window_ends_with_block", "window", "the window ends with its block",
                "The window ends at a whole block of keys.", BLOCKS,
                (longer_than("T", (7, 16, 32, 64)), longer_than("S")), "window",
                needs="a bound on the right, no causal flag"),
    FaultFamily("size_window_dropped_long", "window", "the window is left out",
                "Long rows take a kernel without a window.", (0,), (longer_than("S", LENGTHS),), "window"),
)

_MECHANISMS: Mapping[str, Mechanism] = {
    "the window begins with its block": _move_edges(lambda edge, size: edge // size * size, _exact),
    "the window begins with the next block": _move_edges(lambda edge, size: -(-edge // size) * size, _exact),
    "the window ends with its block": _move_edges(_exact, lambda edge, size: edge // size * size + size - 1),
    "the window is left out": lambda _: {"near": lambda work: np.ones(work.shape[2:], bool)},
}

_BUGS: Mapping[str, Mapping[str, str | Outside]] = {
    "mask dropped": {
        "huggingface/transformers/pull/35691": "window_ignored layer_window_ignored",
        "jax-ml/jax/issues/32300": "window_ignored_when_alone",
    },
    "off by one": {
        "huggingface/transformers/issues/39408": "window_left_one_wider window_right_one_wider",
        "huggingface/transformers/pull/26792": "window_left_one_wider layer_window_one_wider mask_one_more",
        "huggingface/transformers/issues/29176": "window_left_one_narrower switch_window_dropped",
    },
    "window bound": {
        "Dao-AILab/flash-attention/issues/1133": Outside.TASTE,
        "jax-ml/jax/pull/39576": "window_right_ignored",
        "pytorch/executorch/pull/22285": "window_of_four_rows past_window_keeps_past decoder_ring_of_first_row",
        "trymirai/lalamo/pull/200": "window_bottom_right past_window_from_first decoder_window_restarts",
        "rajveer43/VeloxQuant-MLX/pull/463":
            "window_dropped_for_one_query mask_dropped_for_one_query decoder_window_first_call_only",
        "flashinfer-ai/flashinfer/issues/3864": "window_first_head_only",
        "sgl-project/sglang/pull/31501": "window_ignored window_left_ignored",
    },
}

_PANEL = (
    panel_recipe(SQUARE, "window", seed=60), panel_recipe(QUERIES, "window causal", seed=61, window=(1, None)),
    panel_recipe(GROUPED, "window mask", seed=62, window=(0, 2)),
    panel_recipe(SQUARE, "window bias", seed=63, window=(None, 1)), panel_recipe(ONE, "window", seed=64, window=(1, 1)),
    panel_recipe(EVEN, "window", seed=65, window=(3, None)), panel_recipe(SQUARE, "sinks window", seed=85),
    panel_recipe(GROUPED, "past_key past_value window", seed=97),
)

_THREADS = (
    SizeThread("vllm-project/vllm/pull/2231", "a window, S no multiple of the page", Outside.CACHE),
)

MISTAKES = AspectFaults(
    about={"window": _FAULTS}, beside={CACHE: _OF_DECODERS}, left_on=_LEFT_ON, backward=_BACKWARD, families=_FAMILIES,
    mechanisms=_MECHANISMS, bugs=_BUGS, threads=_THREADS, panel=_PANEL)
