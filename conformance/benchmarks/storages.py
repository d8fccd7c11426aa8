"""Which faults of codes and scales a check finds where codes have one storage only: every fault of the aspect, as a
function that declares `stored_query`, `stored_key` and `stored_value` to be int8, float8_e4m3fn, and so on.

    python conformance/benchmarks/storages.py reports/power/storages.jsonl             # goes on where it was stopped
    python conformance/benchmarks/storages.py mine.jsonl --storage int8 --fault 'key_scale_*'
    python conformance/benchmarks/storages.py reports/power/storages.jsonl --table

Faults of kernels that quantise inside, which declare a storage themselves, and of backward passes are left out:
`evaluation power` measures them. A fault is put the clauses that name it, or that convicted it
(spec/refutations.json), and if these find nothing all other clauses of codes. It has no trace at a storage if no case
of any clause gets another answer from it than from attention without the mistake, bit for bit: no code of int8 is
beyond 240, for one.
Exit codes: 0 each share is at least 98 %, 1 one is less, 2 the record is of another spec.
"""

from __future__ import annotations

import os

# before NumPy is imported: one thread, as in the engine's workers
os.environ["OMP_NUM_THREADS"] = "1"

import functools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
from attnspec.aspects.quantised.arrays import storage_dtype
from attnspec.aspects.quantised.faults import MISTAKES
from attnspec.aspects.quantised.storage import STORAGES
from attnspec.core.nouns import DType, Effort
from attnspec.faults.fault import Fault
from attnspec.faults.subject import own_subject
from attnspec.faults.witnesses import clauses_for
from attnspec.problems.problem import Array, numpy_dtype
from attnspec.spec.clause import read_refutations
from attnspec.spec.load import load_spec
from attnspec.subjects.callee import InProcess
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import Check, compile_spec
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.own_subjects import shared_archive
from attnspec.trials.sizes import Dealer
from attnspec.trials.trial import Trial
from resumed_record import Line, append_lines, open_record, read_lines

SEED = 0
ENOUGH = 98.0
"""Percent of the faults that leave a trace at a storage."""


@cache
def checks() -> Mapping[str, Check]:
    """All clauses, compiled: sizes are dealt among all."""
    return compile_spec(load_spec())


@cache
def faults() -> Mapping[str, Fault]:
    """Every fault of codes that are handed over, by name; those of backward passes apart."""
    every = [*(fault for about in MISTAKES.about.values() for fault in about)]
    return {fault.name: fault for fault in every if not fault.name.startswith("inside_") and not fault.backward}


Watch = Callable[[Sequence[Any], Mapping[str, Any], object], None]
"""Sees the arrays and the keywords of a call, and its answer."""


def stored_in(storage: str, fault: Fault, dtype: DType, watch: Watch | None = None) -> Subject:
    """The fault made anew, as a function that takes keys and values of this storage alone; if the mistake is about the
    query, queries as well. Elsewhere queries stay ordinary numbers, so that clauses of these are put, too.
    """
    arrays = ("query", "key", "value") if "query" in fault.name else ("key", "value")
    shared = ""
    if STORAGES[storage].block and "blocks of tokens" in fault.reach:
        # the mistake is one of kernels whose blocks lie along the tokens; the format's usual ones lie along features
        shared = f"channel_tokens({STORAGES[storage].block})"
    return declare_storage(own_subject(f"fault/{fault.name}"), storage, dtype, arrays, watch, shared=shared)


def declare_storage(subject: Subject, storage: str, dtype: DType, arrays: Sequence[str],
                    watch: Watch | None = None, *, shared: str = "") -> Subject:
    """Attnspec's own subject, as a function that takes codes of this storage alone for these arrays. shared: how many
    entries share a scale; empty: what is usual for the storage.
    """
    stored = {f"stored_{array}": storage for array in arrays}
    granularity = {f"{array}_scales": shared for array in arrays}
    limits = replace(subject.declaration.limits, **stored, **granularity)  # type: ignore[arg-type]  # by name
    callee = subject.callee
    assert isinstance(callee, InProcess)  # all of attnspec's own are
    callee = replace(callee, function=reading_codes(callee.function, storage, dtype, watch))
    return replace(subject, callee=callee, declaration=replace(subject.declaration, limits=limits))


