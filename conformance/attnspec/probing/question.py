"""What a question is."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from attnspec.ground.conventions import UNDEFINED
from attnspec.ground.declaration import Declaration
from attnspec.probing.asker import Asker, Reply

Ask = Callable[[Asker], Reply]
Claim = Callable[[Declaration], str]


class When(enum.Enum):
    """At which dtypes a question is asked in an audit. The first is float32, where it is supported."""

    FIRST_DTYPE = "first dtype"
    EVERY_DTYPE = "every dtype"


def no_claim(declaration: Declaration) -> str:  # noqa: ARG001  (a claim's signature)
    """A manifest says nothing of it."""
    return ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question on which implementations differ.

    answers: the closed list, each with its meaning (those of FAILURES besides); empty where the answer is a number or
    a name.  ask: the answer; it raises NotAsked where the question cannot be put to the
    subject, Failed where a call failed.  claim: what is declared.
    """

    name: str
    asks: str
    answers: Mapping[str, str]
    ask: Ask
    claim: Claim = no_claim
    when: When = When.FIRST_DTYPE


def promised(answer: str, profile: str = "core") -> Claim:
    """The one answer that the contract allows whoever claims the profile."""
    return lambda declaration: answer if profile == "core" or profile in declaration.claims else ""


def convention(name: str, form: str = "") -> Claim:
    """What the manifest says of a convention, of one of its forms if it tells them apart."""
    def claim(declaration: Declaration) -> str:
        answers = declaration.conventions
        said = answers.get(f"{name}.{form}", answers.get(name, ""))
        return "" if said == UNDEFINED else said

    return claim
