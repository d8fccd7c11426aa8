"""`power`: how many wrong implementations the suite convicts, and how soon, beside the rules used today."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click
from attnspec.cli.group import exit_code_of
from attnspec.cli.options import (
    CLUSTER,
    COUNT,
    DEADLINE,
    IMPLEMENTATIONS,
    SEED,
    SPEC,
    Given,
    OneOf,
    checked_plan,
    cluster_carrier,
    in_run_order,
    keep_apart,
    run_options,
    shard_options,
    sharing_of,
    typed_command,
)
from attnspec.cli.outputs import HandlerGroup, Outputs, PageMaker, VisibleHandler
from attnspec.core.effort import EFFORTS
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType, Effort, is_bare
from attnspec.core.plan import FAULT, SOUND, Plan, is_fault
from attnspec.record.events import SUITE
from attnspec.record.read import RunRecord
from attnspec.runner.session import Session

from evaluation import PROGRAM
from evaluation.cli.power_console import PowerConsole, SubjectCounter
from evaluation.power.jobs import POWER, DiagnosisShare, with_power

DTYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
BASELINES = "baselines"
"""All rules on outputs but the suite, as --rule takes them."""

GRADIENTS = "gradients"
"""The same of the rules on gradients, which nobody is put who has none. So they are asked for by name."""

SERVING = "serving"
"""The same of the rules on lengths and caches."""

QUANTISED = "quantised"
"""The same of the rules on codes and scales."""

QUICK_SOUND = ("naive", "online_blocks", "finite_minimum_bias", "fused_blocks", "eager")
"""One of each way to compute and to round. A sound one is put every case of every clause, which is dear."""


@click.command()
@click.option("--effort", default="default", show_default=True, type=OneOf("effort", Effort),
              help="How many cases the suite tries. The other rules have one effort only.")
@click.option("--dtype", "dtypes", multiple=True, type=OneOf("dtype", DType),
              help=f"Only this dtype. [default: {', '.join(dtype.value for dtype in DTYPES)}]")
@click.option("--seed", default=0, show_default=True, type=SEED, help="The first seed.")
@click.option("--seeds", default=1, show_default=True, type=COUNT, metavar="N",
              help="How many seeds, from the first on.")
@click.option("--fault", "faults", multiple=True, metavar="PATTERN",
              help="Only this fault, or those of a pattern like 'mask_*'. [default: all, and correct implementations]")
@click.option("--sound", "sound", multiple=True, metavar="PATTERN",
              help=f"Only this correct implementation; a registered one can be named as well. [default: all of "
                   "sound/*; at "
                   f"effort quick {', '.join(QUICK_SOUND)}]")
@click.option("--rule", "rules", multiple=True, metavar="NAME",
              help=f"Only this rule; the suite is called {SUITE}, all others on outputs {BASELINES}, all on gradients "
                   f"{GRADIENTS}, all on lengths and caches {SERVING}, all on codes and scales {QUANTISED}. [default: "
                   f"{SUITE} and {BASELINES}]")
@click.option("--against", type=click.Path(path_type=Path), metavar="RECORD",
              help="Compare with this earlier record: exit code 1 if a fault is no longer detected.")
@click.option("--diagnosis", type=OneOf("kind of diagnosis", DiagnosisShare),
              help="Which counterexamples are diagnosed: of each fault those of all dtypes, of one dtype in turn, or "
                   "none. [default: all; at effort quick none]")
@click.option("--further-dtypes", is_flag=True,
              help="Try the sample of cases that attnspec check tries at further dtypes.")
@run_options
@shard_options
@CLUSTER
@DEADLINE
@IMPLEMENTATIONS
@SPEC
def power(against: Path | None, workers: int, **options: Given) -> int:
    """Measure how many faults of the catalogue the suite detects, and after how many cases.

    A fault is a deliberately wrong attention. The rules by which attention is tested today are tried on the same
    faults, and the suite and all rules on correct implementations, to count false alarms. Exit codes: 0 measured, 1
    power is less than --against or there is a false alarm, 2 not everything could be measured.
    """
    keep_apart({f"--{name}": options[name] for name in ("record", "html")}, [against] if against else [])
    kept = Outputs.from_options(**{name: options.pop(name) for name in ("record", "no_record", "html", "as_json")})
    outputs = replace(kept, page_of=PageMaker(f"{PROGRAM} report", _write_page))
    sharing = sharing_of(options)
    if sharing and against:
        raise UsageError("a shard cannot be compared with a whole run. Join the shards first: attnspec combine.")
    with cluster_carrier(options) as carrier:
        plan = _plan(against, options)
        table = PowerConsole(outputs.console_stream, plan, outputs.places)
        session = Session(plan, workers=workers, command=typed_command(PROGRAM), source=POWER, sharing=sharing,
                          carrier=carrier)
        console = VisibleHandler(HandlerGroup([table, SubjectCounter(outputs.console_stream)]))
        result = session.run([console, HandlerGroup(outputs.kept_handlers)])
        in_run_order(carrier, outputs.record, result)
        return exit_code_of(result)


def _write_page(records: Sequence[RunRecord], path: Path) -> None:
    from evaluation.report.page import write_page  # noqa: PLC0415  (weight: Jinja2)

    write_page(records, path)


def _plan(against: Path | None, options: dict[str, Given]) -> Plan:
    targets = list(_targets(options.pop("faults"), options.pop("sound"), options["effort"]))
    first, count, rules = options["seed"], options.pop("seeds"), _rules(options.pop("rules"))
    usual = DiagnosisShare.NONE if options["effort"] is Effort.QUICK else DiagnosisShare.ALL
    diagnosis = options.pop("diagnosis") or usual
    sample = _sample(options["effort"]) if options.pop("further_dtypes") else 0
    plan = checked_plan(targets, {**options, "dtypes": options["dtypes"] or DTYPES})
    return with_power(plan, seeds=range(first, first + count), rules=rules, against=against, diagnosis=diagnosis,
                      sample=sample)


def _sample(effort: Effort) -> int:
    """How many cases stand for all. Raises UsageError at an effort that has no samples."""
    if not EFFORTS[effort].sample:
        sampled = " or ".join(each.value for each, numbers in EFFORTS.items() if numbers.sample)
        raise UsageError(f"--further-dtypes measures samples of cases, and effort {effort.value} takes none. Use "
                         f"--effort {sampled}.")
    return EFFORTS[effort].sample


def _targets(faults: Sequence[str], sound: Sequence[str], effort: Effort) -> Iterator[str]:
    """Patterns of ids. Whoever names faults wants these, and whoever names sound ones these."""
    if not faults and not sound:
        faults, sound = ("*",), QUICK_SOUND if effort is Effort.QUICK else ("*",)
    yield from (FAULT + each.removeprefix(FAULT) for each in faults)
    for each in sound:
        if is_fault(each):
            raise UsageError(f"{each} is a fault, not a correct implementation. Name it with --fault {each}.")
        yield each if "/" in each or is_bare(each) else SOUND + each


def _rules(names: Sequence[str]) -> tuple[str, ...]:
    """Those that are named, in their own order; without a name the suite and the rules on outputs."""
    from evaluation.baselines.every import EVERY  # noqa: PLC0415  (weight: NumPy)
    from evaluation.baselines.gradient_rules import GRADIENT_RULES  # noqa: PLC0415  (weight: NumPy)
    from evaluation.baselines.quantised_rules import CODE_RULES  # noqa: PLC0415  (weight: NumPy)
    from evaluation.baselines.rules import RULES  # noqa: PLC0415  (weight: NumPy)
    from evaluation.baselines.serving_rules import SERVING_RULES  # noqa: PLC0415  (weight: NumPy)

    groups = {BASELINES: tuple(RULES), GRADIENTS: tuple(GRADIENT_RULES), SERVING: tuple(SERVING_RULES),
              QUANTISED: tuple(CODE_RULES)}
    known = (SUITE, *EVERY)
    for name in names:
        if name not in (*known, *groups):
            raise UsageError.unknown("rule", name, (*known, *groups))
    asked = {rule for name in names or (SUITE, BASELINES) for rule in groups.get(name, (name,))}
    return tuple(name for name in known if name in asked)