def reading_codes(attend: Callable[..., Any], storage: str, dtype: DType, watch: Watch | None) -> Callable[..., Any]:
    """The function, handed codes as numbers of the dtype under test, and a scale for each entry in the place of one for
    each block: so attention that faults change reads them.
    """
    block = STORAGES[storage].block

    @functools.wraps(attend)
    def read(*arrays: Any, **keywords: Any) -> Any:  # noqa: ANN401  (any keyword of attention)
        wide = [widened(array, dtype) for array in arrays]
        by_name = {name: widened(value, dtype) for name, value in keywords.items()}
        for array, name in zip(wide, ("query", "key", "value"), strict=True):
            for keyword in (f"{name}_scale", f"{name}_zero"):
                if keyword in by_name and np.ndim(by_name[keyword]) == array.ndim:
                    by_name[keyword] = spread_blocks(by_name[keyword], array, keywords, name, block)
        answer = attend(*wide, **by_name)
        if watch:
            watch(wide, by_name, answer)
        return answer

    return read


def spread_blocks(scale: Array, array: Array, keywords: Mapping[str, Any], name: str, block: int) -> Array:
    """Scales or zero points of blocks of features or of tokens as those of entries: (B,Hkv,S,D/N) or (B,Hkv,S/N,D), or
    as they lie in a form, to what broadcasts to their array; any others as they are.
    """
    past = keywords.get("past_key" if name == "key" else "past_value") if name != "query" else None
    lengths = {array.ndim - 1: array.shape[-1]}
    if array.ndim == 4 and "block_table" not in keywords:
        lengths[2] = array.shape[2] + (0 if past is None else past.shape[2])
    for axis, length in lengths.items():
        if block and scale.shape[axis] not in {1, length}:
            scale = np.repeat(scale, block, axis).take(range(length), axis)
    return scale


NARROW = frozenset(storage_dtype(name) for each in STORAGES.values() for name in (each.code_type, each.scales)
                   if name != "float32")


def widened(value: Any, dtype: DType) -> Any:  # noqa: ANN401  (any keyword of attention)
    """Codes of any shape as numbers, which every dtype under test holds exactly; anything else as it is."""
    return value.astype(numpy_dtype(dtype)) if isinstance(value, np.ndarray) and value.dtype in NARROW else value


def clauses_of_codes(fault: Fault) -> Iterator[str]:
    """The clauses that witness the fault, then every other one of codes."""
    first = clauses_for(load_spec(), read_refutations(load_spec()), fault.name)
    yield from first
    yield from (name for name in checks() if name.startswith("quantised") and name not in first)


def judge_fault(name: str, storage: str, dtype: str) -> Line:
    """One fault at one storage: the record's line. `cases` are those of which a clause claimed something.

    Whether it has a trace is said of a fault that nothing convicts. One that attention without the mistake cannot be
    compared with, as a decoder, has one where any call has the keyword that the fault is about.
    """
    began = time.perf_counter()
    right = own_subject("sound/dequantised_first").callee
    assert isinstance(right, InProcess)  # all of attnspec's own are
    differs, handed_over = False, set[str]()

    def compare(arrays: Sequence[Any], keywords: Mapping[str, Any], answer: object) -> None:
        nonlocal differs
        handed_over.update(keyword for keyword, value in keywords.items() if value is not None)
        try:
            differs = differs or not are_same(right.function(*arrays, **keywords), answer)
        except Exception:  # whatever it cannot answer
            differs = True

    found = search(faults()[name], storage, DType(dtype), compare)
    if not found["convicted"]:
        found["has_trace"] = differs and faults()[name].stage in handed_over
    return {"fault": name, "storage": storage, "dtype": dtype, **found,
            "seconds": round(time.perf_counter() - began, 1)}


def are_same(one: Any, other: Any) -> bool:  # noqa: ANN401  (an output, or a tuple of it and what else is asked for)
    """Whether two answers agree bit for bit; NaN is NaN."""
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(are_same, one, other))
    return np.array_equal(one, other, equal_nan=True)


