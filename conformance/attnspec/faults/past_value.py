"""Past values that are lost, taken from elsewhere, or put in another place than their keys."""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

import numpy as np

from attnspec.faults import serving
from attnspec.faults.fault import Fault, Stage
from attnspec.faults.past_key import of, one_slot_late, put_together, without_first
from attnspec.faults.staged import staged
from attnspec.faults.work import HandedOver
from attnspec.problems.problem import Array


def _keys_instead(call: HandedOver) -> HandedOver:
    """Past keys stand where past values should, where both are of one width."""
    if call.past_key is None or call.past_value is None or call.past_key.shape != call.past_value.shape:
        return serving.extend(call)
    return serving.extend(call.but(past_value=call.past_key))


def _new_first(past: Array, new: Array) -> Array:
    """(B,Hkv,P+S,Dv): the new ones first."""
    return np.concatenate([new, past], axis=2)


_TWO = "a past of two keys and more"

FAULTS = (
    Fault("past_value_after_new", Stage.PAST_VALUE, "Keys are put together in one order, values in the other.",
          "a past", staged(extend=put_together(value=_new_first))),
    Fault("past_value_lost", Stage.PAST_VALUE, "Only keys are written to the cache; its values stay zeros.", "a past",
          staged(extend=put_together(value=of(np.zeros_like)))),
    Fault("past_value_is_key", Stage.PAST_VALUE, "The cache of keys is handed on as that of values.",
          "a past, D = Dv", staged(extend=_keys_instead)),
    Fault("past_value_of_next_entry", Stage.PAST_VALUE, "Keys are reordered with their batch, values are not.",
          "a past, B > 1", staged(extend=put_together(value=of(lambda past: np.roll(past, -1, axis=0))))),
    Fault("past_value_of_next_head", Stage.PAST_VALUE, "Each head has the cached values of the next.",
          "a past, Hkv > 1", staged(extend=put_together(value=of(lambda past: np.roll(past, -1, axis=1))))),
    Fault("past_value_of_neighbour", Stage.PAST_VALUE, "Each cached key has the value of the slot before it.", _TWO,
          staged(extend=put_together(value=of(one_slot_late)))),
    Fault("past_value_first_lost", Stage.PAST_VALUE, "The first value is never written to the cache.", "a past",
          staged(extend=put_together(value=of(without_first)))),
)
