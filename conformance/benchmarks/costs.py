"""What runs cost: by subjects, themes, clauses and dtypes of records, and by sizes.

    python conformance/benchmarks/costs.py records reports/audit/audit.jsonl.xz   # of any record of a check or an audit
    python conformance/benchmarks/costs.py sizes                                  # measured, a case at a time

`records` adds up the seconds that items took by the clock: those of a run beside other work are too many. `sizes` poses
and judges cases of one clause at sizes of a ladder, and takes the subject's own call apart, as speed.py does.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path

import click
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.problems.problem import Sizes
from attnspec.record.outcome import Outcome
from attnspec.record.read import read_records
from speed import Setup

LADDER = ((1, 1, 1, 1, 1), (2, 4, 8, 8, 16), (2, 4, 33, 48, 32), (1, 8, 128, 128, 64), (1, 8, 512, 512, 64),
          (1, 8, 1, 4096, 128), (1, 2, 1024, 1024, 128), (1, 1, 4096, 4096, 64))
"""(B, H, T, S, D) from the least to what attention is used at."""


@click.group(help=(__doc__ or "").partition("\n")[0])
def costs() -> None:
    """Carries the two commands."""


@costs.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--most", default=10, show_default=True, help="Lines of each table.")
def records(files: tuple[Path, ...], most: int) -> None:
    """Seconds of items, added up by dtype, theme, clause and subject."""
    judged = [outcome for file in files for run in read_records(file) for outcome in run.outcomes
              if outcome.verdict is not Verdict.INAPPLICABLE]
    for kind, key in KEYS.items():
        for line in _table(kind, judged, key, most):
            click.echo(line)


KEYS: dict[str, Callable[[Outcome], str]] = {
    "dtype": lambda outcome: outcome.dtype.value, "theme": lambda outcome: outcome.clause.partition(".")[0],
    "clause": lambda outcome: outcome.clause, "subject": lambda outcome: outcome.subject}


def _table(kind: str, judged: Iterable[Outcome], key: Callable[[Outcome], str], most: int) -> Iterator[str]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in judged:
        groups[key(outcome)].append(outcome)
    seconds = {name: sum(outcome.seconds for outcome in group) for name, group in groups.items()}
    whole = sum(seconds.values())
    yield f"{len(seconds)} of kind {kind}, {whole:.0f} s, median {statistics.median(seconds.values()):.2f} s"
    for name, spent in sorted(seconds.items(), key=itemgetter(1), reverse=True)[:most]:
        cases = sum(outcome.cases + outcome.no_claims for outcome in groups[name])
        yield (f"  {name:45} {spent:8.1f} s {spent / whole:6.1%} {len(groups[name]):6} items {cases:8} cases "
               f"{1e3 * spent / max(1, cases):7.2f} ms a case")


@costs.command()
@click.option("--target", default="numpy/attention", show_default=True)
@click.option("--clause", default="attention.definition", show_default=True)
@click.option("--dtype", default="float32", show_default=True, type=click.Choice([each.value for each in DType]))
@click.option("--cases", "count", default=10, show_default=True)
def sizes(target: str, clause: str, dtype: str, count: int) -> None:
    """Milliseconds of CPU a case, beside the subject's own call, up a ladder of sizes."""
    click.echo(f"{target}, {clause}, {dtype}, medians of {count} cases")
    click.echo("  B  H     T     S    D       call     beside  ns a logit")
    for batch, heads, queries, keys, width in LADDER:
        shape = Sizes(B=batch, H=heads, Hkv=heads, T=queries, S=keys, D=width, Dv=width)
        call, _, _, beside = Setup.load_setup(target, clause, DType(dtype), shape,
                                              Effort.DEFAULT).time_cases(count).milliseconds
        per_logit = 1e6 * beside / (batch * heads * queries * keys)
        click.echo(f"{batch:3} {heads:2} {queries:5} {keys:5} {width:4} {call:10.2f} {beside:10.2f} {per_logit:11.0f}")


if __name__ == "__main__":
    costs()
