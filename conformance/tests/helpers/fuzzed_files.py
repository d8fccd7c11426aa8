"""The files of the shipped spec and of the libraries, copied to be spoilt, and what a run does with them."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from attnspec.cli.lint import check_baselines, check_law, check_libraries, read_law
from attnspec.core import paths
from attnspec.core.conventions import CONVENTIONS
from attnspec.core.declaration import LIMITS
from attnspec.core.errors import AttnspecError, TargetError
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.numerics.precision import PRECISION_WORDS
from attnspec.problems.domain import domain
from attnspec.record.events import Event, ItemFinished, RunFinished, SubjectKnown
from attnspec.record.outcome import Outcome
from attnspec.record.read import read_record
from attnspec.report.page import render_page
from attnspec.runner.judge import ENGINE_CLASS, TrialJobs, pronounce_verdict, with_engine
from attnspec.runner.session import prepared_environment
from attnspec.spec.clause import FILE as REFUTATIONS
from attnspec.spec.clause import Spec
from attnspec.spec.load import CITATION_KEYS, CLAUSE_KEYS, load_spec
from attnspec.subjects import manifest, registry
from attnspec.subjects.findings import FINDINGS_FILE as FINDINGS
from attnspec.subjects.manifest import Registered
from attnspec.subjects.registry import registered_subjects
from attnspec.vocabulary.signature import parameters_of

from helpers.fuzzing import Document, UntoldError
from helpers.mutants import Vocabulary, vocabulary
from helpers.records import run_started, write_record

COMMON = ("bibliography.yaml", "problems.yaml", "spec.yaml")
TRIED = 2  # items of a subject
Asked = Mapping[str, Collection[str]]
"""The clauses that are put to each subject."""
OWN = """\
clauses:
  - id: mine.doubled
    level: must
    profile: core
    says: Doubling the values doubles the output.
    because: [{cite: design, note: the output is linear in the values}]
    given: {problem: small, min_batch: 2, draw: {cut: row_before_last}}
    runs:
      original: []
      doubled: [{multiply: {array: value, by: 2}}, {replace_after: {arrays: [key], cut: cut}}]
    then: [{is_multiple: {run: doubled, of: original, by: 2, observe: output, rows_through: cut}}]
    refuted_by: [scale_none]
    glance: every dtype
    note: A clause of one's own.
sources:
  design: {title: What our kernel promises, kind: notes, url: "https://example.org", year: 2024, author: us}
problems:
  small: {kind: attention, families: [integers], always: [causal], lengths: self, min_keys: 2}
"""
BASELINE = """\
known:
- subject: numpy/msa
  clause: attention.dtype
  dtype: float32
  verdict: violated
  how: has_input_dtype
  case: B1,H1,Hkv1,T1,S1,D1,Dv1;mask=none;families=integers;seed=0
  finding: numpy/msa_dtype
- subject: numpy/msa
  clause: masking.hidden_nan_is_irrelevant
  dtype: float32
  verdict: violated
  case: B2,H2,Hkv2,T3,S3,D2,Dv2;mask=padding;families=integers;with=mask;seed=3;cut=1
  reason: known for years
"""


def vocabulary_of(documents: Sequence[Any]) -> Vocabulary:
    """The vocabulary of these documents, and what a mapping may hold by the key that it stands under."""
    given = (*parameters_of(domain), "problem", "draw")
    precision = dict.fromkeys((dtype.value for dtype in DType), PRECISION_WORDS)
    return vocabulary(documents, {
        "given": given, "problems": given, "limits": LIMITS, "conventions": tuple(CONVENTIONS), **precision,
        "clauses": tuple(CLAUSE_KEYS), "because": tuple(CITATION_KEYS), "subjects": manifest.SUBJECT_KEYS,
        "deviations": manifest.DEVIATION_KEYS, "variants": manifest.VARIANT_KEYS,
        "cases": ("keywords", "largest_scale", "raises"),
        "faster_with": ("where", "variables"), "precision": tuple(precision)})


def documents(folder: Path) -> tuple[Document, ...]:
    """Every document, in folders of their own within this one."""
    return (*_of_the_spec(folder / "spec"), *_of_libraries(folder / "libraries"), _own(folder), _baseline(folder),
            _matrix(folder))


def _of_the_spec(folder: Path) -> Iterator[Document]:
    """A theme is read beside the common files alone, which is quick; a common file beside all themes."""
    shipped = sorted(paths.folder("spec").glob("*.yaml"))
    for file in shipped:
        beside = shipped if file.name in COMMON else [each for each in shipped if each.name in COMMON]
        (folder / file.stem).mkdir(parents=True)
        for each in {file, *beside}:
            shutil.copy(each, folder / file.stem)
        yield Document(folder / file.stem / file.name, partial(_use_spec, folder / file.stem), weight=4)


def _of_libraries(folder: Path) -> Iterator[Document]:
    """Each in a folder of its own under another name, since two libraries of one name hide each other's adapters."""
    for library in sorted(path.parent for path in paths.folder("implementations").glob(f"*/{manifest.MANIFEST_FILE}")):
        own = folder / library.name / f"{library.name}_spoilt"
        shutil.copytree(library, own)
        for name in (manifest.MANIFEST_FILE, FINDINGS):
            if (own / name).is_file():
                yield Document(own / name, partial(_use_library, own), weight=12 if library.name == "numpy" else 1)


