"""Whether a campaign may go on in a record: only where the same law, code and libraries judge the same cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from attnspec.campaign.docket import CODE, RECIPES_OF, what_judges
from attnspec.ground.errors import Place, UsageError
from attnspec.ground.plan import Plan
from attnspec.law.load import load_spec
from attnspec.record.events import RunStarted
from attnspec.record.read import RunRecord, read_record

_SAME = (RECIPES_OF, CODE, "attnspec", "numpy", "ml_dtypes", "torch", "jax", "jaxlib")


def begun(path: Path, plan: Plan, environment: Mapping[str, str]) -> RunRecord | None:
    """The campaign that the record holds, if it may go on; None where there is no record yet.

    Raises UsageError, with the way out, where what was judged and what would be judged do not add up.
    """
    if not path.exists() or not path.stat().st_size:
        return None
    record = read_record(path)
    if record.outcomes or record.puts:
        raise UsageError("this is the record of another kind of run, in which a campaign cannot go on. Name another "
                         "file: --record PATH.", where=Place(str(path)))
    for what, before, after in _told(record.header, plan, {**environment, **what_judges(plan)}):
        if before != after:
            raise UsageError(
                f"this campaign was begun with {what} {before}; now it is {after}, and the two do not add up. "
                "Begin anew in another file (--record PATH), or go back to what it was begun with.",
                where=Place(str(path)))
    return record


def _told(header: RunStarted, plan: Plan, now: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """What must not have changed: by name, before and now."""
    digest = load_spec(Path(plan.spec) if plan.spec else None).digest
    yield "the spec", header.spec_digest[:8], digest[:8]
    yield "the seed", str(header.seed), str(plan.seed)
    yield from ((name, header.environment.get(name, "absent"), now.get(name, "absent")) for name in _SAME)
