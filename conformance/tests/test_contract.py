"""A contract says what must be taken: `--must-take 'causal D128 T4096 float16'`; refusing any of it is a failure."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.cli import main
from attnspec.core.declaration import Limits
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.core.sizes import read_refusal
from attnspec.engine.engine import Engine
from attnspec.engine.subject_run import recipe_for
from attnspec.record.outcome import Outcome
from attnspec.runner.gate import gate
from attnspec.spec.clause import MOST, read_contract
from test_refused_sizes import HEAD

WORDS = "Words are keywords, dtypes, and sizes such as D128."
NARROW = 'if D > 64: raise ValueError("head_dim above 64")'


def held_to(folder: Path, contract: str, check: str = "pass", *, clauses: tuple[str, ...] = ("contract.*",),
            more: str = "") -> dict[tuple[str, DType], Outcome]:
    path = folder / "mine.py"
    path.write_text(HEAD.format(check=check, more=more), encoding="utf-8")
    target = f"{path}:attend"
    engine = Engine(Plan((target,), clauses, in_process=(target,), effort=Effort.QUICK, dtypes=(DType.FLOAT32,),
                         must_take=contract))
    return {(item.clause, DType(item.dtype)): engine.try_item(item) for item in engine.items()}


def verdicts(outcomes: dict[tuple[str, DType], Outcome]) -> dict[str, Verdict]:
    return {clause: outcome.verdict for (clause, _), outcome in outcomes.items()}


def test_every_word_is_put_and_then_all_together(tmp_path: Path) -> None:
    outcomes = held_to(tmp_path, "causal window D128 T300")
    assert verdicts(outcomes) == dict.fromkeys(
        ("contract.causal", "contract.window", "contract.D128", "contract.T300", "contract.all"), Verdict.HELD)


def test_what_is_refused_is_told_in_the_functions_words(tmp_path: Path) -> None:
    outcomes = held_to(tmp_path, "causal D128", NARROW)
    assert verdicts(outcomes) == {"contract.causal": Verdict.HELD, "contract.D128": Verdict.VIOLATED,
                                  "contract.all": Verdict.INAPPLICABLE}
    assert outcomes["contract.D128", DType.FLOAT32].reason == (
        f"the contract says D128: {tmp_path}/mine.py:attend refuses D > 64 (ValueError: head_dim above 64); "
        "here B=1 H=1 Hkv=1 T=16 S=16 D=128 Dv=128")
    assert outcomes["contract.all", DType.FLOAT32].reason == "contract.D128 fails already, on its own"


def test_what_is_refused_together_alone_is_a_failure_too(tmp_path: Path) -> None:
    check = 'if causal and D > 64: raise ValueError("causal with head_dim above 64")'
    outcome = held_to(tmp_path, "causal D128", check)["contract.all", DType.FLOAT32]
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.reason == "the contract says all of it together: ValueError: causal with head_dim above 64"


def test_a_keyword_that_it_has_no_parameter_for_breaks_the_contract(tmp_path: Path) -> None:
    outcome = held_to(tmp_path, "softcap")["contract.softcap", DType.FLOAT32]
    assert (outcome.verdict, outcome.reason) == (
        Verdict.VIOLATED, f"the contract says softcap: {tmp_path}/mine.py:attend takes no softcap")


def test_a_declared_limit_breaks_the_contract(tmp_path: Path) -> None:
    outcomes = held_to(tmp_path, "D128", more='attend.refuses = ["D > 64"]')
    assert verdicts(outcomes) == {"contract.D128": Verdict.VIOLATED}


def test_an_exception_that_is_no_clear_refusal_breaks_it_as_well(tmp_path: Path) -> None:
    outcome = held_to(tmp_path, "D128", "if D > 64: 1 / 0")["contract.D128", DType.FLOAT32]
    assert outcome.verdict is Verdict.VIOLATED
    assert "ZeroDivisionError" in outcome.reason


def test_a_dtype_is_put_at_itself_whatever_the_run_is_narrowed_to(tmp_path: Path) -> None:
    outcomes = held_to(tmp_path, "D128 float16")
    assert outcomes["contract.D128", DType.FLOAT32].verdict is Verdict.HELD
    assert outcomes["contract.D128", DType.FLOAT16].verdict is Verdict.INAPPLICABLE
    assert outcomes["contract.float16", DType.FLOAT16].reason == (
        f"the contract says float16: {tmp_path}/mine.py:attend does not take float16")


def test_the_clauses_of_the_law_are_put_beside_it(tmp_path: Path) -> None:
    outcomes = held_to(tmp_path, "D128", clauses=("causal.flag_is_mask",))
    assert verdicts(outcomes) == {"causal.flag_is_mask": Verdict.HELD, "contract.D128": Verdict.HELD}


def test_all_together_is_put_word_by_word_where_it_is_too_large(tmp_path: Path) -> None:
    recipe = recipe_for(read_contract("B64 H64 T8192"), "all", Limits())
    assert (recipe.sizes.B, recipe.sizes.T, recipe.sizes.S) == (64, 8192, 8192)
    outcome = held_to(tmp_path, "B64 H64 T512 causal")["contract.all", DType.FLOAT32]
    assert outcome.verdict is Verdict.INAPPLICABLE
    assert outcome.reason.startswith("all of it together is too large to test here (B=64 H=64 Hkv=64 T=512 S=512")


def test_a_case_of_the_contract_can_be_repeated(tmp_path: Path) -> None:
    failed = held_to(tmp_path, "D128", NARROW)["contract.D128", DType.FLOAT32]
    assert failed.evidence is not None
    target = f"{tmp_path}/mine.py:attend"
    engine = Engine(Plan((target,), ("contract.D128",), in_process=(target,), dtypes=(DType.FLOAT32,)))
    [item] = engine.items()
    assert engine.replay(item, failed.evidence.recipe).reason == failed.reason


def test_the_axes_that_are_not_named_follow_or_are_small() -> None:
    contract = read_contract("T1 S4096 D128 H8")
    limits = Limits(refuses=(read_refusal("B = 1"),))
    assert str(recipe_for(contract, "T1", limits).sizes) == "B=2 H=1 Hkv=1 T=1 S=4096 D=16 Dv=16"
    assert str(recipe_for(contract, "D128", limits).sizes) == "B=2 H=1 Hkv=1 T=16 S=16 D=128 Dv=128"
    assert str(recipe_for(contract, "all", limits).sizes) == "B=2 H=8 Hkv=8 T=1 S=4096 D=128 Dv=128"


@pytest.mark.parametrize(("text", "message"), [
    ("casual", f"'casual' is not a word of a contract. Did you mean 'causal'? {WORDS}"),
    ("fp16", f"'fp16' is not a word of a contract. Did you mean 'float16'? {WORDS}"),
    ("Q128", "'Q128' of the contract names no axis. Known: B, D, Dv, H, Hkv, S, T."),
    ("T100000", f"'T100000' of the contract: T can be from 1 to {MOST['T']}."),
    ("D0", "'D0' of the contract: D can be from 1 to 1024."),
    ("H6 Hkv4", "the contract has H6 and Hkv4, and 4 does not divide 6. Name others."),
])
def test_a_word_that_makes_no_sense_is_told_with_the_nearest(text: str, message: str) -> None:
    with pytest.raises(UsageError) as told:
        read_contract(text)
    assert str(told.value) == message
    with pytest.raises(UsageError):
        gate("numpy/msa", must_take=text)


def test_a_broken_contract_is_exit_code_1_and_the_verdict_says_so(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(HEAD.format(check=NARROW, more=""), encoding="utf-8")
    words = ["check", "mine.py:attend", "--clause", "attention.shape", "--dtype", "float32", "--effort", "glance",
             "-n", "1", "--no-record", "--must-take"]
    assert main([*words, "D128"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == (
        "Does not conform; refuses D > 64: it must take D128. (exit code 1)")
    assert main([*words, "causal D64"]) == 0
    assert "must take: causal D64" in capsys.readouterr().out
    assert main([*words, "casual"]) == 2
