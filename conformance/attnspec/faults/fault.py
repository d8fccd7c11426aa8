"""What a fault is, what an aspect's `faults.py` holds, and problems that tell faults apart."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from attnspec.core.declaration import Limits
from attnspec.core.forms import InputForm, MadeForm
from attnspec.core.keywords import load_parts
from attnspec.core.nouns import DType, Kind
from attnspec.faults.size_family import FaultFamily, Planted
from attnspec.faults.staged import Attend
from attnspec.faults.staged_forms import Layer, Rotate
from attnspec.faults.staged_work import Mechanism
from attnspec.problems.problem import Recipe, Sizes


class Stage(enum.StrEnum):
    """Where in attention, or around it, a fault sits, if it is not about an aspect's keyword."""

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
    """A form that a framework makes of a sound function, and that is wrong.

    form: which.  make: a function in its place.  backward: its backward pass, if it has one.
    """

    form: MadeForm
    make: Callable[[], Attend]
    backward: Callable[[], Callable[..., object]] | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A named, deliberately wrong attention.

    stage: a `Stage`, or the keyword that the fault is about.  story: how people come to write it.
    reach: the feature, shape, dtype or value at which it shows.  link: the public thread of a real
    bug of this kind; "": the first that `mechanisms` names for it, if any.  limits: what the
    function declares beyond the ordinary.  equivalents: dtypes at which it cannot be told from
    rounding, each with the reason.  other_path: what the subject does with a hidden switch
    flipped, if it has one.  planted: where a fault shows that shows only at certain sizes; a seed
    draws them.  form: that of the function's arrays.  claims: profiles that bind only who claims
    them.  backward: the wrong backward pass, if that is what is wrong.  made: the form that alone
    is wrong, if so.  words: what its precision class says besides the grade, at every dtype.
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
        """A freshly made function; a fault that keeps state starts anew with each."""
        return self.make()

    @property
    def shows_at(self) -> str:
        """The sizes at which it shows; "" if it shows at any."""
        return self.planted.reach if self.planted else ""


class Outside(enum.Enum):
    """Why a real mistake has no fault of its own."""

    CACHE = "it is in how a library allocates or fills a cache of its own, and no keyword of attnspec passes one"
    BACKWARD = "it is in a part of a backward pass that no fault of gradients gets wrong"
    POSITIONS = "it is in the positions that are worked into queries and keys before attention sees them"
    TRAINING = "it shows in training only"
    REFUSAL = "a program that should run is refused before attention computes anything"
    UNTOLD = "the thread tells no mechanism that one could plant"
    CONVENTION = "it is a documented convention, or a mistake of the caller; attnspec tests what is declared instead"
    TASTE = "results differ by roundings, and neither is wrong"


GITHUB = "https://github.com/"


@dataclass(frozen=True, slots=True)
class SizeThread:
    """A public thread on GitHub about a mistake at certain sizes.

    sizes: at which it went wrong, in the thread's words or in ours.  made_by: the faults that make
    the mistake, or why none does.  is_told: whether the thread tells the mechanism; if it tells
    sizes alone, the faults are those that show at such sizes.
    """

    name: str
    sizes: str
    made_by: str | Outside
    is_told: bool = True

    @property
    def link(self) -> str:
        """The address of the thread."""
        return GITHUB + self.name

    @property
    def faults(self) -> tuple[str, ...] | Outside:
        """The names of the faults that make the mistake, or why none does."""
        return self.made_by if isinstance(self.made_by, Outside) else tuple(self.made_by.split())


@dataclass(frozen=True, slots=True)
class SoundFormulation:
    """A right attention, or rotary embedding, of an aspect.

    meaning: how it computes.  pool: whose keywords it takes besides those that all take.  grade:
    in half dtypes.  words: what its precision class says besides.  form: that of its arrays.
    claims: profiles that bind only who claims them.  backward: the backward pass beside it, if
    any.
    """

    name: str
    meaning: str
    make: Callable[[], Attend | Rotate]
    pool: str = ""
    grade: str = "G0"
    words: Mapping[str, object] = field(default_factory=dict)
    kind: Kind = Kind.ATTENTION
    form: InputForm = InputForm.DENSE
    claims: tuple[str, ...] = ()
    backward: Callable[[], Callable[..., object]] | None = None