def search(fault: Fault, storage: str, dtype: DType, watch: Watch) -> dict[str, Any]:
    """What the clauses say of a fault at one storage; the search ends at the first that convicts. watch: sees each call
    and its answer.
    """
    cases, worst = 0, 0.0
    dealer = Dealer(stored_in(storage, fault, dtype), checks, Effort.QUICK, SEED)
    for clause in clauses_of_codes(fault):
        check, subject = checks()[clause], stored_in(storage, fault, dtype, watch)  # anew: it may remember calls
        if check.why_not_put(subject):
            continue
        evaluator = Evaluator(subject, dtype, archive=shared_archive(subject, dtype))
        tally = Trial(check, evaluator, Effort.QUICK, seed_of(SEED, check.domain), lambda _: None, shrinks=False,
                      shapes=dealer.shapes(check, dtype)).hold()
        cases += tally.cases
        worst = max(worst, float(tally.worst.margin) if tally.worst else 0.0)
        if tally.failure is not None:
            return {"convicted": True, "clause": clause, "tried": tally.tried_count, "cases": cases}
    return {"convicted": False, "cases": cases, "margin": worst}


def header() -> Line:
    """What has to be the same for a record to be gone on with."""
    return {"spec": load_spec().digest, "numpy": np.__version__, "seed": SEED}


def jobs(known: Sequence[Line], storages: Sequence[str], dtype: str, patterns: Sequence[str]) -> Iterator[
        tuple[str, str, str]]:
    """What is still to be judged."""
    done = {(line["fault"], line["storage"], line["dtype"]) for line in known}
    for storage in storages:
        for name in faults():
            if (name, storage, dtype) not in done and any(fnmatch(name, pattern) for pattern in patterns):
                yield name, storage, dtype


def table(lines: Sequence[Line]) -> Iterator[str]:
    """In Markdown: by storage, how many of the faults that leave a trace are found, and which are not."""
    yield "| storage | leave a trace | found | share | missed |\n|---|---|---|---|---|"
    for storage in STORAGES:
        for dtype in dict.fromkeys(line["dtype"] for line in lines):
            here = traced(lines, storage, dtype)
            missed = [f"`{line['fault']}`" for line in here if not line["convicted"]]
            if here:
                yield (f"| `{storage}`, {dtype} | {len(here)} | {len(here) - len(missed)} | {share(here):.1f} % | "
                       f"{', '.join(missed)} |")


def traced(lines: Sequence[Line], storage: str, dtype: str) -> list[Line]:
    """The lines of one storage and dtype on faults that leave a trace there."""
    return [line for line in lines if (line["storage"], line["dtype"]) == (storage, dtype)
            and (line["convicted"] or line["has_trace"])]


def share(lines: Sequence[Line]) -> float:
    """Percent of them that are found."""
    return 100 * sum(bool(line["convicted"]) for line in lines) / max(1, len(lines))


@click.command(help=(__doc__ or "").partition("\n\n")[0])
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--dtype", default="float32", show_default=True, type=click.Choice([each.value for each in DType]))
@click.option("--storage", "storages", multiple=True, default=tuple(STORAGES), type=click.Choice(tuple(STORAGES)))
@click.option("--fault", "patterns", multiple=True, default=("*",), help="Faults, by name or pattern.")
@click.option("-n", "workers", default=1, show_default=True)
@click.option("--table", "is_table", is_flag=True, help="Judge nothing; print what the record says.")
def measure(record: Path, dtype: str, storages: tuple[str, ...], patterns: tuple[str, ...], workers: int, *,
            is_table: bool) -> None:
    """Judge what is missing, and print the table."""
    if is_table:
        lines = read_lines(record)
    else:
        lines = open_record(record, header())
        todo = list(jobs(lines, storages, dtype, patterns))
        for count, line in enumerate(append_lines(record, judge_fault, todo, workers), 1):
            lines.append(line)
            click.echo(f"{count} of {len(todo)}: {line['fault']} {line['storage']} {line['seconds']} s", err=True)
    click.echo("\n".join(table(lines)))
    put = {(line["storage"], line["dtype"]) for line in lines}
    sys.exit(any(share(traced(lines, *each)) < ENOUGH for each in put))


if __name__ == "__main__":
    measure()
