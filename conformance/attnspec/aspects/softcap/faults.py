"""Faults of softcaps: lost, taken at the wrong place, or bent the wrong way."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from attnspec.core.keywords import PLACED, UNCOMMON, KeywordArguments
from attnspec.core.nouns import Kind
from attnspec.faults import backward as edit
from attnspec.faults import staged as sound
from attnspec.faults.backward import BackwardValues, gradient_fault
from attnspec.faults.fault import GROUPED, ONE, QUERIES, SQUARE, AspectFaults, Fault, Outside, Stage, panel_recipe
from attnspec.faults.lost_keywords import WITH_PLACED, LostKeyword, forget, forget_in_layer, heed_in_first
from attnspec.faults.size_family import BLOCKS, SPLITS, WIDTHS, FaultFamily, longer_than, partial
from attnspec.faults.staged import staged
from attnspec.faults.staged_forms import attending, staged_layer
from attnspec.faults.staged_work import AspectStage, Keep, Mechanism, PreparedCall, each_by, in_last, keep_as_is
from attnspec.problems.problem import Array

BLOCK = 16
Bend = Callable[[Array, PreparedCall], Array]


class SoftcapStage(AspectStage):
    """The softcap as attention computes it: c·tanh(x / c), step by step."""

    def bend(self, logits: Array, call: KeywordArguments[Array], keep: Keep = keep_as_is) -> Array:
        """The scaled logits (B,H,T,S), capped; `keep` stores each intermediate result."""
        if call.softcap is None:
            return logits
        cap = keep(logits.dtype.type(call.softcap))
        return keep(keep(np.tanh(keep(logits / cap))) * cap)

    def bend_slope(self, bent: Array, call: KeywordArguments[Array]) -> Array | None:
        """The slope 1 - tanh² (B,H,T,S), of the capped logits; None without a softcap."""
        return None if call.softcap is None else 1 - (bent / bent.dtype.type(call.softcap)) ** 2


STAGE = SoftcapStage()


def _leave_uncapped(logits: Array, work: PreparedCall) -> Array:
    """The scaled logits (B,H,T,S) as they are."""
    return logits


def _bend_by(bend: Callable[[Array, np.floating], Array]) -> Bend:
    """A `bend` stage with another function of scaled logits (B,H,T,S) and cap."""
    return lambda logits, work: logits if work.softcap is None else bend(logits, logits.dtype.type(work.softcap))


def _with_cap(change: Callable[[float], float | None]) -> Bend:
    """A `bend` stage with another cap."""
    return lambda logits, work: sound.bend(
        logits, work if work.softcap is None else work.but(softcap=change(work.softcap)))


def _tanh(logits: Array, cap: np.floating) -> Array:
    """Logits (B,H,T,S), bent as defined: tanh(logits / cap) · cap."""
    return np.tanh(logits / cap) * cap


def _rational(logits: Array, cap: np.floating) -> Array:
    """Logits (B,H,T,S), bent by the fraction u (27 + u²) / (27 + 9 u²), clipped to ±1."""
    u = logits / cap
    return np.clip(u * (27 + u * u) / (27 + 9 * u * u), -1, 1) * cap


def _eleven_bits(logits: Array, cap: np.floating) -> Array:
    """Logits (B,H,T,S), bent by the tanh of a GPU's special function unit, off by up to 2^-11."""
    return (_tanh(logits, cap) * (1 + 2.0**-11 * np.sin(1000 * logits))).astype(logits.dtype)


def _before_scale(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), whose raw dot products are capped, then scaled."""
    factor = logits.dtype.type(sound.scale(work))
    if work.softcap is None or factor == 0:
        return logits
    return sound.bend(logits / factor, work) * factor


def _after_mask(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), hidden before they are capped, so that -inf becomes -c."""
    hidden = sound.hide(logits, work)
    return hidden if work.softcap is None else np.maximum(hidden, logits.dtype.type(-work.softcap))


def _after_causal(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), hidden by place before they are capped, and by the mask behind it."""
    if work.softcap is None:
        return sound.hide(logits, work)
    early = sound.past(work) & sound.near(work)
    leaked = np.where(early, logits, -work.softcap).astype(logits.dtype)
    return np.where(work.visible | (sound.masked(work) & ~early), leaked, -np.inf).astype(logits.dtype)


def _after_maximum(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), with a cap on the distance from the row's maximum."""
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    shifted = logits - np.where(np.isneginf(top), 0, top)
    return sound.normalise(np.where(np.isneginf(logits), 0, np.exp(sound.bend(shifted, work))))


def _padding_counted(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S), padding of the last block capped from -inf to -c."""
    padding = -work.shape[3] % BLOCK
    if work.softcap is None or not padding:
        return sound.softmax(logits, work)
    filled = np.full((*logits.shape[:-1], padding), -work.softcap, logits.dtype)
    return sound.normalise(sound.exponentials(np.concatenate([logits, filled], axis=-1)))[..., :work.shape[3]]


def _first_block_only(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S), capped for the first 16 keys alone."""
    return np.where(np.arange(work.shape[3]) < BLOCK, sound.bend(logits, work), logits)


