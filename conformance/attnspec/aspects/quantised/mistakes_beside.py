"""These faults lose or misplace scales beside other keywords, such as a past or sinks.

The stages are those of `faults/staged.py`; scales have the axes of their array, of all keys where
some are past.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from attnspec.aspects.quantised.stage import Restore, drop_if, is_one_for_features, scale_columns
from attnspec.core.keyword import CACHES_POOL, SERVING_POOL, Acts
from attnspec.core.keywords import CACHED, KEYWORDS, UNCOMMON
from attnspec.faults import staged as sound
from attnspec.faults.fault import Fault
from attnspec.faults.staged import Attend, around, attention, staged, with_column
from attnspec.faults.staged_work import Answer, HandedOver, PreparedCall, extra_logit
from attnspec.problems.problem import CACHED_INPUTS, Array

ScaleChange = Callable[[Array, int], Array]
"""Other scales (B,Hkv,S,·), made from those of all keys and the number of past ones."""


def _reading(keyword: str, change: ScaleChange) -> Restore:
    """A `restore` stage that reads other scales, or zero points, of keys or values where there is a past."""
    def restore(work: PreparedCall) -> PreparedCall:
        scale = getattr(work, keyword)
        if scale is not None and work.past_key is not None:
            whole = np.broadcast_to(scale, getattr(work, KEYWORDS[keyword].meaning_of).shape)
            work = work.but(**{keyword: change(whole, work.past_key.shape[2])})
        return sound.restore(work)
    return restore


def _is_past(scale: Array, past: int) -> Array:
    """(S,1): whether a key of scales (B,Hkv,S,·) is past."""
    return (np.arange(scale.shape[2]) < past)[:, None]


def _lost_on_past(scale: Array, past: int) -> Array:
    """(B,Hkv,S,·): past codes are taken for numbers."""
    return np.where(_is_past(scale, past), scale.dtype.type(1), scale)


def _lost_on_new(scale: Array, past: int) -> Array:
    """(B,Hkv,S,·): new codes are taken for numbers."""
    return np.where(_is_past(scale, past), scale, scale.dtype.type(1))


def _twice_on_past(scale: Array, past: int) -> Array:
    """(B,Hkv,S,·): past codes are multiplied by their scales twice."""
    return np.where(_is_past(scale, past), scale * scale, scale)


def _restarting(scale: Array, past: int) -> Array:
    """(B,Hkv,S,·): new keys have the scales of the first ones."""
    places = np.arange(scale.shape[2])
    return scale[:, :, np.where(places < past, places, places - past)]


def _of_last_past(scale: Array, past: int) -> Array:
    """(B,Hkv,S,·): new keys have the scale of the last past one."""
    return scale[:, :, np.minimum(np.arange(scale.shape[2]), max(past - 1, 0))]


def _of_new(scale: Array, past: int) -> Array:
    """(B,Hkv,S,·): past keys have the scale of the first new one."""
    return scale[:, :, np.maximum(np.arange(scale.shape[2]), min(past, scale.shape[2] - 1))]


def _new_first(scale: Array, past: int) -> Array:
    """(B,Hkv,S,·): the scales of the new keys stand before those of the past."""
    return np.roll(scale, -past, axis=2)


_BY_TOKEN = "a past, {} scales by token"
PAST_CHANGES: Mapping[str, tuple[str, str, ScaleChange]] = {
    "lost_on_past": ("Past {} codes are taken for numbers.", "a past, {} scales other than 1", _lost_on_past),
    "lost_on_new": ("New {} codes are taken for numbers, since only the cache is quantised.",
                    "a past, {} scales other than 1", _lost_on_new),
    "twice_on_past": ("Past {} codes are multiplied by their scale when they are read, and again with all others.",
                      "a past, {} scales other than 1", _twice_on_past),
    "restarting": ("The scales of new {} codes are looked up from the beginning.", _BY_TOKEN, _restarting),
    "of_last_past": ("New {} codes have the scale of the last past one.", _BY_TOKEN, _of_last_past),
    "of_new": ("All past {} codes have the scale that the new ones came with.", _BY_TOKEN, _of_new),
    "of_new_first": ("The {} scales of new codes stand before those of the past.", _BY_TOKEN, _new_first),
}
"""By name: story, reach, and what becomes of the scales behind a past; {} is the array."""

ZERO_CHANGES: Mapping[str, tuple[str, str, ScaleChange]] = {
    "lost_on_past": ("No {} zero point is taken off past codes.", "a past, {} zero points other than 0",
                     lambda zero, past: np.where(_is_past(zero, past), zero.dtype.type(0), zero)),
    "of_last_past": ("New {} codes have the zero point of the last past one.", "a past, {} zero points by token",
                     _of_last_past),
    "of_new_first": ("The {} zero points of new codes stand before those of the past.",
                     "a past, {} zero points by token", _new_first),
}
"""The same of zero points."""


def _of_past() -> Iterator[Fault]:
    """Each mistake with the scales, or zero points, of a past."""
    for array in CACHED_INPUTS:
        for word, changes in (("scale", PAST_CHANGES), ("zero", ZERO_CHANGES)):
            for name, (story, reach, change) in changes.items():
                keyword = f"{array}_{word}"
                yield Fault(f"{keyword}_{name}", keyword, story.format(array), reach.format(array),
                            staged(restore=_reading(keyword, change)))


_BESIDE = tuple(name for name in UNCOMMON if (word := KEYWORDS[name]).pool in {"", SERVING_POOL, CACHES_POOL}
                and word.acts in {Acts.VISIBILITY, Acts.KEYS, Acts.LOGITS, Acts.ANSWER} and name not in CACHED[1:])
"""What servers ask for beside codes: one keyword of each that has a path of its own in a kernel."""


def _has_keyword(keyword: str) -> Callable[[PreparedCall], bool]:
    """Whether a call has a keyword, as a condition."""
    return lambda work: keyword in work.given


def _of_paths() -> Iterator[Fault]:
    """A scale that is dropped on the path of another keyword."""
    for array in ("key", "value"):
        for keyword in _BESIDE:
            yield Fault(f"{array}_scale_dropped_with_{keyword}", f"{array}_scale",
                        f"The {array} scale is dropped on the path of {keyword}.",
                        f"{array} scales other than 1, together with {keyword}",
                        staged(restore=drop_if(_has_keyword(keyword), f"{array}_scale")))


def _keep_key_codes(work: PreparedCall) -> PreparedCall:
    """Key codes and their scale stay for a later stage where all features of a key share one."""
    if not is_one_for_features(work.key_scale):
        return sound.restore(work)
    return sound.restore(work.but(key_scale=None)).but(key_scale=work.key_scale)


def _columns(work: PreparedCall, dtype: np.dtype[Any]) -> Array:
    """(B,H,1,S): the scale of each key that stayed for a later stage; ones where none did."""
    if work.key_scale is None:
        return np.ones((1, 1, 1, 1), dtype)
    return scale_columns(work.key_scale, work, dtype)


def _on_logits(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) of codes, times the scale of each key."""
    return logits * _columns(work, logits.dtype)


