"""What a measurement of power comes to, on measurements small enough to be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from attnspec.core.nouns import DType
from attnspec.record.events import SUITE, Conviction, SubjectPut
from evaluation.report.power_details import Equivalent, distributions, equivalents, tally
from evaluation.report.power_figures import (
    Alarm,
    Escapee,
    FaultGroup,
    Misnamed,
    RuleShare,
    best_peer,
    curve,
    escapees,
    false_alarms,
    naming,
    quantile,
    rules,
    shares,
    stages,
    total,
    total_at_sizes,
)

F32, BF16 = DType.FLOAT32, DType.BFLOAT16


def said(rule: str, cases: int, *, convicted: bool = True, clause: str = "", instrument: str = "") -> Conviction:
    return Conviction(rule, convicted, cases, clause=clause, instrument=instrument)


def put(name: str, *convictions: Conviction, dtype: DType = F32, seed: int = 0, stage: str = "scale") -> SubjectPut:
    """A fault, unless its name has another prefix."""
    subject = name if "/" in name else f"fault/{name}"
    return SubjectPut(subject, dtype, seed, subject.startswith("fault/"), stage, "", convictions)


def missed(rule: str, cases: int) -> Conviction:
    return said(rule, cases, convicted=False)


PUTS = (
    put("a", said(SUITE, 1), said("gauss", 1)), put("a", said(SUITE, 3), missed("gauss", 5), seed=1),
    put("b", said(SUITE, 1), missed("gauss", 5), stage="mask"), put("b", said(SUITE, 9), missed("gauss", 5), seed=1,
                                                                    stage="mask"),
    put("a", said(SUITE, 2), dtype=BF16), put("b", missed(SUITE, 40), dtype=BF16, stage="mask"),
)


def test_a_fault_counts_as_convicted_where_every_seed_convicts_it() -> None:
    assert shares(PUTS) == (
        RuleShare(SUITE, F32, 2, 2, median=1, p95=9, worst=9, convicted_runs=4, tried_runs=4),
        RuleShare(SUITE, BF16, 1, 2, median=2, p95=2, worst=2, convicted_runs=1, tried_runs=2),
        RuleShare("gauss", F32, 0, 2, median=1, p95=1, worst=1, convicted_runs=1, tried_runs=4))


def test_a_rule_is_not_charged_with_dtypes_that_it_does_not_speak_about() -> None:
    assert total(PUTS, "gauss") == FaultGroup("gauss", 0, 2)
    assert total(PUTS, SUITE) == FaultGroup(SUITE, 3, 4)
    assert total(PUTS, SUITE).part == 0.75


def test_a_lost_run_counts_against_every_rule_of_its_dtype() -> None:
    lost = replace(put("c"), lost="the worker died")
    found = {(share.rule, share.dtype): (share.convicted, share.tried) for share in shares((*PUTS, lost))}
    assert found == {(SUITE, F32): (2, 3), (SUITE, BF16): (1, 2), ("gauss", F32): (0, 3)}
    assert Escapee("c", "scale", ((F32, 1, 1),), "the worker died") in escapees((*PUTS, lost))


def test_equivalents_are_no_misses_and_are_told_apart() -> None:
    same = replace(put("c", missed(SUITE, 40)), equivalent="rounds alike")
    odd = replace(put("d", said(SUITE, 2)), equivalent="exact here")
    assert shares((*PUTS, same, odd)) == shares(PUTS)
    assert equivalents((*PUTS, same, replace(same, dtype=BF16), odd)) == (
        Equivalent("c", "rounds alike", (F32, BF16), convicted=False),
        Equivalent("d", "exact here", (F32,), convicted=True))


def test_a_curve_rises_where_runs_are_convicted_and_ends_at_their_share() -> None:
    assert curve(PUTS, SUITE) == ((1, 2 / 6), (2, 3 / 6), (3, 4 / 6), (9, 5 / 6))
    assert curve(PUTS, "gauss") == ((1, 1 / 4),)
    assert curve(PUTS, "unheard of") == ()


def test_stages_share_out_the_faults() -> None:
    assert stages(PUTS, SUITE) == (FaultGroup("scale", 2, 2), FaultGroup("mask", 1, 2))
    assert stages(PUTS, "gauss") == (FaultGroup("scale", 0, 1), FaultGroup("mask", 0, 1))


def test_faults_that_show_only_at_certain_sizes_have_a_share_of_their_own() -> None:
    puts = [replace(each, shows_at="T of 65 and more") if each.subject == "fault/b" else each for each in PUTS]
    assert total_at_sizes(puts, SUITE) == FaultGroup(SUITE, 1, 2)  # b: convicted in float32, not in bfloat16
    assert total_at_sizes(puts, "gauss") == FaultGroup("gauss", 0, 1)
    assert total_at_sizes(PUTS, SUITE) == FaultGroup(SUITE, 0, 0)


def test_an_escapee_says_at_which_dtypes_how_many_seeds_missed_it() -> None:
    assert escapees(PUTS) == (Escapee("b", "mask", ((BF16, 1, 1),)),)
    assert escapees(PUTS, "gauss") == (Escapee("a", "scale", ((F32, 1, 2),)), Escapee("b", "mask", ((F32, 2, 2),)))


def test_an_accusation_of_what_is_sound_is_a_false_alarm_at_whatever_seed() -> None:
    sound = (put("sound/plain", missed(SUITE, 40), said("gauss", 2)), put("torch/sdpa", missed(SUITE, 40)),
             put("sound/plain", missed(SUITE, 40), missed("gauss", 5), seed=1))
    assert false_alarms((*PUTS, *sound)) == (Alarm(SUITE, F32, (), 2), Alarm("gauss", F32, ("plain",), 1))
    assert shares((*PUTS, *sound)) == shares(PUTS)
    assert false_alarms(PUTS) == ()


def test_a_diagnosis_is_right_if_it_names_the_fault_or_an_equally_good_one() -> None:
    right, alike, other, none = (put(name, said(SUITE, 1)) for name in "abcd")
    named = naming((
        replace(right, named="a"), replace(alike, named="a", like=("a", "b")), replace(other, named="a", like=("a",)),
        replace(other, named="a", dtype=BF16), none, put("e", missed(SUITE, 40))))
    assert (named.exact, named.alike, named.tried) == (1, 1, 5)
    assert named.part == 0.4
    assert named.wrong == (Misnamed("c", "a", (F32, BF16), 2), Misnamed("d", "", (F32,), 1))


def test_who_was_not_put_to_the_diagnosis_is_not_held_against_it() -> None:
    asked, spared = (put(name, said(SUITE, 1)) for name in "ab")
    named = naming((replace(asked, named="a"), replace(spared, undiagnosed=True)))
    assert (named.exact, named.tried, named.wrong) == (1, 1, ())


def test_the_suite_stands_first_and_the_best_peer_is_known() -> None:
    better = put("a", said("dots", 1), said(SUITE, 1), said("gauss", 1))
    assert rules((better,)) == (SUITE, "dots", "gauss")
    assert best_peer((*PUTS, put("z", said("dots", 1)))) == "dots"
    assert best_peer((put("a", said(SUITE, 1)),)) == ""


def test_convictions_are_counted_by_what_brought_them() -> None:
    told = [put(name, said(SUITE, 1, clause=clause)) for name, clause in zip("abc", ("x", "y", "y"), strict=True)]
    assert tally(told, lambda each: each.clause) == (("y", 2), ("x", 1))


def test_cases_to_conviction_are_counted_up_to_the_last_class_that_occurs() -> None:
    single, half = map(dict, distributions(PUTS))
    assert single == {"1": 2, "2": 0, "3": 1, "4–5": 0, "6–10": 1, "not": 0}
    assert half == {"1": 0, "2": 1, "3": 0, "4–5": 0, "6–10": 0, "not": 1}
    assert dict(distributions((*PUTS, put("far", said(SUITE, 151))))[0])["> 150"] == 1
    assert distributions(()) == ()


@pytest.mark.parametrize(("share", "least"), [(0.5, 2), (0.75, 3), (0.95, 30), (1.0, 30), (0.0, 1)])
def test_a_quantile_is_a_count_that_occurred(share: float, least: int) -> None:
    assert quantile([3, 1, 30, 2], share) == least
    assert quantile([], share) == 0


def test_nothing_comes_to_nothing() -> None:
    assert [len(found) for found in (shares(()), escapees(()), false_alarms(()), equivalents(()))] == [0, 0, 0, 0]
    assert naming(()).part == 0.0