def _uncapped_in_last(logits: Array, work: PreparedCall, size: int) -> Array:
    """Logits (B,H,T,S), capped but for the last block of keys."""
    return np.where(in_last(work.shape[3], size), logits, sound.bend(logits, work))


def _slope_behind_bias(_: Array, known: BackwardValues) -> Array:
    """The slope (B,H,T,S) at the capped logits plus the bias."""
    return 1 - np.tanh(known.logits / known.logits.dtype.type(known.taken.call.softcap)) ** 2


_ANY = "logits of the size of the cap"

_LOST = LostKeyword("softcap", "The softcap is", "a softcap")

_FAULTS = (
    Fault("softcap_ignored", "softcap", "The softcap is ignored: the backend has none and does not say so.", _ANY,
          forget("softcap")),
    Fault("softcap_after_mask", "softcap",
          "The softcap is applied after the mask: -inf becomes -c, not masked any more.",
          "a softcap together with masked keys", staged(hide=_after_mask)),
    Fault("softcap_after_causal", "softcap",
          "The softcap is applied after what hides keys by their place, such as the causal flag.",
          f"a softcap together with {' or '.join(PLACED)}", staged(hide=_after_causal)),
    Fault("softcap_after_bias", "softcap", "The softcap is applied to the bias as well.",
          "a softcap together with a bias",
          staged(bend=_leave_uncapped, add_bias=lambda logits, work: sound.bend(sound.add_bias(logits, work), work))),
    Fault("softcap_before_scale", "softcap", "The softcap is applied before the scale.",
          "raw dot products of the size of the cap, a scale other than 1", staged(bend=_before_scale)),
    Fault("softcap_not_multiplied_back", "softcap", "The softcap is tanh(x / c): the product with c is forgotten.",
          "a softcap other than 1", staged(bend=_bend_by(lambda logits, cap: np.tanh(logits / cap)))),
    Fault("softcap_not_divided", "softcap", "The softcap is c·tanh(x): the division by c is forgotten.",
          "a softcap other than 1", staged(bend=_bend_by(lambda logits, cap: np.tanh(logits) * cap))),
    Fault("softcap_hard_clip", "softcap", "The softcap clips logits to ±c.", _ANY,
          staged(bend=_bend_by(lambda logits, cap: np.clip(logits, -cap, cap)))),
    Fault("softcap_one_sided", "softcap", "The softcap is not applied to negative logits.",
          "negative logits of the size of the cap",
          staged(bend=_bend_by(lambda logits, cap: np.where(logits > 0, _tanh(logits, cap), logits)))),
    Fault("softcap_softsign", "softcap", "The softcap uses x / (1 + |x|) instead of the tanh.",
          _ANY, staged(bend=_bend_by(lambda logits, cap: logits / (1 + np.abs(logits) / cap)))),
    Fault("softcap_sigmoid_half", "softcap", "2·sigmoid(x) - 1 is tanh(x / 2): the factor 2 is forgotten.",
          "a softcap", staged(bend=_bend_by(lambda logits, cap: np.tanh(logits / (2 * cap)) * cap))),
    Fault("softcap_rational", "softcap", "The softcap uses a fraction instead of the tanh, wrong for large logits.",
          _ANY, staged(bend=_bend_by(_rational))),
    Fault("softcap_tanh_11_bits", "softcap", "The approximate tanh of a GPU, where a full one is declared.",
          "a softcap", staged(bend=_bend_by(_eleven_bits))),
    Fault("softcap_constant_50", "softcap",
          "The softcap is always 50, that of the model that the kernel was written for.",
          "a softcap other than 50", staged(bend=_with_cap(lambda _: 50.0))),
    Fault("softcap_as_integer", "softcap", "The argument is an integer: a cap of 0.5 becomes 0, which is none.",
          "a softcap that is no whole number", staged(bend=_with_cap(lambda cap: float(int(cap)) or None))),
    Fault("softcap_doubled", "softcap", "The cap of the query's half of a split scale is taken twice.", _ANY,
          staged(bend=_with_cap(lambda cap: 2 * cap))),
    Fault("softcap_off_by_1_percent", "softcap", "The cap is 1 % too large, as from a table of rounded constants.",
          _ANY, staged(bend=_with_cap(lambda cap: 1.01 * cap))),
    Fault("softcap_twice", "softcap", "The softcap is applied twice, by the caller and by the kernel.", _ANY,
          staged(bend=lambda logits, work: sound.bend(sound.bend(logits, work), work))),
    Fault("softcap_after_maximum", "softcap", "The softcap is applied to the distance from the row's maximum.", _ANY,
          staged(bend=_leave_uncapped, softmax=_after_maximum)),
    Fault("softcap_on_padding", "softcap", "The padding of the last tile is -inf before the cap, and -c after it.",
          "a softcap, S not a multiple of 16", staged(softmax=_padding_counted)),
    Fault("softcap_in_first_block", "softcap", "The softcap is applied to the first 16 keys only.",
          "a softcap with S > 16", staged(bend=_first_block_only)),
    Fault("softcap_first_head_only", "softcap", "The softcap is applied to the first head only.",
          "a softcap with H > 1", heed_in_first(1, "softcap")),
    *_LOST.dropped("with_mask", "with_bias", "with_scale", "with_weights", *WITH_PLACED, "for_one_query"),
    Fault("switch_softcap_dropped", "softcap", "The softcap is dropped on one of two backends.",
          _ANY, forget("softcap"), other_path=staged()),
    Fault("layer_softcap_ignored", "softcap", "The softcap is ignored: the layer passes on 0, which means none.", _ANY,
          forget_in_layer("softcap"), kind=Kind.LAYER),
    Fault("layer_softcap_after_mask", "softcap", "The softcap is applied after the layer's mask.",
          "a softcap together with masked keys", staged_layer(attend=attending(hide=_after_mask)), kind=Kind.LAYER),
)

