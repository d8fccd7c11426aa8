"""Faults and sound formulations as subjects: `fault/NAME` and `sound/NAME`."""

from __future__ import annotations

from dataclasses import replace

from attnspec.core.errors import FileLocation
from attnspec.core.keywords import OFF
from attnspec.core.plan import FAULT, SOUND, is_fault
from attnspec.faults.catalogue import CATALOGUE, OTHER_PATH, declaration_of, fault_named
from attnspec.faults.fault import WrongForm
from attnspec.faults.sizes.families import FAMILIES
from attnspec.faults.sizes.family import SEEDED
from attnspec.faults.sound import EVERY as FORMULATIONS
from attnspec.faults.sound import declaration_of_sound, sound_named
from attnspec.faults.sound_backward import SOUND_BACKWARD, SoundBackward, declaration_of_pair
from attnspec.subjects.backward import BackwardPass
from attnspec.subjects.in_process import InProcess
from attnspec.subjects.manifest import Library
from attnspec.subjects.subject import Subject

_BACKWARD = BackwardPass("attend_backward", frozenset(OFF))
_LIBRARY = Library("attnspec's own faults", distribution="attnspec", homepage="")


def own_ids(seed: str = "") -> tuple[str, ...]:
    """Every fault and every sound formulation. seed: instead, all families of sizes as this seed draws them."""
    if seed:
        return tuple(f"{FAULT}{name}{SEEDED}{seed}" for name in FAMILIES)
    return (*(FAULT + name for name in CATALOGUE), *(SOUND + name for name in (*FORMULATIONS, *SOUND_BACKWARD)))


def own_subject(target: str) -> Subject:
    """The fault or the sound formulation that `fault/NAME` or `sound/NAME` names. Raises TargetError."""
    return fault_subject(target) if is_fault(target) else sound_subject(target)


def renewed(subject: Subject) -> Subject:
    """The same subject made anew where it is one of our own: a fault with a memory starts without one."""
    is_ours = subject.id.partition(SEEDED)[0] in own_ids()
    return replace(subject, callee=own_subject(subject.id).callee) if is_ours else subject


def fault_subject(target: str) -> Subject:
    """The fault as a subject. Raises TargetError, with the nearest name, where there is none."""
    fault = fault_named(target.removeprefix(FAULT))
    place = FileLocation(f"faults/{fault.stage.value}")
    backward = fault.backward() if fault.backward else None
    subject = Subject(target, fault.story, InProcess(fault.function, backward=backward), declaration_of(fault), place,
                      _LIBRARY, backward=_BACKWARD if backward else None)
    if fault.made:
        return replace(subject, made={fault.made.form: _in_form(subject, fault.made)})
    if fault.other_path is None:
        return subject
    other = replace(subject, id=f"{target} ({OTHER_PATH})", callee=InProcess(fault.other_path()))
    return replace(subject, variants={OTHER_PATH: other})


def _in_form(subject: Subject, wrong: WrongForm) -> Subject:
    """The form of a fault's function in which it is wrong."""
    backward = wrong.backward() if wrong.backward else None
    return replace(subject, id=f"{subject.id} ({wrong.form})", callee=InProcess(wrong.make(), backward=backward))


def sound_subject(target: str) -> Subject:
    """The sound formulation as a subject. Raises TargetError, with the nearest name, where there is none."""
    if (name := target.removeprefix(SOUND)) in SOUND_BACKWARD:
        return _with_backward(target, SOUND_BACKWARD[name])
    sound = sound_named(name)
    declaration = declaration_of_sound(sound)
    return Subject(target, sound.meaning, InProcess(sound.function), declaration, FileLocation("faults/sound.py"),
                   _LIBRARY)


def _with_backward(target: str, sound: SoundBackward) -> Subject:
    """A sound backward pass beside the forward pass of its class."""
    callee = InProcess(sound.function, backward=sound.backward)
    place = FileLocation("faults/sound_backward.py")
    return Subject(target, sound.meaning, callee, declaration_of_pair(sound), place, _LIBRARY, backward=_BACKWARD)
