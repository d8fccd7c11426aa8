"""A campaign as a docket: blocks of cases, those of all subjects side by side, so that they share what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from attnspec.campaign.code import code_digest
from attnspec.campaign.rows import RECIPES, Row
from attnspec.ground.errand import Conclusion, Loss
from attnspec.ground.errors import AttnspecError
from attnspec.ground.exits import CANNOT_RUN, CONFORMS, VIOLATED
from attnspec.ground.nouns import DType, Verdict
from attnspec.ground.plan import Plan
from attnspec.law.clause import Spec
from attnspec.law.load import load_spec
from attnspec.record.campaign import BINS, BlockJudged, part_of_block
from attnspec.record.events import Done, RunStarted
from attnspec.record.outcome import SubjectCard
from attnspec.subjects.registry import process_of

if TYPE_CHECKING:
    from attnspec.campaign.stand import Stand

CAMPAIGN = "attnspec.campaign.docket:CampaignDocket"
CODE = "code"
"""Where a header's environment keeps the digest of the code that judged."""

RECIPES_OF = "recipes"
"""Where a plan and a header's environment say how many problems of a domain a block has."""

_BLOCKS = "blocks"


def with_blocks(plan: Plan, blocks: Mapping[Row, Sequence[int]]) -> Plan:
    """The plan, saying which blocks of which row are to be judged."""
    lines = (f"{row.dtype.value} {','.join(map(str, numbers))} {row.target}" for row, numbers in blocks.items())
    return replace(plan, more={**plan.more, _BLOCKS: tuple(lines)})


def recipes_of(plan: Plan) -> int:
    """How many problems of a domain a block of this plan has."""
    return int(plan.more.get(RECIPES_OF, (RECIPES,))[0])


def what_judges(plan: Plan) -> Mapping[str, str]:
    """What a header's environment tells of a campaign beside the versions of libraries."""
    return {CODE: code_digest(), RECIPES_OF: str(recipes_of(plan))}


@dataclass(frozen=True, slots=True)
class Errand:
    """One block of one row."""

    target: str
    dtype: str
    number: int

    @property
    def part(self) -> str:
        """As in the record."""
        return part_of_block(self.number)

    @property
    def id(self) -> str:
        """The errand's name."""
        return f"{self.target}-{self.dtype}-{self.number}"


class CampaignDocket:
    """Judges the blocks that the plan names."""

    def __init__(self, plan: Plan, *, breadcrumb: Callable[[str], None] = lambda _: None) -> None:
        self.plan = plan
        self.breadcrumb = breadcrumb
        self.spec: Spec = load_spec(Path(plan.spec) if plan.spec else None)

    def items(self) -> tuple[Errand, ...]:
        """Block by block and dtype by dtype, all subjects next to each other."""
        places = {target: place for place, target in enumerate(self.plan.targets)}
        dtypes = [dtype.value for dtype in DType]
        return tuple(sorted(self._errands(), key=lambda errand: (
            errand.number, dtypes.index(errand.dtype), places[errand.target])))

    def _errands(self) -> Iterator[Errand]:
        for line in self.plan.more[_BLOCKS]:
            dtype, numbers, target = line.split(" ", maxsplit=2)
            yield from (Errand(target, dtype, int(number)) for number in numbers.split(","))

    def surroundings(self, errand: Errand) -> Mapping[str, str]:
        """What the subject's manifest says."""
        return process_of(errand.target, self.plan.implementations)

    def header(self, blank: RunStarted) -> RunStarted:
        """With the digest of the code that judges, and what a block is."""
        return replace(blank, environment={**blank.environment, **what_judges(self.plan)})

    @cached_property
    def _stand(self) -> Stand:
        from attnspec.campaign.stand import Stand  # noqa: PLC0415  (weight: hypothesis and the frameworks)

        return Stand(self.plan, self.spec, recipes_of(self.plan), self.breadcrumb)

    def card(self, target: str) -> SubjectCard:
        """What a report says of a subject."""
        return self._stand.card(target)

    def carry_out(self, errand: Errand) -> BlockJudged:
        """Judge the block."""
        try:
            return self._stand.judge(errand.target, DType(errand.dtype), errand.number)
        except AttnspecError as problem:
            return self.lost(errand, Loss(str(problem)))

    def lost(self, errand: Errand, loss: Loss) -> BlockJudged:
        """A block without cases, and why. A death that a case brought about names the case."""
        reason = f"{loss.reason}: {loss.recipe}" if loss.recipe else loss.reason
        died = loss.verdict is not Verdict.NOT_RUN
        return BlockJudged(errand.target, DType(errand.dtype), errand.number, 0, 0, 0, int(died), (0,) * BINS,
                           lost=reason)

    def conclude(self, done: Sequence[Done], *, interrupted: bool) -> Conclusion:
        """How many cases held, how many were accused, and how many blocks are missing."""
        blocks = [each for each in done if isinstance(each, BlockJudged)]
        judged = [block for block in blocks if not block.lost]
        accused = sum(block.violations for block in blocks)
        counts = {
            "held": sum(block.cases for block in judged) - sum(block.violations for block in judged),
            "accused": accused, "known findings": sum(sum(block.known.values()) for block in judged),
            "lost blocks": len(blocks) - len(judged)}
        code = VIOLATED if accused else CANNOT_RUN if interrupted else code_of(blocks, 1)
        return Conclusion(code, {word: count for word, count in counts.items() if count})


def code_of(blocks: Sequence[BlockJudged], cases: int) -> int:
    """The exit code of a campaign that was asked for so many cases."""
    if any(block.violations for block in blocks):
        return VIOLATED
    is_short = any(block.lost for block in blocks) or sum(block.cases for block in blocks) < cases
    return CANNOT_RUN if is_short else CONFORMS