def _late(**changes: Any) -> Callable[[], Attend]:  # noqa: ANN401  (stages)
    """A maker of functions that multiply the key scale in at a later stage."""
    return staged(restore=_keep_key_codes, **changes)


def _scaled_sink(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S) and one more, the sink of each head times the scale of its first key, as if it were a key."""
    extra = extra_logit(work)
    if extra is None:
        return logits
    joined = with_column(logits, extra)
    joined[..., -1] *= np.broadcast_to(_columns(work, logits.dtype)[..., 0], joined.shape[:3])
    return joined


def _unscaled_bias(logits: Array, work: PreparedCall) -> Array:
    """Logits (B,H,T,S): scores and bias together are multiplied by the scale of each key."""
    return _on_logits(sound.add_bias(logits, work), work)


def _with_lse_of(change: Callable[[HandedOver], HandedOver]) -> Callable[[], Attend]:
    """A maker of functions whose log-sum-exp (B,H,T) is that of another call."""
    def answer(call: HandedOver) -> Answer:
        """Output (B,H,T,Dv), and what else is asked for."""
        found = attention(call)
        return (*found[:-1], attention(change(call))[-1]) if call.return_lse else found
    return around(answer)


def _value_scaled(lse: Array, scale: Array) -> Array:
    """(B,H,T): the logarithm of the value scale (B,Hkv,S,Dv) of each head joins in."""
    of_heads = np.repeat(scale[:, :, 0, 0], lse.shape[1] // scale.shape[1], axis=1)[..., None]
    return (lse + np.log(of_heads)).astype(lse.dtype)


def _with_value_scale(call: HandedOver) -> Answer:
    """Output (B,H,T,Dv); the log-sum-exp is that of weights which the value scale is folded into."""
    found = attention(call)
    if not call.return_lse or call.value_scale is None:
        return found
    return (*found[:-1], _value_scaled(found[-1], call.value_scale))


_OF_STAGES = (
    Fault("key_scale_on_sinks", "key_scale", "The sink's logit is multiplied by the key scale, as those of keys are.",
          "sinks, key scales other than 1", _late(
              logits=lambda work, factor: _on_logits(sound.logits(work, factor), work), join=_scaled_sink)),
    Fault("key_scale_on_bias", "key_scale", "The key scale is multiplied in behind the bias.",
          "a bias, key scales other than 1", _late(add_bias=_unscaled_bias)),
    Fault("key_scale_behind_the_cap", "key_scale", "The key scale is multiplied in when logits are capped already.",
          "capped logits, key scales other than 1", _late(
              bend=lambda logits, work: _on_logits(sound.bend(logits, work), work))),
)
_OF_LSE = (
    Fault("lse_without_key_scale", "key_scale", "The log-sum-exp is that of codes, without the key scale.",
          "return_lse, key scales other than 1", _with_lse_of(lambda call: call.but(key_scale=None))),
    Fault("lse_without_query_scale", "query_scale", "The log-sum-exp is that of codes, without the query scale.",
          "return_lse, query scales other than 1", _with_lse_of(lambda call: call.but(query_scale=None))),
    Fault("lse_with_key_scale_twice", "key_scale", "The key scale is in the log-sum-exp twice.",
          "return_lse, key scales other than 1", _with_lse_of(
              lambda call: call if call.key_scale is None else call.but(key_scale=call.key_scale ** 2))),
    Fault("lse_with_value_scale", "value_scale", "The value scale is folded into the weights, and so into their sum.",
          "return_lse, value scales other than 1", around(_with_value_scale)),
)

FAULTS: tuple[Fault, ...] = (*_of_past(), *_of_paths(), *_OF_STAGES, *_OF_LSE)
"""The faults of scales that show beside another keyword alone."""
