"""Softcaps that are lost, taken at the wrong place, or bent the wrong way."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnspec.core.nouns import Kind
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.layer import attending, staged_layer
from attnspec.faults.staged import staged
from attnspec.faults.work import PreparedCall
from attnspec.problems.problem import Array

BLOCK = 16
Cap = Callable[[Array, PreparedCall], Array]


def _uncapped(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """The scaled logits (B,H,T,S), not capped."""
    return logits


def _bent(bend: Callable[[Array, np.floating], Array]) -> Cap:
    """A `cap` stage that bends otherwise: of scaled logits (B,H,T,S) and cap."""
    return lambda logits, work: logits if work.softcap is None else bend(logits, logits.dtype.type(work.softcap))


def _with_cap(change: Callable[[float], float | None]) -> Cap:
    """A `cap` stage with another cap than it was given."""
    return lambda logits, work: sound.cap(logits, work if work.softcap is None else
                                          work.but(softcap=change(work.softcap)))


def _dropped_if(condition: Callable[[PreparedCall], bool]) -> Cap:
    return lambda logits, work: logits if condition(work) else sound.cap(logits, work)


def _tanh(logits: Array, cap: np.floating) -> Array:
    """Logits (B,H,T,S) bent as the definition says: tanh(logits / cap) · cap."""
    return np.tanh(logits / cap) * cap


def _rational(logits: Array, cap: np.floating) -> Array:
    """Logits (B,H,T,S) bent by the continued fraction u (27 + u²) / (27 + 9 u²), clipped to ±1."""
    u = logits / cap
    return np.clip(u * (27 + u * u) / (27 + 9 * u * u), -1, 1) * cap


def _eleven_bits(logits: Array, cap: np.floating) -> Array:
    """Logits (B,H,T,S) bent by the tanh of a GPU's special function unit, off by up to 2^-11 of itself."""
    return (_tanh(logits, cap) * (1 + 2.0**-11 * np.sin(1000 * logits))).astype(logits.dtype)


def _before_scale(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S): the raw dot products are capped, then scaled."""
    factor = logits.dtype.type(sound.scale(work))
    return logits if work.softcap is None or factor == 0 else sound.cap(logits / factor, work) * factor


def _after_bias(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) capped after the bias is added."""
    return sound.cap(sound.add_bias(logits, work), work)


def _after_mask(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S); hidden ones are -inf when they come to the cap: -c."""
    hidden = sound.hide(logits, work)
    return hidden if work.softcap is None else np.maximum(hidden, logits.dtype.type(-work.softcap))


def _after_causal(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S): the caller's mask follows the cap; the causal flag and the window are laid on before."""
    if work.softcap is None:
        return sound.hide(logits, work)
    early = sound.past(work) & sound.near(work)
    leaked = np.where(early, logits, -work.softcap).astype(logits.dtype)
    return np.where(work.visible | (sound.masked(work) & ~early), leaked, -np.inf).astype(logits.dtype)


def _after_maximum(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S): what is capped is the distance from the row's maximum."""
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    shifted = logits - np.where(np.isneginf(top), 0, top)
    return sound.normalise(np.where(np.isneginf(logits), 0, np.exp(sound.cap(shifted, work))))


def _padding_counted(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S): the last block of 16 is filled up with -inf before the cap, which makes -c of it."""
    padding = -work.shape[3] % BLOCK
    if work.softcap is None or not padding:
        return sound.softmax(logits, work)
    filled = np.full((*logits.shape[:-1], padding), -work.softcap, logits.dtype)
    return sound.normalise(sound.exponentials(np.concatenate([logits, filled], axis=-1)))[..., :work.shape[3]]


def _first_block_only(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), capped for the first 16 keys alone."""
    return np.where(np.arange(work.shape[3]) < BLOCK, sound.cap(logits, work), logits)


