"""These faults lose, exchange or double scales, take another head's, or read codes wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import ml_dtypes
import numpy as np

from attnspec.aspects.quantised import mistakes_beside, mistakes_of_forms
from attnspec.aspects.quantised.arrays import EVERY, NAMES
from attnspec.aspects.quantised.block_faults import BLOCK_BUGS, BLOCK_FAULTS, BLOCK_PANEL, SOUND_BLOCKS
from attnspec.aspects.quantised.gradient_faults import GRADIENT_FAULTS, GRADIENT_PANEL, SOUND_GRADIENTS
from attnspec.aspects.quantised.inside import INSIDE
from attnspec.aspects.quantised.inside_block_faults import INSIDE_BLOCK_FAULTS
from attnspec.aspects.quantised.inside_faults import BESIDE_LSE, INSIDE_FAULTS
from attnspec.aspects.quantised.keyword import POOL, USUAL_ZEROS
from attnspec.aspects.quantised.microscaling_faults import MICROSCALING_BUGS, MICROSCALING_FAULTS, MICROSCALING_PANEL
from attnspec.aspects.quantised.nibble_faults import NIBBLE_FAULTS, SOUND_NIBBLES
from attnspec.aspects.quantised.stage import (
    STAGE,
    Change,
    Restore,
    drop_if,
    has_one_query,
    is_one_for_features,
    keep_stale,
    leave_tail,
    look_up_transposed,
    read_changed,
    read_changed_codes,
    repeat_to,
    scale_codes,
    scale_columns,
    take_before,
    take_first,
)
from attnspec.aspects.quantised.storage import STORAGES, UNBLOCKED
from attnspec.aspects.quantised.zero_faults import SOUND_ZEROS, ZERO_FAULTS
from attnspec.core.keyword import CACHES_POOL, GRADIENTS_POOL, SERVING_POOL
from attnspec.core.nouns import DType
from attnspec.faults import staged as sound
from attnspec.faults.fault import GROUPED, QUERIES, SQUARE, AspectFaults, Fault, Outside, SoundFormulation, panel_recipe
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import PreparedCall
from attnspec.problems.problem import Array


def _with_codes(change: Change, *names: str) -> Restore:
    """A `restore` stage that changes the codes (B,H,S,D) of some scaled arrays, or of all."""
    return read_changed_codes(change, *(f"{name}_scale" for name in names or NAMES.values()))


def _exchange_scales(one: str, other: str) -> Restore:
    """A `restore` stage in which two arrays have each other's scales, repeated if too few."""
    def restore(work: PreparedCall) -> PreparedCall:
        exchanged = work
        for name, source in ((one, other), (other, one)):
            scale = getattr(work, f"{source}_scale")
            if scale is not None:
                scale = repeat_to(scale, getattr(work, name).shape)
            exchanged = exchanged.but(**{f"{name}_scale": scale})
        return sound.restore(exchanged)
    return restore


def _power_below(scale: Array) -> Array:
    """The power of two below each scale of any shape, as a format of exponents alone holds it."""
    return np.where(scale == 0, 0, np.ldexp(np.sign(scale), np.frexp(scale)[1] - 1))


def _store_narrow(dtype: type[np.generic]) -> Change:
    """Scales of any shape are stored in a narrower dtype."""
    return lambda scale: scale.astype(dtype).astype(scale.dtype)


def _mean(scale: Array) -> Array:
    """(B,H,S,D): one scale for all heads, their mean."""
    return np.broadcast_to(scale.mean(axis=1, keepdims=True), scale.shape)


