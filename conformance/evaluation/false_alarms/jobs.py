"""A campaign as jobs, and whether it may go on in a record: only where the same code judges the same cases."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import attnspec
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED, AttnspecError, FileLocation, UsageError
from attnspec.core.nouns import DType, Verdict
from attnspec.core.paths import folder
from attnspec.core.plan import Conclusion, JobFailure, Plan, Shard, deal_shards, read_shard
from attnspec.record.events import HISTOGRAM_BINS, BlockJudged, Done, RunStarted, part_of_block
from attnspec.record.outcome import SubjectCard
from attnspec.record.read import RunRecord, read_record
from attnspec.record.write import plan_digest
from attnspec.spec.clause import Spec
from attnspec.spec.load import load_spec

from evaluation.false_alarms.rows import RECIPES, CampaignRow, rows_of, share

if TYPE_CHECKING:
    from evaluation.false_alarms.blocks import BlockWorker

CAMPAIGN = "evaluation.false_alarms.jobs:CampaignJobs"
CODE = "code"
"""Where a header's environment keeps the digest of the code that judged."""

RECIPES_OF = "recipes"
"""Where a plan and a header's environment say how many problems of a domain a block has."""

_BLOCKS = "blocks"
_PART = "shard"

JUDGING = ("core", "engine", "faults", "numerics", "problems", "questions", "subjects", "trials", "vocabulary")
"""The folders of attnspec whose code makes, answers or judges a case; so does that of the folder of this file."""

_SAME = (RECIPES_OF, CODE, "attnspec", "numpy", "ml_dtypes", "torch", "jax", "jaxlib")
"""What of a header's environment must be the same for a campaign to go on."""


@cache
def code_digest() -> str:
    """Over every module that makes, answers or judges a case, the shipped adapters and manifests among them."""
    digest, package = hashlib.sha256(), Path(attnspec.__file__).parent
    folders = (*(package / name for name in JUDGING), Path(__file__).parent)
    files = [path for judging in folders for path in sorted(judging.rglob("*.py"))]
    for path in [*files, *sorted(folder("implementations").glob("*/*.*"))]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def reopen_campaign(path: Path, plan: Plan, environment: Mapping[str, str]) -> RunRecord | None:
    """The campaign that the record holds, if it may go on; None where there is no record yet.

    Raises UsageError, with the way out, where what was judged and what would be judged do not add up.
    """
    if not path.exists() or not path.stat().st_size:
        return None
    record = read_record(path)
    if record.outcomes or record.puts:
        raise UsageError("this is the record of another kind of run, so a campaign cannot continue in it. Name another "
                         "file: --record PATH.", where=FileLocation(str(path)))
    for what, before, after in _compare_conditions(record.header, plan, {**environment, **what_judges(plan)}):
        if before != after:
            raise UsageError(
                f"this campaign was started with {what} {before}; now it is {after}, so the two cannot be added up. "
                "Start again in another file (--record PATH), or go back to what it was started with.",
                where=FileLocation(str(path)))
    return record


