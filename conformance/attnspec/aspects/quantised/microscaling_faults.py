"""These faults misread exponents of microscaling formats or E2M1, or lose second scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import ml_dtypes
import numpy as np

from attnspec.aspects.quantised.arrays import GLOBALS
from attnspec.aspects.quantised.stage import Change, Restore, drop_if, has_one_query, read_changed
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault, Outside, panel_recipe
from attnspec.faults.staged import staged
from attnspec.faults.staged_work import PreparedCall
from attnspec.problems.problem import INPUTS, Array, Sizes


def _are_exponents(scale: Array) -> bool:
    """Whether scales of any shape are powers of two, as E8M0 has them."""
    return bool((np.frexp(scale)[0] == 0.5).all())


def _bias_off(scale: Array) -> Array:
    """Exponents of E8M0, of any shape, are read with a bias of 128."""
    return scale / 2 if _are_exponents(scale) else scale


def _as_e4m3(scale: Array) -> Array:
    """The bits of E8M0, of any shape, are read as E4M3."""
    if not _are_exponents(scale):
        return scale
    bits = scale.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    return bits.view(ml_dtypes.float8_e4m3fn).astype(np.float32)


def _as_e8m0(scale: Array) -> Array:
    """The bits of E4M3, of any shape, are read as E8M0, as a kernel of the other format does."""
    stored = scale.astype(ml_dtypes.float8_e4m3fn)
    if _are_exponents(scale) or not (stored.astype(scale.dtype) == scale).all():
        return scale
    return np.clip(stored.view(np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32), 2.0**-60, 2.0**60)


_GRID = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
"""The sizes of E2M1."""


def _with_e2m1(change: Change, *names: str) -> Restore:
    """A `restore` stage that changes codes (B,H,S,D) which are all of E2M1, halves too."""
    def restore(work: PreparedCall) -> PreparedCall:
        for name in names:
            codes = getattr(work, name)
            is_e2m1 = np.isin(np.abs(codes), _GRID).all() and (codes != np.rint(codes)).any()
            if getattr(work, f"{name}_scale") is not None and is_e2m1:
                work = work.but(**{name: change(codes).astype(codes.dtype)})
        return sound.restore(work)
    return restore


def _places(codes: Array) -> Array:
    """The three bits of each code of E2M1, of any shape, without its sign."""
    return np.searchsorted(_GRID, np.abs(codes))


def _as_int4(codes: Array) -> Array:
    """The four bits of codes of any shape are read as a number of two's complement."""
    places = _places(codes)
    return np.where(np.signbit(codes), places - 8, places)


def _as_levels(codes: Array) -> Array:
    """The three bits of codes of any shape are taken for evenly spaced sizes."""
    return np.copysign(_places(codes), codes)


def _as_e1m2(codes: Array) -> Array:
    """One bit of codes of any shape is the exponent and two the fraction, as of E1M2."""
    return np.copysign(_places(codes) / 2, codes)


def _without_halves(codes: Array) -> Array:
    """The subnormal code of 1/2 becomes 0, in codes of any shape."""
    return np.where(np.abs(codes) == 0.5, 0, codes)


def _without_six(codes: Array) -> Array:
    """The largest code is taken for 4, in codes of any shape."""
    return np.clip(codes, -4, 4)


_SCALES: Mapping[str, tuple[str, str, Change]] = {
    "exponent_bias_off": ("The exponent of the {} scale has a bias of 128 in place of 127.", "{} scales of E8M0",
                          _bias_off),
    "read_as_e4m3": ("The {} scale of E8M0 is read as E4M3.", "{} scales of E8M0", _as_e4m3),
    "read_as_e8m0": ("The {} scale of E4M3 is read as E8M0.", "{} scales of E4M3", _as_e8m0),
}
_CODES: Mapping[str, tuple[str, Change]] = {
    "read_as_int4": ("The {} codes of E2M1 are read as int4.", _as_int4),
    "read_as_levels": ("The {} codes of E2M1 are taken for evenly spaced.", _as_levels),
    "read_as_e1m2": ("The {} codes of E2M1 are read with one bit of exponent.", _as_e1m2),
    "without_halves": ("The subnormal {} code of E2M1 becomes 0.", _without_halves),
    "without_six": ("The largest {} code of E2M1 is taken for 4.", _without_six),
}
_GLOBALS: Mapping[str, tuple[str, Change]] = {
    "ignored": ("The second scale of the {} is accepted and not used.", np.ones_like),
    "twice": ("The second scale of the {} is applied to its scales and to its codes.", np.square),
    "reciprocal": ("The {} is divided by its second scale, as by what quantised it.", lambda scale: 1 / scale),
    "in_e4m3": ("The second scale of the {} is stored as its scales are, in E4M3.",
                lambda scale: scale.astype(ml_dtypes.float8_e4m3fn).astype(scale.dtype)),
}