def _block_of_first(scale: Array) -> Array:
    """(B,H,S,D): the scale of the first of every four tokens serves its block."""
    return scale[:, :, np.arange(scale.shape[2]) // 4 * 4]


__all__ = ["MISTAKES", "STAGE"]

_ANY = "{} scales other than 1"
_HALVES = (DType.FLOAT16, DType.BFLOAT16)
_BELOW_HALF = dict.fromkeys(_HALVES, "the error is below a rounding of the output")
_BY_HEAD, _BY_ENTRY = "{} scales by head, more heads than one", "{} scales by batch entry, B > 1"
_BY_TOKEN, _BY_CHANNEL = "{} scales by token", "{} scales by channel"
_SCALES: Mapping[str, tuple[str, str, Change, Mapping[DType, str]]] = {
    "ignored": ("The {} scale is accepted and never used.", _ANY, np.ones_like, {}),
    "twice": ("The {} scale is applied by the caller and by the kernel.", _ANY, np.square, {}),
    "reciprocal": (
        "The {} codes are divided by their scale.", "{} scales other than 1 and 0", lambda scale: 1 / scale, {}),
    "squared_root": ("Half of the {} scale is taken for a split that nobody else makes.", _ANY, np.sqrt, {}),
    "of_first_head": ("The {} scale of the first head serves all heads.", _BY_HEAD, take_first(1), {}),
    "of_first_entry": ("The {} scale of the first batch entry serves all.", _BY_ENTRY, take_first(0), {}),
    "of_first_token": ("The {} scale of the first token serves all.", _BY_TOKEN, take_first(2), {}),
    "of_first_channel": ("The {} scale of the first feature serves all.", _BY_CHANNEL, take_first(3), {}),
    "of_head_before": ("Each head has the {} scale of the head before.", _BY_HEAD, take_before(1), {}),
    "of_entry_before": ("Each batch entry has the {} scale of the entry before.", _BY_ENTRY, take_before(0), {}),
    "of_token_before": ("Each token has the {} scale of the token before.", _BY_TOKEN, take_before(2), {}),
    "of_channel_before": ("Each feature has the {} scale of the feature before.", _BY_CHANNEL, take_before(3), {}),
    "of_token_for_channel": (
        "The {} scale is looked up by the token where it is by channel, and vice versa.",
        "{} scales by token or channel", look_up_transposed, {}),
    "of_block": ("The {} scale of the first of four tokens serves all.", _BY_TOKEN, _block_of_first, {}),
    "lost_in_tail": (
        "The last tokens, which fill no block of four, have no {} scale.",
        "{} scales other than 1, a length that is no multiple of 4", leave_tail(1), {}),
    "mean_of_heads": ("The heads share the mean of their {} scales.", _BY_HEAD, _mean, {}),
    "power_of_two": (
        "The {} scale is stored as an exponent alone.", "{} scales that are no powers of two", _power_below, {}),
    "in_bfloat16": (
        "The {} scale is stored in bfloat16.", "{} scales of more than 8 bits",
        _store_narrow(ml_dtypes.bfloat16), _BELOW_HALF),
    "in_float16": (
        "The {} scale is stored in float16.", "{} scales of more than 11 bits",
        _store_narrow(np.float16), _BELOW_HALF),
    "one_percent": (
        "The {} scale is 1 % too large, as from a table of rounded constants.", _ANY,
        lambda scale: scale * 1.01, {}),
}
"""By name: story, reach, change of the scales, and where nothing shows; {} is the array."""


def _of_scales() -> Iterator[Fault]:
    """Each mistake with the scale of each array."""
    for keyword, array in NAMES.items():
        for name, (story, reach, change, equivalents) in _SCALES.items():
            yield Fault(f"{keyword}_{name}", keyword, story.format(array), reach.format(array),
                        staged(restore=read_changed(change, keyword)), equivalents=equivalents,
                        link=_LINKS.get(f"{keyword}_{name}", ""))


_IN_BOTH = ("ignored", "twice", "reciprocal", "of_first_head", "of_first_entry", "of_first_token", "of_first_channel",
            "of_head_before", "of_entry_before", "of_token_before", "of_channel_before", "of_token_for_channel",
            "of_block", "lost_in_tail", "mean_of_heads", "squared_root", "power_of_two")
"""Those that keys and values have alike where one helper dequantises both."""


def _of_both_scales() -> Iterator[Fault]:
    """Mistakes with the scales of keys and of values alike."""
    for name in _IN_BOTH:
        story, reach, change, equivalents = _SCALES[name]
        yield Fault(f"both_scales_{name}", "value_scale", story.format("key and value"), reach.format("key or value"),
                    staged(restore=read_changed(change, "key_scale", "value_scale")), equivalents=equivalents)


_LINKS: Mapping[str, str] = {
    "key_scale_ignored": "https://github.com/flashinfer-ai/flashinfer/issues/4979",
    "value_scale_ignored": "https://github.com/sgl-project/sglang/pull/20705",
    "query_scale_twice": "https://github.com/vllm-project/vllm/pull/53754",
}
_WHERE: Mapping[str, tuple[str, Callable[[PreparedCall], bool]]] = {
    "mask": ("where there is a mask", lambda work: work.mask is not None),
    "bias": ("where there is a bias", lambda work: work.bias is not None),
    "causal": ("where the causal flag is set", lambda work: work.causal),
    "explicit_scale": ("where a scale is given", lambda work: work.scale is not None),
}


def _of_paths() -> Iterator[Fault]:
    """A scale that is dropped beside another keyword, or for a single query."""
    for array in ("key", "value"):
        for name, (words, condition) in _WHERE.items():
            yield Fault(f"{array}_scale_dropped_with_{name}", f"{array}_scale",
                        f"The {array} scale is dropped {words}.", f"{array} scales other than 1, {words}",
                        staged(restore=drop_if(condition, f"{array}_scale")))
        yield Fault(f"{array}_scale_dropped_for_one_query", f"{array}_scale",
                    f"The {array} scale is dropped on the decoding path (T = 1).",
                    f"{array} scales other than 1, T = 1",
                    staged(restore=drop_if(has_one_query, f"{array}_scale")))
    paths = {f"with_{name}": each for name, each in _WHERE.items()}
    paths["for_one_query"] = ("on the decoding path (T = 1)", has_one_query)
    for name, (words, condition) in paths.items():
        yield Fault(f"both_scales_dropped_{name}", "value_scale", f"The key and value scales are dropped {words}.",
                    f"key or value scales other than 1, {words}",
                    staged(restore=drop_if(condition, "key_scale", "value_scale")))


def _after_softmax(work: PreparedCall) -> PreparedCall:
    """Key codes attend as they are, and the values are multiplied by the scales of the keys."""
    factor, value_scale = work.key_scale, work.value_scale
    if factor is not None:
        factor = factor[..., :1]
        product = factor if value_scale is None else value_scale * factor
        value_scale = np.broadcast_to(product, work.value.shape)
    return sound.restore(work.but(key_scale=None, value_scale=value_scale))


def _exchange_nibbles(codes: Array) -> Array:
    """(B,H,S,D): the two codes of each byte change places; a last odd one stays."""
    order = np.arange(codes.shape[-1])
    pairs = order[:len(order) // 2 * 2].reshape(-1, 2)
    order[:pairs.size] = pairs[:, ::-1].ravel()
    return codes[..., order]


def _lose_last_nibble(codes: Array) -> Array:
    """(B,H,S,D): where features are odd in number, the last one is 0."""
    D = codes.shape[-1]
    return codes if D % 2 == 0 else np.where(np.arange(D) == D - 1, 0, codes)


def _read_unsigned(codes: Array) -> Array:
    """Negative codes of any shape are read as if they had no sign bit."""
    return np.where(codes < 0, codes + 256, codes)


def _flush_subnormals(codes: Array) -> Array:
    """Codes of any shape below the smallest normal one of E4M3 become 0, as without subnormals."""
    return np.where(np.abs(codes) < 2.0**-6, 0, codes)


_ALL = "codes beyond {}"
_OF_CODES = (
    Fault("codes_clipped_at_240", "value_scale", "Codes are clipped to 240, the largest of another E4M3.",
          _ALL.format(240), staged(restore=_with_codes(lambda codes: np.clip(codes, -240, 240)))),
    Fault("codes_clipped_at_127", "value_scale", "-128 is taken for -127, so that both signs reach as far.",
          "a code of -128", staged(restore=_with_codes(lambda codes: np.where(codes == -128, -127, codes)))),
    Fault("codes_clipped_at_100", "value_scale", "Codes are clipped to ±100 against overflow.", _ALL.format(100),
          staged(restore=_with_codes(lambda codes: np.clip(codes, -100, 100)))),
    Fault("codes_unsigned", "value_scale", "Codes are read without their sign.", "negative codes",
          staged(restore=_with_codes(_read_unsigned))),
    Fault("codes_magnitude", "key_scale", "The sign bit of codes is masked off.", "negative codes",
          staged(restore=_with_codes(np.abs))),
    Fault("codes_nibbles_exchanged", "key_scale", "The two codes of a byte change places.", "D > 1",
          staged(restore=_with_codes(_exchange_nibbles, "key"))),
    Fault("codes_nibbles_exchanged_in_values", "value_scale", "The two codes of a byte of values change places.",
          "Dv > 1", staged(restore=_with_codes(_exchange_nibbles, "value"))),
    Fault("codes_nibbles_exchanged_in_both", "value_scale",
          "The two codes of a byte change places, of keys and values.", "D > 1 or Dv > 1",
          staged(restore=_with_codes(_exchange_nibbles, "key", "value"))),
    Fault("codes_last_nibble_lost", "value_scale", "Of an odd number of features the last one is lost.",
          "an odd Dv", staged(restore=_with_codes(_lose_last_nibble, "value"))),
    Fault("codes_flushed", "value_scale", "Subnormal codes become 0.", "codes below 2^-6 by token or channel",
          staged(restore=_with_codes(_flush_subnormals)),
          equivalents=dict.fromkeys(_HALVES, "what is lost is below a rounding of the output")),
    Fault("codes_truncated", "key_scale", "Codes are converted to whole numbers on the way.",
          "codes of a floating-point format", staged(restore=_with_codes(np.trunc))),
    Fault("codes_shifted_by_one", "value_scale", "A zero point of 1 is taken off that nobody has added.", "codes",
          staged(restore=_with_codes(lambda codes: codes - 1))),
)
_OF_TWO = (
    Fault("scales_of_key_and_value_exchanged", "key_scale", "Key and value have each other's scale.",
          "key scales other than value scales", staged(restore=_exchange_scales("key", "value"))),
    Fault("scales_of_query_and_key_exchanged", "query_scale", "Query and key have each other's scale.",
          "scales by head, token or channel", staged(restore=_exchange_scales("query", "key"))),
    Fault("key_scale_in_values", "key_scale", "The key scale is multiplied into the values, after the softmax.",
          "key scales other than 1", staged(restore=_after_softmax)),
    Fault("key_scale_stale", "key_scale", "The key scale of the call before is kept.", "a call after another",
          keep_stale("key_scale")),
    Fault("value_scale_stale", "value_scale", "The value scale of the call before is kept.", "a call after another",
          keep_stale("value_scale")),
    Fault("value_scale_on_first_half", "value_scale", "The value scale is applied to the first half of the features.",
          "value scales other than 1, Dv > 1", staged(restore=read_changed(
              lambda scale: np.where(np.arange(scale.shape[-1]) < (scale.shape[-1] + 1) // 2, scale, 1),
              "value_scale"))),
)


def _fold_scales(work: PreparedCall) -> PreparedCall:
    """Codes stay where all features share a scale, which is multiplied in behind each product."""
    names = (f"{name}_scale" for name in ("key", "value"))
    folded = {name: scale for name in names if is_one_for_features(scale := getattr(work, name))}
    return sound.restore(work.but(**dict.fromkeys(folded))).but(**folded)


def _folded_logits(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of codes, times the key scale of each column."""
    logits = sound.logits(work, factor)
    return logits if work.key_scale is None else logits * scale_columns(work.key_scale, work, logits.dtype)


def _folded_values(weights: Array, work: PreparedCall) -> Array:
    """(B,H,T,Dv): weights times the value scale of each key, and then the codes."""
    if work.value_scale is not None:
        weights = weights * scale_columns(work.value_scale, work, weights.dtype)
    return sound.mix(weights, work)


def _in_query(work: PreparedCall) -> PreparedCall:
    """The key scale is multiplied into the query where all keys share it."""
    scale = work.key_scale
    if scale is None or bool((scale != scale[:, :, :1]).any()):
        return sound.restore(work)
    of_query = np.repeat(scale[:, :, :1], work.query.shape[1] // scale.shape[1], axis=1)
    rest = sound.restore(work.but(key_scale=None))
    return rest.but(query=scale_codes(rest.query, of_query))


_SOUND = (
    SoundFormulation("dequantised_first", "codes are multiplied by their scales before anything else", staged(), POOL),
    SoundFormulation("scales_folded", "codes attend; scales are multiplied into logits and weights",
                     staged(restore=_fold_scales, logits=_folded_logits, mix=_folded_values), POOL),
    SoundFormulation("scales_in_query", "the key's scale is multiplied into the query", staged(restore=_in_query),
                     POOL),
    SoundFormulation("dequantised_in_float64", "codes and scales meet in float64, rounded once",
                     staged(restore=lambda work: sound.restore(work.but(
                         query=work.query.astype(np.float64), key=work.key.astype(np.float64),
                         value=work.value.astype(np.float64)))), POOL),
)

_BUGS: Mapping[str, Mapping[str, str | Outside]] = {
    "quantised cache": {
        "flashinfer-ai/flashinfer/issues/4979": "key_scale_ignored value_scale_ignored",
        "flashinfer-ai/flashinfer/issues/1023": "key_scale_ignored value_scale_ignored",
        "sgl-project/sglang/pull/20705": "key_scale_ignored value_scale_ignored",
        "vllm-project/vllm/pull/53754": "query_scale_twice",
    },
}

# a function takes one storage and one granularity, mostly: of these each has calls of its own
_PANEL = tuple(
    panel_recipe(sizes, features, seed=120 + at, **dict.fromkeys(features.split(), f"{storage}/{granularity}/odd"))  # type: ignore[arg-type]  # by keyword
    for storage in STORAGES if not STORAGES[storage].block for at, granularity in enumerate(UNBLOCKED)
    for sizes, features in ((GROUPED, "key_scale value_scale"), (SQUARE, "query_scale"), (QUERIES, "value_scale")))

_ZERO_PANEL = tuple(
    panel_recipe(sizes, f"{array}_scale {array}_zero", seed=160 + at, **{  # type: ignore[arg-type]  # by keyword
        f"{array}_scale": f"{storage}/{granularity}/odd", f"{array}_zero": zero})
    for storage in STORAGES if STORAGES[storage].is_whole for at, granularity in enumerate(("token", "head", "channel"))
    for zero in USUAL_ZEROS for sizes, array in ((GROUPED, "key"), (SQUARE, "query"), (QUERIES, "value")))

_EVERY = (*_of_scales(), *_of_both_scales(), *_of_paths(), *_OF_CODES, *_OF_TWO, *ZERO_FAULTS, *BLOCK_FAULTS,
          *NIBBLE_FAULTS, *MICROSCALING_FAULTS, *mistakes_beside.FAULTS, *mistakes_of_forms.FAULTS,
          *GRADIENT_FAULTS)

MISTAKES = AspectFaults(
    about={keyword: tuple(fault for fault in _EVERY if fault.stage == keyword) for keyword in EVERY},
    beside={"return_lse": BESIDE_LSE},
    bugs={**_BUGS, **BLOCK_BUGS, **MICROSCALING_BUGS},
    panel=(*_PANEL, *_ZERO_PANEL, *BLOCK_PANEL, *MICROSCALING_PANEL, *GRADIENT_PANEL),
    sound=(*_SOUND, *SOUND_ZEROS, *SOUND_BLOCKS, *SOUND_NIBBLES, *SOUND_GRADIENTS, *INSIDE),
    of_any_call=(*INSIDE_FAULTS, *INSIDE_BLOCK_FAULTS),
    beside_pool={POOL: (SERVING_POOL, CACHES_POOL, GRADIENTS_POOL)})