_LEFT_ON = (
    Fault("logits_softcap_50", Stage.LOGITS, "A soft cap of 50 is left on.", "logits of some tens",
          staged(logits=lambda work, factor: 50 * np.tanh(sound.logits(work, factor) / 50))),
    Fault("logits_softcap_after_mask", Stage.LOGITS, "A soft cap of 50 is left on, after the mask: -inf becomes -50.",
          "logits of some tens, or a row that sees no key",
          staged(hide=lambda logits, work: 50 * np.tanh(sound.hide(logits, work) / 50))),
)

_BESIDE = {name: LostKeyword(name, f"The {name} is", f"a {name}").dropped("with_softcap")
           for name in PLACED if name in UNCOMMON}

_BACKWARD = (
    gradient_fault("cap_forgotten", "The cap's derivative is left out.",
                   "gradients together with softcap", slope=lambda a, _: a * 0 + 1),
    gradient_fault("cap_dropped", "The backward pass does not know the cap.",
                   "gradients together with softcap", reread=edit.reread_without("softcap")),
    gradient_fault("cap_slope_linear", "The cap's derivative is 1 - |tanh|.", "gradients together with softcap",
                   slope=lambda a, _: 1 - np.sqrt(np.maximum(1 - a, 0))),
    gradient_fault("cap_slope_behind_bias", "The cap's derivative is taken at the capped logits plus the bias.",
                   "gradients together with softcap", slope=_slope_behind_bias),
    gradient_fault("cap_slope_twice", "The cap's derivative is applied twice.",
                   "gradients together with softcap", slope=lambda a, _: a * a),
    gradient_fault("bias_behind_cap", "The bias's gradient goes through the cap, as that of the dot products does.",
                   "gradients together with softcap and bias",
                   full_bias=lambda a, known: a * known.slope[..., :known.taken.keys] if known.slope.size else a),
)

_FAMILIES = (
    FaultFamily("size_softcap_dropped_long", "softcap", "the softcap is left out",
                "Long keys and wide heads take a kernel without a softcap.", (0,),
                (longer_than("S", SPLITS), longer_than("D", WIDTHS)), "softcap"),
    FaultFamily("size_softcap_dropped_in_tail", "softcap", "the softcap is left out in the last block",
                "The last block of keys goes without the softcap.", BLOCKS, (partial("S"),), "softcap"),
)

_MECHANISMS: Mapping[str, Mechanism] = {
    "the softcap is left out": lambda _: {"bend": lambda logits, _work: logits},
    "the softcap is left out in the last block": each_by("bend", _uncapped_in_last),
}

_BUGS: Mapping[str, Mapping[str, str | Outside]] = {
    "mask leak": {
        "onnx/onnx/issues/7865": "softcap_after_mask layer_softcap_after_mask logits_softcap_after_mask",
        "flashinfer-ai/flashinfer/pull/350": "softcap_after_causal logits_softcap_after_mask",
        "ggml-org/llama.cpp/pull/29034": "softcap_on_padding blocks_tail_counted",
    },
    "softcap ignored": {
        "huggingface/transformers/issues/32848": "softcap_ignored switch_softcap_dropped",
        "vllm-project/vllm-metal/issues/665": "layer_softcap_ignored",
        "vllm-project/vllm-metal/pull/550": "sinks_ignored sinks_dropped_with_causal",  # the same change lost both
        "sgl-project/sglang/issues/33915": "softcap_ignored softcap_dropped_for_one_query",
    },
}

_PANEL = (
    panel_recipe(SQUARE, "softcap", seed=66), panel_recipe(QUERIES, "softcap causal", seed=67, softcap=0.5),
    panel_recipe(GROUPED, "softcap mask", seed=68), panel_recipe(SQUARE, "softcap bias", seed=69),
    panel_recipe(SQUARE, "softcap scale", seed=70, scale=1.0), panel_recipe(ONE, "softcap", seed=71),
)

MISTAKES = AspectFaults(
    about={"softcap": _FAULTS}, beside=_BESIDE, left_on=_LEFT_ON, backward=_BACKWARD, families=_FAMILIES,
    mechanisms=_MECHANISMS, bugs=_BUGS, panel=_PANEL)
