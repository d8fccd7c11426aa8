"""True findings that a campaign meets on subjects that are sound otherwise: listed by name, never counted as held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnspec.problems.recipe import Recipe  # NumPy, which the console can do without


@dataclass(frozen=True, slots=True)
class Known:
    """A departure of a library from the definition: who, where it shows, what happens and why."""

    name: str
    subjects: frozenset[str]
    shows: Callable[[Recipe], bool]
    story: str


def _is_causal_and_not_scaled_up(recipe: Recipe) -> bool:
    return {"causal", "scale"} <= recipe.features and recipe.scale <= 0


KNOWN: tuple[Known, ...] = (
    Known("causal flag with a scale of 0 or below", frozenset({"torch/sdpa", "torch/sdpa_flash"}),
          _is_causal_and_not_scaled_up,
          "PyTorch's CPU flash kernel writes -inf into the raw dot products of later keys and multiplies by the scale "
          "afterwards: 0 makes NaN of it, and a negative scale +inf, so that the hidden keys get all the weight."),
)


def known(subject: str, recipe: Recipe) -> Known | None:
    """The listed finding that explains a violation of this subject on this case, if there is one."""
    return next((each for each in KNOWN if subject in each.subjects and each.shows(recipe)), None)
