"""What a fault is."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from attnspec.core.declaration import Limits
from attnspec.core.forms import InputForm
from attnspec.core.made_variants import MadeForm
from attnspec.core.nouns import DType, Kind
from attnspec.faults.layer import Layer
from attnspec.faults.planted import Planted
from attnspec.faults.rotary_work import Rotate
from attnspec.faults.staged import Attend


class Stage(enum.StrEnum):
    """Where in attention, or around it, a fault sits, if it is not about a keyword that has a folder of its own."""

    SCALE = "scale"
    HEADS = "heads"
    LOGITS = "logits"
    BIAS = "bias"
    MASK = "mask"
    CAUSAL = "causal"
    ROTARY = "rotary"
    PACKED = "packed"
    SOFTMAX = "softmax"
    BLOCKS = "blocks"
    WEIGHTS = "weights"
    OUTPUT = "output"
    TAILS = "tails"
    PRECISION = "precision"
    STATE = "state"
    PURITY = "purity"
    LAYOUT = "layout"
    PROJECTION = "projection"
    SPLIT = "split"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class WrongForm:
    """What a framework makes of a function that is sound: form: which.  make: a function in its place.  backward: its
    backward pass, where the plain function has one.
    """

    form: MadeForm
    make: Callable[[], Attend]
    backward: Callable[[], Callable[..., object]] | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A named, deliberately wrong attention.

    stage: a `Stage`, or the keyword that the fault is about.
    story: how people come to write it.  reach: the feature, shape, dtype or value that makes it bite.
    link: the public thread of a real bug of this kind, or "".
    limits: what the faulty function declares beyond the ordinary.
    equivalents: dtypes at which it cannot be told from rounding, each with the reason.
    other_path: what the same subject does with a hidden switch flipped, where it has one.
    planted: of a fault that shows only at certain sizes, at which; a seed draws them.
    form: that of the arrays which its function takes.  claims: profiles that bind only who claims them.
    backward: the backward pass beside it, where that is what is wrong.  made: what is wrong is this form of it alone.
    words: what its precision class says besides the grade, at every dtype.
    """

    name: str
    stage: str
    story: str
    reach: str
    make: Callable[[], Attend | Layer | Rotate]
    link: str = ""
    kind: Kind = Kind.ATTENTION
    limits: Limits = field(default_factory=lambda: Limits(grouped=True, broadcasts=True))
    equivalents: Mapping[DType, str] = field(default_factory=dict)
    other_path: Callable[[], Attend | Layer | Rotate] | None = None
    planted: Planted | None = None
    form: InputForm = InputForm.DENSE
    claims: tuple[str, ...] = ()
    backward: Callable[[], Callable[..., object]] | None = None
    made: WrongForm | None = None
    words: Mapping[str, object] = field(default_factory=dict)

    @property
    def function(self) -> Attend | Layer | Rotate:
        """A freshly made function: faults that keep state start anew with each."""
        return self.make()

    @property
    def shows_at(self) -> str:
        """Of a fault that shows only at certain sizes, at which; "" for all others."""
        return self.planted.reach if self.planted else ""