def _own(folder: Path) -> Document:
    """Beside a spec of one theme, which is quick to read."""
    file = folder / "own" / "mine.yaml"
    spec = folder / "own" / "spec"
    spec.mkdir(parents=True)
    for name in (*COMMON, "scale.yaml"):
        shutil.copy(paths.folder("spec") / name, spec)
    file.write_text(OWN, encoding="utf-8")
    return Document(file, partial(_use_spec, spec, file), weight=12)


def _baseline(folder: Path) -> Document:
    file = folder / "baseline" / "known.yaml"
    file.parent.mkdir()
    file.write_text(BASELINE, encoding="utf-8")
    return Document(file, partial(_use_baseline, file), weight=6)


def _matrix(folder: Path) -> Document:
    """The generated file too: a run of faults reads it."""
    spec = Path(shutil.copytree(paths.folder("spec"), folder / "matrix"))
    return Document(spec / REFUTATIONS, partial(_use_matrix, spec), weight=4)


def _use_matrix(folder: Path) -> None:
    law, problems = read_law(str(folder), ())
    problems += check_law(law) if law else ()
    _run({"fault/causal_ignored": {"causal.no_lookahead"}}, problems, folder / "run", spec=str(folder))


def _use_spec(folder: Path, *added: Path) -> None:
    """Lint, and a run in which the clauses that are not as shipped are put to a subject."""
    spec, more = str(folder), tuple(map(str, added))
    law, problems = read_law(spec, more)
    problems += check_law(law) if law else ()
    shipped = {clause.id: clause for clause in _shipped_spec().clauses}
    changed = {clause.id for clause in law.clauses if shipped.get(clause.id) != clause} if law else set()
    _run({"numpy/msa": changed}, problems, folder / "run", spec=spec, spec_add=more)


@cache
def _shipped_spec() -> Spec:
    return load_spec()


def _use_library(folder: Path) -> None:
    """Lint, and what a run asks of a library; subjects written in NumPy are judged."""
    found = list(check_libraries((str(folder.parent),), _shipped_spec(), library=folder.name))
    subjects = registered_subjects([folder.parent], library=folder.name) if not found else {}
    registry._list_processes.cache_clear()  # a run reads manifests once
    asked = {name: {"attention.definition", *(each.clause for each in subject.declaration.deviations)}
             for name, subject in subjects.items() if folder.name == "numpy_spoilt" and _can_run(subject)}
    if asked:
        _run(asked, found, folder.parent / "run", implementations=(str(folder.parent),))
    for problem in found:
        raise problem


def _can_run(subject: Registered) -> bool:
    with prepared_environment({**subject.faster_with, **subject.process}):
        return not subject.why_missing


def _use_baseline(file: Path) -> None:
    problems = list(check_baselines([file], _shipped_spec(), ()))
    asked = {"numpy/msa": {"attention.dtype", "masking.hidden_nan_is_irrelevant"}}
    _run(asked, problems, file.parent / "run", baseline=str(file))


def _run(asked: Asked, problems: Sequence[AttnspecError], folder: Path,
         **more: Any) -> None:  # noqa: ANN401  (fields of a plan)
    """Some items of a run, in this process, with its record and its page. problems: what `lint` says.

    Raises the first of these at the end, if there is any; UntoldError where there is none and the run does not work.
    """
    try:
        outcomes = _outcomes(asked, folder, Plan(tuple(asked), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE, **more))
    except TargetError:  # what only importing an adapter shows: lint imports none
        raise
    except AttnspecError as failed:
        if not problems:
            raise UntoldError(f"the run: {failed}") from None
        outcomes = []
    for problem in problems:
        raise problem
    for outcome in outcomes:
        if outcome.verdict in (Verdict.NOT_RUN, Verdict.ERRORED):
            raise UntoldError(f"{outcome.clause} {outcome.verdict.value}: {outcome.reason}")


def _outcomes(asked: Asked, folder: Path, plan: Plan) -> list[Outcome]:
    jobs = TrialJobs(with_engine(plan, engine=ENGINE_CLASS, recipe=""))
    items = [job for job in jobs.items() if isinstance(job, Item)]
    outcomes: list[Outcome] = []
    events: list[Event] = [jobs.header(run_started())]
    for target in dict.fromkeys(item.target for item in items):
        jobs.judge.fetch(target)
        outcomes += [pronounce_verdict(jobs.judge, item, plan=plan) for item in _telling(items, asked, target)]
        events.append(SubjectKnown(jobs.card(target)))
    finished = RunFinished("2026-01-02T03:04:06+00:00", 1.0, {}, 0)
    events += [*map(ItemFinished, outcomes), finished]
    render_page([read_record(write_record(folder / "record.jsonl", *events))])
    return outcomes


def _telling(items: Sequence[Item], asked: Asked, target: str) -> list[Item]:
    return [item for item in items if item.target == target and item.clause in asked[target]][:TRIED]
