"""What the `faults.py` of an aspect hands over: its mistakes, of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from attnspec.core.forms import InputForm
from attnspec.core.keywords import load_parts
from attnspec.faults.fault import Fault
from attnspec.faults.outside import Outside
from attnspec.faults.size_family import FaultFamily
from attnspec.faults.size_mechanism import Mechanism
from attnspec.faults.staged import Attend
from attnspec.problems.problem import Recipe


@dataclass(frozen=True, slots=True)
class SoundFormulation:
    """A right attention that takes the keywords of a pool, too; of none, what all take. meaning: how it computes.
    grade: in half dtypes.  words: what its precision class says besides.  form: that of its arrays.  claims: profiles
    that bind only who claims them.
    """

    name: str
    meaning: str
    make: Callable[[], Attend]
    pool: str = ""
    grade: str = "G0"
    words: Mapping[str, object] = field(default_factory=dict)
    form: InputForm = InputForm.DENSE
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AspectFaults:
    """The mistakes that an aspect's `faults.py` hands over.

    about: by keyword of this aspect, the faults that are about it.  beside: by keyword of another one, how that is lost
    beside this one.
    left_on: what is computed though nobody asked for it.  backward: faults of a backward pass.
    families: of those that show at certain sizes; mechanisms: by name, what goes wrong in a family.
    bugs: by class of mistake, public threads on GitHub and the faults that make the same one, as in `mechanisms`.
    panel: calls by which a diagnosis tells its faults apart.
    sound: right formulations of it, which no clause may accuse.  of_any_call: faults that are about no keyword.
    """

    about: Mapping[str, tuple[Fault, ...]]
    beside: Mapping[str, tuple[Fault, ...]] = field(default_factory=dict)
    left_on: tuple[Fault, ...] = ()
    backward: tuple[Fault, ...] = ()
    families: tuple[FaultFamily, ...] = ()
    mechanisms: Mapping[str, Mechanism] = field(default_factory=dict)
    bugs: Mapping[str, Mapping[str, str | Outside]] = field(default_factory=dict)
    panel: tuple[Recipe, ...] = ()
    sound: tuple[SoundFormulation, ...] = ()
    of_any_call: tuple[Fault, ...] = ()


def all_mistakes() -> tuple[AspectFaults, ...]:
    """The mistakes of every aspect, in order."""
    return tuple(part.MISTAKES for part in load_parts("faults"))
