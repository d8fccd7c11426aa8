"""Subjects with a hidden switch: one path is wrong, and flipping the switch takes the sound one.

No such fault needs a reference to be convicted: the same inputs get two answers.
"""

from __future__ import annotations

import numpy as np

from attnspec.faults.fault import Fault, Stage
from attnspec.faults.staged import staged

_FAST = "https://github.com/keras-team/keras/issues/23038"

FAULTS: tuple[Fault, ...] = (
    Fault("switch_mask_dropped", Stage.MASK, "The fused path never looks at the mask; the plain one does.",
          "any mask that hides a key", staged(masked=lambda work: np.ones(work.shape, bool)), other_path=staged()),
    Fault("switch_causal_dropped", Stage.CAUSAL, "The path that keeps scores for a backward pass forgets the flag.",
          "causal with S > 1", staged(past=lambda work: np.ones(work.shape[2:], bool)), link=_FAST,
          other_path=staged()),
    Fault("switch_scale_left_out", Stage.SCALE, "The fused kernel scales by itself, the plain path not at all.",
          "the default scale, D > 1", staged(scale=lambda _: 1.0), other_path=staged()),
)