def _of_scales() -> Iterator[Fault]:
    """Each mistake with the scales and codes of keys and values."""
    for array in ("key", "value"):
        keyword = f"{array}_scale"
        for name, (story, reach, change) in _SCALES.items():
            yield Fault(f"{keyword}_{name}", keyword, story.format(array), reach.format(array),
                        staged(restore=read_changed(change, keyword)))
        for name, (of_codes, change) in _CODES.items():
            yield Fault(f"{array}_e2m1_{name}", keyword, of_codes.format(array), f"{array} codes of E2M1",
                        staged(restore=_with_e2m1(change, array)))


def _of_both() -> Iterator[Fault]:
    """The same with keys and values alike, where one helper dequantises both."""
    for name, (story, reach, change) in _SCALES.items():
        yield Fault(f"both_scales_{name}", "value_scale", story.format("key and value"), reach.format("key or value"),
                    staged(restore=read_changed(change, "key_scale", "value_scale")))
    for name, (of_codes, change) in _CODES.items():
        yield Fault(f"both_e2m1_{name}", "value_scale", of_codes.format("key and value"), "key or value codes of E2M1",
                    staged(restore=_with_e2m1(change, "key", "value")))
    for name, (of_globals, change) in _GLOBALS.items():
        yield Fault(f"both_global_scales_{name}", "value_global_scale", of_globals.format("keys and values"),
                    "a second scale of keys or values other than 1",
                    staged(restore=read_changed(change, "key_global_scale", "value_global_scale")))


def _of_globals() -> Iterator[Fault]:
    """Each mistake with the second scale of each array."""
    for keyword, array in GLOBALS.items():
        for name, (story, change) in _GLOBALS.items():
            yield Fault(f"{keyword}_{name}", keyword, story.format(array),
                        f"a second scale of the {array} other than 1", staged(restore=read_changed(change, keyword)),
                        link=_LINKS.get(f"{keyword}_{name}", ""))


def _dropped_for_one_query(array: str) -> Fault:
    """The second scale is folded in where there are many queries, and forgotten where there is one."""
    keyword = f"{array}_global_scale"
    return Fault(f"{keyword}_dropped_for_one_query", keyword,
                 f"The second scale of the {array} is dropped on the decoding path (T = 1).",
                 f"a second scale of the {array} other than 1, T = 1",
                 staged(restore=drop_if(has_one_query, keyword)))


def _exchange_second_scales(work: PreparedCall) -> PreparedCall:
    """Keys and values have each other's second scale."""
    if work.key_global_scale is None or work.value_global_scale is None:
        return sound.restore(work)
    one, other = (np.asarray(scale).ravel()[0] for scale in (work.key_global_scale, work.value_global_scale))
    return sound.restore(work.but(key_global_scale=np.array(other), value_global_scale=np.array(one)))


def _in_place(work: PreparedCall) -> PreparedCall:
    """Where there is a second scale, it is taken for the only one."""
    alone = {f"{name}_scale": None for name in INPUTS if getattr(work, f"{name}_global_scale") is not None}
    return sound.restore(work.but(**alone))


_LINKS: Mapping[str, str] = {
    "value_global_scale_ignored": "https://github.com/flashinfer-ai/flashinfer/pull/3097"}

MICROSCALING_FAULTS = (
    *_of_scales(), *_of_globals(), *_of_both(), *(_dropped_for_one_query(array) for array in ("key", "value")),
    Fault("global_scales_exchanged", "key_global_scale", "Keys and values have each other's second scale.",
          "second scales of both that differ", staged(restore=_exchange_second_scales)),
    Fault("global_scale_in_place_of_scales", "value_global_scale", "A second scale is taken for the only one.",
          "second scales", staged(restore=_in_place)),
)

MICROSCALING_BUGS: Mapping[str, Mapping[str, str | Outside]] = {
    "second scale": {"flashinfer-ai/flashinfer/pull/3097": "value_global_scale_ignored"},
}

_SMALL = Sizes(1, 4, 2, 5, 40, 40, 40)
_OF_PANEL = ("mxfp8/block(32)/powers", "mxfp8/channel_tokens(32)/powers", "mxfp4/block(32)/powers",
             "mxfp4/channel_tokens(32)/powers", "nvfp4/block(16)/odd", "nvfp4/channel_tokens(16)/odd")
MICROSCALING_PANEL = (
    *(panel_recipe(_SMALL, f"{array}_scale", seed=190, **{f"{array}_scale": pattern})  # type: ignore[arg-type]  # by keyword
      for pattern in _OF_PANEL for array in INPUTS),
    *(panel_recipe(_SMALL, "key_scale value_scale", seed=192, key_scale=pattern, value_scale=pattern)
      for pattern in _OF_PANEL),
    *(panel_recipe(_SMALL, f"{array}_scale {array}_global_scale", seed=191, **{  # type: ignore[arg-type]  # by keyword
        f"{array}_scale": pattern, f"{array}_global_scale": "odd"}) for pattern in _OF_PANEL[-2:] for array in INPUTS))
