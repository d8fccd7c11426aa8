"""Why a real mistake has no fault of its own."""

from __future__ import annotations

import enum


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