@dataclass(frozen=True, slots=True)
class AspectFaults:
    """The mistakes that an aspect's `faults.py` hands over.

    about: by keyword of the aspect, the faults that are about it.  beside: by keyword of another
    aspect, how it is lost beside this one.  left_on: what is computed though nobody asked for it.
    backward: faults of a backward pass.  families: of faults that show at certain sizes.
    mechanisms: by name, what goes wrong in a family.  bugs: by class of mistake, public threads on
    GitHub and the faults that make the same one.  threads: those of mistakes at certain sizes.
    panel: calls by which a diagnosis tells the faults apart.  sound: right formulations, which no
    clause may accuse.  of_any_call: faults that are about no keyword.  beside_pool: by pool of the
    aspect's keywords, pools whose keywords its faults take, too.
    """

    about: Mapping[str, tuple[Fault, ...]]
    beside: Mapping[str, tuple[Fault, ...]] = field(default_factory=dict)
    left_on: tuple[Fault, ...] = ()
    backward: tuple[Fault, ...] = ()
    families: tuple[FaultFamily, ...] = ()
    mechanisms: Mapping[str, Mechanism] = field(default_factory=dict)
    bugs: Mapping[str, Mapping[str, str | Outside]] = field(default_factory=dict)
    threads: tuple[SizeThread, ...] = ()
    panel: tuple[Recipe, ...] = ()
    sound: tuple[SoundFormulation, ...] = ()
    of_any_call: tuple[Fault, ...] = ()
    beside_pool: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def all_mistakes() -> tuple[AspectFaults, ...]:
    """The mistakes of every aspect, in the order of the aspects."""
    return tuple(part.MISTAKES for part in load_parts("faults"))


PartT = TypeVar("PartT")


def of_aspects(part: Callable[[AspectFaults], Iterable[PartT]]) -> tuple[PartT, ...]:
    """One part of the mistakes of every aspect, in the order of the aspects."""
    return tuple(chain.from_iterable(map(part, all_mistakes())))


#                     B  H Hkv  T   S   D  Dv
REMEMBERED = Sizes(1, 2, 2, 4, 6, 5, 3)      # no shape of the pool: nothing of it can have been remembered before
LONGER = Sizes(1, 2, 2, 4, 9, 5, 3)
GROUPED = Sizes(2, 6, 2, 5, 7, 6, 4)
QUERIES = Sizes(2, 3, 3, 9, 6, 8, 5)
SQUARE = Sizes(2, 2, 2, 6, 6, 5, 5)
BLOCKS = Sizes(2, 4, 2, 18, 37, 16, 8)
EVEN = Sizes(1, 4, 4, 32, 32, 9, 16)
LONG = Sizes(1, 2, 2, 2, 530, 8, 8)
ONE = Sizes(2, 2, 2, 1, 5, 7, 4)
ONE_KEY = Sizes(2, 2, 2, 5, 1, 7, 4)
RAGGED = Sizes(3, 2, 2, 4, 11, 6, 5)         # keys enough for three lengths, of which some end in the past
REMEMBERED_LAYER = Sizes(2, 2, 2, 4, 4, 6, 6)
SQUARE_LAYER = Sizes(2, 3, 3, 5, 5, 4, 4)
WIDE_LAYER = Sizes(2, 2, 2, 5, 7, 4, 3)
GROUPED_LAYER = Sizes(2, 4, 2, 6, 5, 4, 4)


def panel_recipe(sizes: Sizes, keywords: str, families: str = "normal", *, mask: str = "random", seed: int = 1,
                 bias: str = "normal", scale: float = 0.3, **values: Any) -> Recipe:  # noqa: ANN401  (by the keyword)
    """The recipe of a problem of these sizes with these keywords.

    values: those of uncommon keywords, by name.
    """
    features = frozenset(keywords.split())
    return Recipe(sizes, tuple(families.split()), mask if "mask" in features else "none", features, seed,
                  bias=bias, scale=scale, values=values)
