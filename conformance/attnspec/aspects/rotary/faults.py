"""Faults of rotary embeddings, whose pairs, places, frequencies or angles are wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import ml_dtypes
import numpy as np

from attnspec.aspects.rotary import formulations as sound
from attnspec.aspects.rotary.formulations import FORMULATIONS, Rotation, halves_of, staged_rotation
from attnspec.core.declaration import Limits, within_form
from attnspec.core.forms import DEFAULT_BASE, POSITIONS
from attnspec.core.nouns import DType, Kind
from attnspec.faults.fault import AspectFaults, Fault, Outside, Stage
from attnspec.faults.staged_forms import Rotate
from attnspec.problems.problem import Array

_LIMITS = within_form(Limits())
CACHED = 2048
"""How many places a cache has that is as long as models once were trained for."""

LONGEST = 32_768
"""What 16 bits with a sign can count to."""


def _angle_in(half: np.dtype[np.generic]) -> Callable[[Rotation, Array, Array], Array]:
    """An `angles` stage that stores places, frequencies and angles (B,T,R) in a half dtype."""
    def angles(work: Rotation, places: Array, frequency: Array) -> Array:
        """The angle of each pair, (B,T,R)."""
        return (places.astype(half)[..., None] * frequency.astype(half)).astype(work.real)
    return angles


def _with_exponents(exponent: Callable[[Rotation], Array]) -> Callable[[Rotation], Array]:
    """A `frequency` stage with other exponents of the base, (R,)."""
    return lambda work: work.real(work.base) ** -exponent(work).astype(work.real)


def _pair_index(work: Rotation) -> Array:
    """The number of each pair, 0 … R-1, (R,)."""
    return np.arange(work.width // 2)


def _places(change: Callable[[Array], Array]) -> Callable[[Rotation], Array]:
    """A `places` stage with other places (B,T)."""
    return lambda work: np.broadcast_to(change(work.positions), work.positions.shape).astype(work.real)


def _last(work: Rotation) -> tuple[slice, slice]:
    """The slices of the pairs among the last features of each token."""
    start = work.x.shape[-1] - work.width
    first, second = sound.pair_slices(work)
    return _move_slice(first, start), _move_slice(second, start)


def _move_slice(at: slice, by: int) -> slice:
    return slice((at.start or 0) + by, at.stop + by, at.step)


def _one_sign(first: Array, second: Array, angle: Array) -> tuple[Array, Array]:
    """Both features of each pair (B,H,T,R), turned by (B,1,T,R), the sign of the second lost."""
    cos, sin = np.cos(angle), np.sin(angle)
    return first * cos + second * sin, second * cos + first * sin


def _in_place(first: Array, second: Array, angle: Array) -> tuple[Array, Array]:
    """Both features of a pair (B,H,T,R), turned by (B,1,T,R), the second by the turned first."""
    turned = first * np.cos(angle) - second * np.sin(angle)
    return turned, second * np.cos(angle) + turned * np.sin(angle)


def _first_head_of_one(first: Array, second: Array, angle: Array) -> tuple[Array, Array]:
    """Both features (B,H,T,R), turned by (B,1,T,R); of a single token in the first head alone."""
    turned = sound.turn(first, second, angle)
    if first.shape[2] > 1:
        return turned
    is_first = np.arange(first.shape[0] * first.shape[1]).reshape(*first.shape[:2], 1, 1) == 0
    return np.where(is_first, turned[0], first), np.where(is_first, turned[1], second)


def _tf32(array: Array) -> Array:
    """An array of any shape, cut to ten bits behind the leading one."""
    mantissa, exponent = np.frexp(array)
    return np.ldexp(np.trunc(mantissa * 2**11) / 2**11, exponent).astype(array.dtype)


def _with_output(change: Callable[[Array, Array, int], Array]) -> Callable[[], Rotate]:
    """A maker of rotary embeddings that change the output (B,H,T,D), by x (B,H,T,D) and width."""
    whole = staged_rotation()()

    def rotate(x: Array, positions: Array, *, base: float = DEFAULT_BASE, rotary_width: int | None = None,
               interleaved: bool = False) -> Array:
        """Rotate x (B,H,T,D) by positions (B,T) -> (B,H,T,D)."""
        output = whole(x, positions, base=base, rotary_width=rotary_width, interleaved=interleaved)
        return change(output, x, x.shape[-1] if rotary_width is None else rotary_width)
    return lambda: rotate


def _rest_dropped(output: Array, x: Array, width: int) -> Array:
    """The output (B,H,T,D), with zeros for features that are not turned."""
    output[..., width:] = 0
    return output


def _in_buffer(output: Array, x: Array, width: int) -> Array:
    """The input (B,H,T,D), which holds the output."""
    x[...] = output
    return x


def _head_by_head(work: Rotation, places: Array, frequency: Array) -> Array:
    """The angle of each pair, (B,T,R), of the token before if there are several heads."""
    angle = sound.angles(work, places, frequency)
    return np.roll(angle, 1, axis=1) if work.x.shape[1] > 1 else angle


def _fault(name: str, story: str, reach: str, make: Callable[[], Rotate], *,
           equivalents: Mapping[DType, str] | None = None) -> Fault:
    return Fault(name, Stage.ROTARY, story, reach, make, kind=Kind.ROTARY, limits=_LIMITS,
                 equivalents=equivalents or {})


_SOME = "positions other than 0"
_PAIRS = f"{_SOME} with more than one pair"
_IS_RIGHT = "the output has the dtype of the input"

_FAULTS = (
    _fault("rotary_pairs_swapped", "Neighbours are turned for halves, and halves for neighbours.", "more than one pair",
           staged_rotation(paired=lambda work: halves_of(work.width, interleaved=not work.interleaved))),
    _fault("rotary_interleaved_ignored", "The halves are turned whatever is asked for.",
           "interleaved pairs, more than one",
           staged_rotation(paired=lambda work: halves_of(work.width, interleaved=False))),
    _fault("rotary_halves_of_all", "Halves of all features are paired, though only some are turned.",
           "a rotary width below D, pairs that are not interleaved", staged_rotation(paired=lambda work: (
               halves_of(work.width, interleaved=True) if work.interleaved else
               (slice(work.width // 2), slice(work.x.shape[-1] // 2, work.x.shape[-1] // 2 + work.width // 2))))),
    _fault("rotary_sign_flipped", "Pairs are turned the other way.", _SOME,
           staged_rotation(turn=lambda first, second, angle: sound.turn(first, second, -angle))),
    _fault("rotary_one_sign_lost", "The second half is not negated before it is multiplied by the sine.", _SOME,
           staged_rotation(turn=_one_sign)),
    _fault("rotary_without_sine", "Only the product with the cosine is there.", _SOME,
           staged_rotation(turn=lambda first, second, angle: (first * np.cos(angle), second * np.cos(angle)))),
    _fault("rotary_turned_in_place", "The second feature is made of the first one as it is already turned.", _SOME,
           staged_rotation(turn=_in_place)),
    _fault("rotary_positions_ignored", "Tokens are counted from 0, whatever positions are handed over.",
           "positions that do not count from 0",
           staged_rotation(places=_places(lambda positions: np.arange(positions.shape[1])))),
    _fault("rotary_positions_of_first_entry", "All batch entries have the positions of the first.",
           "batch entries with positions of their own",
           staged_rotation(places=_places(lambda positions: positions[:1]))),
    _fault("rotary_positions_of_next_entry", "Each batch entry has the positions of the next.",
           "batch entries with positions of their own",
           staged_rotation(places=_places(lambda positions: np.roll(positions, -1, axis=0)))),
    _fault("rotary_positions_run_on", "Tokens are counted on from one batch entry to the next.", "a second batch entry",
           staged_rotation(places=_places(
               lambda positions: positions + np.arange(len(positions))[:, None] * positions.shape[1]))),
    _fault("rotary_positions_from_first", "Only the first position is read, and counted on from.",
           "positions that do not count on", staged_rotation(places=_places(
               lambda positions: positions[:, :1] + np.arange(positions.shape[1])))),
    _fault("rotary_positions_from_one", "Tokens are counted from 1.", "any position",
           staged_rotation(places=_places(lambda positions: positions + 1))),
    _fault("rotary_cache_clamped", "Places beyond a cached table of 2,048 are those at its end.",
           "positions from 2,048 on",
           staged_rotation(places=_places(lambda positions: np.minimum(positions, CACHED - 1)))),
    _fault("rotary_cache_wraps", "Places beyond a cached table of 2,048 begin at 0 again.",
           "positions from 2,048 on", staged_rotation(places=_places(lambda positions: positions % CACHED))),
    _fault("rotary_positions_in_16_bits", "Positions are kept in a signed number of 16 bits.",
           "positions from 32,768 on",
           staged_rotation(places=_places(lambda positions: (positions + LONGEST) % (2 * LONGEST) - LONGEST))),
    _fault("rotary_base_ignored", "The base is 10000, whatever is handed over.", "another base, more than one pair",
           staged_rotation(take=lambda work: replace(work, base=DEFAULT_BASE))),
    _fault("rotary_base_off", "The base is a tenth of what it should be.", _PAIRS,
           staged_rotation(take=lambda work: replace(work, base=work.base / 10))),
    _fault("rotary_frequency_of_pair", "The exponent is i/r and not 2i/r.", "more than one pair",
           staged_rotation(frequency=_with_exponents(lambda work: _pair_index(work) / work.width))),
    _fault("rotary_frequency_of_width", "The exponent is 2i/D though only r features are turned.",
           "a rotary width below D, more than one pair",
           staged_rotation(frequency=_with_exponents(lambda work: 2 * _pair_index(work) / work.x.shape[-1]))),
    _fault("rotary_frequency_from_one", "The pairs are counted from 1.", _SOME,
           staged_rotation(frequency=_with_exponents(lambda work: 2 * (_pair_index(work) + 1) / work.width))),
    _fault("rotary_frequency_to_the_end", "The frequencies are spread so that the last one is 1/base.",
           "more than one pair", staged_rotation(frequency=_with_exponents(
               lambda work: np.linspace(0, 1, work.width // 2)))),
    _fault("rotary_frequency_reversed", "The slowest pair comes first.", "more than one pair",
           staged_rotation(frequency=lambda work: sound.frequency(work)[::-1])),
    _fault("rotary_frequency_in_bfloat16",
           "The frequencies are a buffer that was cast to bfloat16 with the model.", _PAIRS,
           staged_rotation(frequency=lambda work: sound.frequency(work).astype(ml_dtypes.bfloat16).astype(work.real))),
    _fault("rotary_angle_in_bfloat16", "Positions and angles are in bfloat16.", f"{_PAIRS}, or above 256",
           staged_rotation(angles=_angle_in(np.dtype(ml_dtypes.bfloat16)))),
    _fault("rotary_angle_in_float16", "Positions and angles are in float16.",
           f"{_PAIRS}, or above 2,048", staged_rotation(angles=_angle_in(np.dtype(np.float16)))),
    _fault("rotary_positions_in_bfloat16", "The positions are cast to bfloat16, like the model.", "positions above 256",
           staged_rotation(places=lambda work: work.positions.astype(ml_dtypes.bfloat16).astype(work.real))),
    _fault("rotary_positions_in_tf32", "The angles are a matrix product, whose inputs are cut off to TF32.",
           f"{_PAIRS}, or from 2,049 on",
           staged_rotation(angles=lambda work, places, frequency: sound.angles(work, _tf32(places), _tf32(frequency)))),
    _fault("rotary_first_head_only_for_one_token", "Of a single token only the batch's very first head is turned.",
           "T = 1, several heads or batch entries", staged_rotation(turn=_first_head_of_one)),
    _fault("rotary_width_ignored", "All features are turned.", "a rotary width below D",
           staged_rotation(take=lambda work: replace(work, width=work.x.shape[-1]))),
    _fault("rotary_last_turned", "The last features are turned instead of the first.",
           "a rotary width below D", staged_rotation(paired=_last)),
    _fault("rotary_rest_dropped", "Features that are not turned come back as zeros.",
           "a rotary width below D", _with_output(_rest_dropped)),
    _fault("rotary_of_token_before", "The table is read one token back where there are several heads.",
           "several heads, several tokens", staged_rotation(angles=_head_by_head)),
    _fault("rotary_overwrites_input", "The input is turned in place.", _SOME, _with_output(_in_buffer)),
    _fault("rotary_output_widened", "The answer has the dtype of cos and sin.", "half dtypes", _with_output(
               lambda output, x, _: output.astype(np.float64 if x.dtype == np.float64 else np.float32)),
           equivalents={DType.FLOAT64: _IS_RIGHT, DType.FLOAT32: _IS_RIGHT}),
)

_BUGS: Mapping[str, Mapping[str, str | Outside]] = {"rotary embedding": {
    "tenstorrent/tt-metal/issues/26844": "rotary_pairs_swapped",
    "PaddlePaddle/PaddleFleet/pull/678": "rotary_interleaved_ignored",
    "pie-project/pie/issues/602": "rotary_halves_of_all",
    "NVIDIA/Megatron-LM/issues/453": "rotary_positions_ignored",
    "turboderp/exllama/pull/101": "rotary_positions_run_on",
    "NVIDIA-NeMo/Automodel/pull/2377": "rotary_positions_from_first",
    "pegainfer-project/pegainfer/issues/220": "rotary_cache_clamped",
    "huggingface/candle/pull/3746": "rotary_base_ignored",
    "pie-project/pie/pull/603": "rotary_frequency_of_width",
    "sgl-project/sglang-jax/issues/1472": "rotary_frequency_in_bfloat16",
    "huggingface/transformers/pull/29285": "rotary_angle_in_bfloat16",
    "nkalyanv99/UNI-D2/pull/6": "rotary_positions_in_bfloat16",
    "huggingface/transformers/issues/48428": "rotary_positions_in_tf32",
    "oxiglade/mlx-rs/issues/359": "rotary_first_head_only_for_one_token",
}}

MISTAKES = AspectFaults(about={POSITIONS: _FAULTS}, bugs=_BUGS, sound=FORMULATIONS)
