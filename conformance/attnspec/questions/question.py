"""What a question is, and which of the candidate answers an output is."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from attnspec.core.conventions import UNDEFINED
from attnspec.core.declaration import Declaration
from attnspec.problems.problem import Array
from attnspec.questions.asker import OTHER, Asker, Reply

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


CLOSE = 2.0**-6
"""Far above the rounding of weights in any dtype, far below the differences between the candidates."""

_SHOWN = 5


def even(visible: Array) -> Array:
    """The weights (T,S) of rows spread evenly over what they see (T,S); a row that sees nothing is NaN."""
    with np.errstate(all="ignore"):
        spread: Array = visible / visible.sum(axis=-1, keepdims=True)
    return spread


def softmax(logits: Array) -> Array:
    """(…,T,S): rows of weights, of logits along the last axis."""
    grown = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights: Array = grown / grown.sum(axis=-1, keepdims=True)
    return weights


def which(seen: Array, candidates: Mapping[str, Array]) -> Reply:
    """The name of the first candidate that is seen, any shape that broadcasts to it; `other` where none fits."""
    name = next((name for name, candidate in candidates.items() if is_close(seen, candidate)), OTHER)
    return Reply(name, shown(seen))


def is_close(seen: Array, candidate: Array) -> bool:
    """Whether two arrays, any shape that broadcasts, are equal as far as CLOSE tells; NaN equals NaN."""
    return np.allclose(seen, candidate, rtol=0, atol=CLOSE, equal_nan=True)


def shown(seen: Array) -> str:
    """`[0.5 0.5 0 0; 0 0.5 0.5 0]`: the first head's numbers, of (B,H,T,S) or any shape, to three digits."""
    rows = seen.reshape(-1, *seen.shape[-2:])[0] if seen.ndim >= 2 else seen[None]
    return "[" + "; ".join(" ".join(f"{entry:.3g}" for entry in row[:_SHOWN]) for row in rows[:_SHOWN]) + "]"
