"""The law against the faults: what a clause says is refuted by, refutes it; what is right, nothing accuses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attnspec.core.nouns import DType, Effort, Kind, Level
from attnspec.core.plan import Plan
from attnspec.engine.summon import load_subject
from attnspec.faults.catalogue import CATALOGUE
from attnspec.faults.sound import SOUND
from attnspec.spec.clause import Clause
from attnspec.spec.load import load_spec
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.own_subjects import shared_archive
from attnspec.trials.sizes import Dealer
from attnspec.trials.trial import Trial
from helpers.law import checks

pytestmark = pytest.mark.usefixtures("small_archives")

CLAUSES = load_spec().clauses
FEW = 2
DTYPES = (DType.FLOAT32, DType.BFLOAT16)
SAMPLE = 5
"""One accusation in so many is tried in float16 as well; spec/refutations.json tells of every dtype."""

SILENT = {("scale.variance_without", DType.FLOAT16)}
"""Where a clause could not be decided on any case: logits this far apart leave weights that the dtype does not hold."""


def accusations() -> Iterator[tuple[Clause, str, DType]]:
    named = [(clause, fault) for clause in CLAUSES for fault in clause.refuted_by]
    for count, (clause, fault) in enumerate(named):
        dtypes = (*DTYPES, DType.FLOAT16) if count % SAMPLE == 0 else DTYPES
        yield from ((clause, fault, dtype) for dtype in dtypes
                    if dtype not in CATALOGUE[fault].equivalents and (clause.id, dtype) not in SILENT)


@pytest.mark.family(1, each="clause")
@pytest.mark.parametrize(("clause", "fault", "dtype"), list(accusations()),
                         ids=[f"{clause.id}-{fault}-{dtype.value}" for clause, fault, dtype in accusations()])
def test_a_clause_is_refuted_by_every_fault_that_it_names(clause: Clause, fault: str, dtype: DType) -> None:
    check, subject = checks()[clause.id], load_subject(f"fault/{fault}", Plan(()))
    assert not subject.lacks(check.needs)
    shapes = Dealer(subject, checks, Effort.DEFAULT, 0).shapes(check, dtype)
    evaluator = Evaluator(subject, dtype, archive=shared_archive(subject, dtype))
    trial = Trial(check, evaluator, Effort.DEFAULT, seed_of(0, check.domain), lambda _: None,
                  shrinks=False, shapes=shapes)
    assert trial.hold().failure is not None


@pytest.mark.parametrize(("clause", "dtype"), SILENT)
def test_a_silent_clause_claims_nothing(clause: str, dtype: DType) -> None:
    evaluator = Evaluator(load_subject("sound/naive", Plan(())), dtype)
    tally = Trial(checks()[clause], evaluator, Effort.DEFAULT, 0, lambda _: None).hold()
    assert tally.cases == 0 < tally.no_claims


def test_a_must_clause_that_only_layers_obey_names_faults_of_layers() -> None:
    for clause in CLAUSES:
        kinds = {CATALOGUE[fault].kind for fault in clause.refuted_by}
        assert not checks()[clause.id].domain.is_layer or kinds <= {Kind.LAYER}, clause.id


@pytest.mark.family(1)
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("name", SOUND)
def test_no_clause_accuses_a_sound_formulation(name: str, dtype: DType) -> None:
    """A few cases of every clause; the campaign at effort thorough is a run of its own."""
    subject = load_subject(f"sound/{name}", Plan(()))
    evaluator = Evaluator(subject, dtype, archive=shared_archive(subject, dtype))
    dealer = Dealer(subject, checks, Effort.QUICK, 0)
    asked = [check for check in checks().values() if check.clause.level is Level.MUST
             and not check.why_not_put(subject)]
    tallies = {check.clause.id: Trial(check, evaluator, Effort.QUICK, 0, lambda _: None, cases=FEW,
                                     shapes=dealer.shapes(check, dtype)).hold() for check in asked}
    assert {clause: str(tally.failure) for clause, tally in tallies.items() if tally.failure} == {}
    assert sum(tally.cases > 0 for tally in tallies.values()) > len(tallies) / 2