def _compare_conditions(header: RunStarted, plan: Plan, now: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """What must not have changed: by name, before and now."""
    digest = load_spec(Path(plan.spec) if plan.spec else None).digest
    yield "the spec", header.spec_digest[:8], digest[:8]
    yield "the seed", str(header.seed), str(plan.seed)
    yield "shard", header.shard or "1/1", part_of(plan)[0] or "1/1"
    yield from ((name, header.environment.get(name, "absent"), now.get(name, "absent")) for name in _SAME)


def with_blocks(plan: Plan, blocks: Mapping[CampaignRow, Sequence[int]]) -> Plan:
    """The plan, saying which blocks of which row are to be judged."""
    lines = (f"{row.dtype.value} {','.join(map(str, numbers))} {row.target}" for row, numbers in blocks.items())
    return replace(plan, more={**plan.more, _BLOCKS: tuple(lines)})


def as_part(plan: Plan, shard: Shard | None, cases: int) -> Plan:
    """The plan, saying which part of a campaign of so many cases it is."""
    if shard is None:
        return plan
    digest = plan_digest(plan, str(cases), shares(plan, shard.count))
    return replace(plan, more={**plan.more, _PART: (str(shard), digest)})


def shares(plan: Plan, count: int) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Which rows, subject and dtype, each of so many shards judges."""
    return deal_shards({(row.target, row.dtype.value): share(row.target) for row in rows_of(plan)}, count)


def rows_of_part(plan: Plan) -> tuple[CampaignRow, ...]:
    """The rows that this shard judges; of a whole campaign all."""
    rows, shard = rows_of(plan), read_shard(part_of(plan)[0] or "1/1")
    mine = frozenset(shares(plan, shard.count)[shard.index - 1])
    return tuple(row for row in rows if (row.target, row.dtype.value) in mine)


def cases_of_part(plan: Plan, cases: int) -> int:
    """How many of so many cases this shard judges."""
    mine, all_of_them = (sum(share(row.target) for row in rows) for rows in (rows_of_part(plan), rows_of(plan)))
    return math.ceil(cases * mine / all_of_them)


def part_of(plan: Plan) -> tuple[str, str]:
    """Which shard of a campaign this is, and what all of them share; empty for the whole."""
    shard, digest = plan.more.get(_PART, ("", ""))
    return shard, digest


def recipes_of(plan: Plan) -> int:
    """How many problems of a domain a block of this plan has."""
    return int(plan.more.get(RECIPES_OF, (RECIPES,))[0])


def what_judges(plan: Plan) -> Mapping[str, str]:
    """What a header's environment tells of a campaign beside the versions of libraries."""
    return {CODE: code_digest(), RECIPES_OF: str(recipes_of(plan))}


@dataclass(frozen=True, slots=True)
class BlockJob:
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
        """The job's name."""
        return f"{self.target}-{self.dtype}-{self.number}"


class CampaignJobs:
    """Judges the blocks that the plan names."""

    def __init__(self, plan: Plan, *, breadcrumb: Callable[[str], None] = lambda _: None) -> None:
        self.plan = plan
        self.breadcrumb = breadcrumb
        self.spec: Spec = load_spec(Path(plan.spec) if plan.spec else None)

    def items(self) -> tuple[BlockJob, ...]:
        """Block by block and dtype by dtype, all subjects next to each other."""
        places = {target: place for place, target in enumerate(self.plan.targets)}
        dtypes = [dtype.value for dtype in DType]
        return tuple(sorted(self._jobs(), key=lambda job: (
            job.number, dtypes.index(job.dtype), places[job.target])))

    def _jobs(self) -> Iterator[BlockJob]:
        for line in self.plan.more[_BLOCKS]:
            dtype, numbers, target = line.split(" ", maxsplit=2)
            yield from (BlockJob(target, dtype, int(number)) for number in numbers.split(","))

    def header(self, blank: RunStarted) -> RunStarted:
        """With the digest of the code that judges, and what a block is."""
        shard, digest = part_of(self.plan)
        return replace(blank, environment={**blank.environment, **what_judges(self.plan)}, shard=shard,
                       plan_digest=digest)

    @cached_property
    def _worker(self) -> BlockWorker:
        from evaluation.false_alarms.blocks import BlockWorker  # noqa: PLC0415  (weight: hypothesis and the frameworks)

        return BlockWorker(self.plan, self.spec, recipes_of(self.plan), self.breadcrumb)

    def card(self, target: str) -> SubjectCard:
        """What a report says of a subject."""
        return self._worker.card(target)

    def carry_out(self, job: BlockJob) -> BlockJudged:
        """Judge the block."""
        try:
            return self._worker.judge(job.target, DType(job.dtype), job.number)
        except AttnspecError as problem:
            return self.record_loss(job, JobFailure(str(problem)))

    def record_loss(self, job: BlockJob, loss: JobFailure) -> BlockJudged:
        """A block without cases, and why. A death that a case brought about names the case."""
        reason = f"{loss.reason}: {loss.recipe}" if loss.recipe else loss.reason
        died = loss.verdict is not Verdict.NOT_RUN
        return BlockJudged(job.target, DType(job.dtype), job.number, 0, 0, 0, int(died), (0,) * HISTOGRAM_BINS,
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