def _first_head_only(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), capped in head 0 alone."""
    return np.where((np.arange(work.shape[1]) == 0)[:, None, None], sound.cap(logits, work), logits)


_ANY = "logits of the size of the cap"
_HF = "https://github.com/huggingface/transformers/issues/32848"

FAULTS = (
    Fault("softcap_ignored", Stage.SOFTCAP, "The softcap is ignored: the backend has none and does not say so.", _ANY,
          staged(cap=_uncapped), link=_HF),
    Fault("softcap_after_mask", Stage.SOFTCAP,
          "The softcap is applied after the mask: -inf becomes -c, not masked any more.",
          "a softcap together with masked keys", staged(hide=_after_mask),
          link="https://github.com/onnx/onnx/issues/7865"),
    Fault("softcap_after_causal", Stage.SOFTCAP, "The softcap is applied after the causal mask and the window.",
          "a softcap together with causal or a window", staged(hide=_after_causal),
          link="https://github.com/flashinfer-ai/flashinfer/pull/350"),
    Fault("softcap_after_bias", Stage.SOFTCAP, "The softcap is applied to the bias as well.",
          "a softcap together with a bias",
          staged(cap=_uncapped, add_bias=_after_bias)),
    Fault("softcap_before_scale", Stage.SOFTCAP, "The softcap is applied before the scale.",
          "raw dot products of the size of the cap, a scale other than 1", staged(cap=_before_scale)),
    Fault("softcap_not_multiplied_back", Stage.SOFTCAP, "The softcap is tanh(x / c): the product with c is forgotten.",
          "a softcap other than 1", staged(cap=_bent(lambda logits, cap: np.tanh(logits / cap)))),
    Fault("softcap_not_divided", Stage.SOFTCAP, "The softcap is c·tanh(x): the division by c is forgotten.",
          "a softcap other than 1",
          staged(cap=_bent(lambda logits, cap: np.tanh(logits) * cap))),
    Fault("softcap_hard_clip", Stage.SOFTCAP, "The softcap clips logits to ±c.", _ANY,
          staged(cap=_bent(lambda logits, cap: np.clip(logits, -cap, cap)))),
    Fault("softcap_one_sided", Stage.SOFTCAP, "The softcap is not applied to negative logits.",
          "negative logits of the size of the cap",
          staged(cap=_bent(lambda logits, cap: np.where(logits > 0, _tanh(logits, cap), logits)))),
    Fault("softcap_softsign", Stage.SOFTCAP, "The softcap uses x / (1 + |x|) instead of the tanh.", _ANY,
          staged(cap=_bent(lambda logits, cap: logits / (1 + np.abs(logits) / cap)))),
    Fault("softcap_sigmoid_half", Stage.SOFTCAP, "2·sigmoid(x) - 1 is tanh(x / 2): the factor 2 is forgotten.",
          "a softcap", staged(cap=_bent(lambda logits, cap: np.tanh(logits / (2 * cap)) * cap))),
    Fault("softcap_rational", Stage.SOFTCAP, "The softcap uses a fraction instead of the tanh, wrong for large logits.",
          _ANY, staged(cap=_bent(_rational))),
    Fault("softcap_tanh_11_bits", Stage.SOFTCAP, "The approximate tanh of a GPU, where a full one is declared.",
          "a softcap", staged(cap=_bent(_eleven_bits))),
    Fault("softcap_constant_50", Stage.SOFTCAP,
          "The softcap is always 50, that of the model that the kernel was written for.",
          "a softcap other than 50", staged(cap=_with_cap(lambda _: 50.0))),
    Fault("softcap_as_integer", Stage.SOFTCAP, "The argument is an integer: a cap of 0.5 becomes 0, which is none.",
          "a softcap that is no whole number", staged(cap=_with_cap(lambda cap: float(int(cap)) or None))),
    Fault("softcap_doubled", Stage.SOFTCAP, "The cap of the query's half of a split scale is taken twice.", _ANY,
          staged(cap=_with_cap(lambda cap: 2 * cap))),
    Fault("softcap_off_by_1_percent", Stage.SOFTCAP, "The cap is 1 % too large, as from a table of rounded constants.",
          _ANY, staged(cap=_with_cap(lambda cap: 1.01 * cap))),
    Fault("softcap_twice", Stage.SOFTCAP, "The softcap is applied twice, by the caller and by the kernel.", _ANY,
          staged(cap=lambda logits, work: sound.cap(sound.cap(logits, work), work))),
    Fault("softcap_after_maximum", Stage.SOFTCAP, "The softcap is applied to the distance from the row's maximum.",
          _ANY,
          staged(cap=_uncapped, softmax=_after_maximum)),
    Fault("softcap_on_padding", Stage.SOFTCAP, "The padding of the last tile is -inf before the cap, and -c after it.",
          "a softcap, S not a multiple of 16", staged(softmax=_padding_counted),
          link="https://github.com/ggml-org/llama.cpp/pull/29034"),
    Fault("softcap_in_first_block", Stage.SOFTCAP, "The softcap is applied to the first 16 keys only.",
          "a softcap with S > 16", staged(cap=_first_block_only)),
    Fault("softcap_first_head_only", Stage.SOFTCAP, "The softcap is applied to the first head only.",
          "a softcap with H > 1",
          staged(cap=_first_head_only)),
    Fault("softcap_dropped_with_mask", Stage.SOFTCAP, "The softcap is dropped where there is a mask.",
          "a softcap together with a mask", staged(cap=_dropped_if(lambda work: work.mask is not None))),
    Fault("softcap_dropped_with_bias", Stage.SOFTCAP, "The softcap is dropped where there is a bias.",
          "a softcap together with a bias", staged(cap=_dropped_if(lambda work: work.bias is not None))),
    Fault("softcap_dropped_with_causal", Stage.SOFTCAP, "The softcap is dropped where the causal flag is set.",
          "a softcap together with causal", staged(cap=_dropped_if(lambda work: work.causal))),
    Fault("softcap_dropped_with_window", Stage.SOFTCAP, "The softcap is dropped where there is a window.",
          "a softcap together with a window", staged(cap=_dropped_if(lambda work: work.window is not None))),
    Fault("softcap_dropped_with_scale", Stage.SOFTCAP, "The softcap is dropped where a scale is given.",
          "a softcap together with a scale", staged(cap=_dropped_if(lambda work: work.scale is not None))),
    Fault("softcap_dropped_with_weights", Stage.SOFTCAP, "The softcap is dropped on the path that returns weights.",
          "a softcap together with return_weights", staged(cap=_dropped_if(lambda work: work.return_weights))),
    Fault("softcap_dropped_for_one_query", Stage.SOFTCAP, "The softcap is dropped on the decoding path (T = 1).",
          "a softcap with T = 1", staged(cap=_dropped_if(lambda work: work.shape[2] == 1)),
          link="https://github.com/sgl-project/sglang/issues/33915"),
    Fault("switch_softcap_dropped", Stage.SOFTCAP, "The softcap is dropped on one of two backends.", _ANY,
          staged(cap=_uncapped), link=_HF, other_path=staged()),
    Fault("layer_softcap_ignored", Stage.SOFTCAP, "The softcap is ignored: the layer passes on 0, which means none.",
          _ANY,
          staged_layer(attend=attending(cap=_uncapped)),
          link="https://github.com/vllm-project/vllm-metal/issues/665", kind=Kind.LAYER),
    Fault("layer_softcap_after_mask", Stage.SOFTCAP, "The softcap is applied after the layer's mask.",
          "a softcap together with masked keys", staged_layer(attend=attending(hide=_after_mask)),
          link="https://github.com/onnx/onnx/issues/7865", kind=Kind.LAYER),
)
