"""Campaigns for false alarms: their cases, how they go on, and what they say. The law is small_spec/, of one `must`."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import attnspec
import evaluation.cli
import pytest
from attnspec.cli import main
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.core.plan import SOUND, JobFailure, Plan
from attnspec.faults.sound import DENSE
from attnspec.faults.subject import own_ids, sound_subject
from attnspec.problems.choices import MOST_SMALL_LOGITS
from attnspec.problems.problem import Recipe, count_logits
from attnspec.record.codec import to_line
from attnspec.record.events import HISTOGRAM_BINS, BlockJudged, Event, ItemFinished
from attnspec.record.outcome import Outcome
from attnspec.record.read import RunRecord, read_record
from attnspec.record.write import RecordWriter, reopen_record
from attnspec.runner.session import Session
from attnspec.spec.load import load_spec
from attnspec.subjects.callee import InProcess
from attnspec.subjects.registry import registered_subjects
from attnspec.trials.evaluator import heeded_conventions
from evaluation.cli.campaign import alarms, table, verdict
from evaluation.false_alarms.bins import ACCUSING, bin_of, upper_edge
from evaluation.false_alarms.blocks import LARGE_ONE_IN, BlockWorker, CampaignBlock
from evaluation.false_alarms.jobs import CAMPAIGN, JUDGING, BlockJob, CampaignJobs, code_of, with_blocks
from evaluation.false_alarms.rows import CHOSEN, EXPECTED, CampaignRow, blocks_needed, explaining_finding, rows_of
from helpers.commands import Cli
from helpers.law import checks
from helpers.places import SMALL_SPEC

CLAUSE = "causal.no_lookahead"
COMMAND = ("campaign", "--spec", str(SMALL_SPEC), "-n", "1", "--dtype", "float32", "--record", "kept.jsonl")
SOUND_ONES = ("--target", "sound/naive", "--target", "numpy/attention")


@pytest.fixture
def campaign(evaluation_cli: Cli) -> Cli:
    """`python -m evaluation campaign` in an empty folder, in blocks of ten cases of the small law."""
    return functools.partial(evaluation_cli, *COMMAND)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A campaign of 40 cases in one go: its record, and what the command printed."""
    folder, said = tmp_path_factory.mktemp("whole"), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(said):
        assert evaluation.cli.main([*COMMAND, *SOUND_ONES, "--cases", "40"]) == 0
    return folder / "kept.jsonl", said.getvalue()


@pytest.fixture
def kept(whole: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of that record, where the next campaign looks for it."""
    return Path(shutil.copy(whole[0], tmp_path / "kept.jsonl"))


def with_header(path: Path, change: Callable[[dict[str, object]], None]) -> bytes:
    """Change the header of a record; what the file holds then."""
    header, _, rest = path.read_text(encoding="utf-8").partition("\n")
    data = json.loads(header)
    change(data)
    path.write_text(json.dumps(data) + "\n" + rest, encoding="utf-8")
    return path.read_bytes()


def told(record: RunRecord) -> dict[tuple[str, int], tuple[object, ...]]:
    """What blocks say, but for how long they took."""
    return {(block.subject, block.block): (block.cases, block.slices, block.histogram, block.violations)
            for block in record.blocks}


@pytest.mark.nightly
def test_a_campaign_ends_at_enough_cases_and_says_how_close_rows_came(whole: tuple[Path, str]) -> None:
    lines = whole[1].splitlines()
    assert lines[0] == "0 of 40 cases, 0 violations"
    rows = [line.split() for line in lines if line.startswith(("sound/naive ", "numpy/attention "))]
    assert [row[:2] for row in rows] == [["numpy/attention", "float32"], ["sound/naive", "float32"]]
    assert all(int(row[2]) >= 20 and row[4] == "0" and row[6] == CLAUSE for row in rows)
    assert any("cases of 2 subjects in 2 rows" in line for line in lines)
    assert lines[-2] == "record: kept.jsonl"
    assert lines[-1].startswith("No false alarm in ")
    assert lines[-1].endswith(" cases. (exit code 0)")


@pytest.mark.nightly
def test_a_campaign_that_goes_on_comes_to_what_one_in_one_go_comes_to(
        campaign: Cli, whole: tuple[Path, str], tmp_path: Path) -> None:
    campaign(*SOUND_ONES, "--cases", "20")
    first = read_record(tmp_path / "kept.jsonl")
    campaign(*SOUND_ONES, "--cases", "40")
    both = read_record(tmp_path / "kept.jsonl")
    assert told(both) == told(read_record(whole[0]))
    assert len(told(first)) < len(told(both))
    assert both.header == first.header
    assert not both.is_interrupted
    kinds = [json.loads(line)["event"] for line in (tmp_path / "kept.jsonl").read_text(encoding="utf-8").splitlines()]
    assert (kinds.count("run_started"), kinds.count("run_finished")) == (1, 1)


@pytest.mark.nightly
def test_a_complete_campaign_is_told_again_and_its_record_left_alone(campaign: Cli, kept: Path) -> None:
    before = kept.read_bytes()
    code, out, _ = campaign(*SOUND_ONES, "--cases", "40")
    assert (code, kept.read_bytes()) == (0, before)
    assert "cases of 2 subjects in 2 rows" in out


class Interrupter:
    """A handler at which the user presses Ctrl-C when the first block is there."""

    def start(self) -> None:
        pass

    def handle(self, event: Event) -> None:
        if isinstance(event, BlockJudged) and not event.lost:
            raise KeyboardInterrupt

    def shutdown(self) -> None:
        pass


@pytest.mark.nightly
def test_an_interruption_keeps_finished_blocks_and_a_restart_does_the_rest(
        campaign: Cli, whole: tuple[Path, str], tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    rows = {CampaignRow(target, DType.FLOAT32): (0, 1) for target in ("numpy/attention", "sound/naive")}
    plan = with_blocks(Plan(("numpy/attention", "sound/naive"), dtypes=(DType.FLOAT32,), spec=str(SMALL_SPEC)), rows)
    result = Session(plan, 1, source=CAMPAIGN).run([RecordWriter(path), Interrupter()])
    assert result.is_interrupted
    assert result.exit_code == 2
    record = read_record(path)
    assert [block.lost for block in record.blocks] == ["", *["the run was interrupted"] * 3]
    finished = told(record).items() & told(read_record(whole[0])).items()
    assert len(finished) == 1
    code, _, _ = campaign(*SOUND_ONES, "--cases", "40")
    assert code == 0
    assert told(read_record(path)) == told(read_record(whole[0]))


@pytest.mark.nightly
def test_a_line_that_was_cut_off_makes_room_for_what_follows(kept: Path) -> None:
    whole = read_record(kept)
    with kept.open("a", encoding="utf-8") as file:
        file.write('{"event": "block_jud')
    assert reopen_record(kept).blocks == whole.blocks
    assert reopen_record(kept).footer is None


def test_a_violation_is_told_with_the_line_that_replays_it(campaign: Cli, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = campaign("--target", "fault/causal_ignored", "--cases", "10")
    assert code == 1
    assert out.splitlines()[-1] == ("False alarm: a correct implementation fails. Either it or the suite is "
                                    "wrong. (exit code 1)")
    line = next(line for line in out.splitlines() if line.startswith("violated: "))
    assert line.startswith(f"violated: attnspec replay 'fault/causal_ignored {CLAUSE} float32 B")
    assert main(["replay", line.partition("'")[2].removesuffix("'")]) == 1
    assert f"{CLAUSE} " in capfd.readouterr().out


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "before", "told_as"), [
    ("spec_digest", "0123456789abcdef", "the spec 01234567"), ("seed", 7, "the seed 7")])
def test_a_campaign_that_was_begun_otherwise_is_refused_with_the_way_out(
        campaign: Cli, kept: Path, name: str, before: object, told_as: str) -> None:
    held = with_header(kept, lambda header: header.update({name: before}))
    code, _, err = campaign(*SOUND_ONES, "--cases", "80")
    assert code == 2
    assert f"kept.jsonl: this campaign was started with {told_as}; now it is " in err
    assert "Start again in another file (--record PATH), or go back to what it was started with." in err
    assert kept.read_bytes() == held


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["code", "recipes", "torch", "numpy"])
def test_other_code_blocks_or_libraries_do_not_add_up_to_one_campaign(campaign: Cli, kept: Path, name: str) -> None:
    with_header(kept, lambda header: header["environment"].update({name: "another"}))  # type: ignore[attr-defined]
    code, _, err = campaign(*SOUND_ONES, "--cases", "80")
    assert code == 2
    assert f"was started with {name} another; now it is " in err


@pytest.mark.nightly
def test_the_record_of_another_run_is_left_alone(campaign: Cli, kept: Path) -> None:
    lines = kept.read_text(encoding="utf-8").splitlines()
    outcome = Outcome("sound/naive", CLAUSE, DType.FLOAT32, Level.MUST, Verdict.HELD)
    kept.write_text(f"{lines[0]}\n{to_line(ItemFinished(outcome))}\n", encoding="utf-8")
    before = kept.read_bytes()
    code, _, err = campaign(*SOUND_ONES, "--cases", "10")
    assert code == 2
    assert "this is the record of another kind of run, so a campaign cannot continue in it. Name another file" in err
    assert kept.read_bytes() == before


def test_a_margin_of_one_is_no_accusation_and_the_next_number_is() -> None:
    assert bin_of(1.0) == ACCUSING - 1
    assert bin_of(math.nextafter(1.0, 2.0)) == ACCUSING
    assert [bin_of(margin) for margin in (0.0, 2.0**-20, 2.0**-19.9)] == [0, 0, 1]
    assert bin_of(math.inf) == bin_of(math.nan) == HISTOGRAM_BINS - 1
    assert all(bin_of(upper_edge(number)) == number for number in range(HISTOGRAM_BINS - 1))


def test_a_block_is_drawn_from_its_number_alone_and_no_two_are_alike() -> None:
    check = checks()["attention.definition"]
    declared = sound_subject("sound/naive").declaration
    one, same = (CampaignBlock(DType.FLOAT32, 3, 0, 50).cases(check, declared) for _ in range(2))
    assert one == same
    others = [CampaignBlock(DType.FLOAT32, 4, 0, 50), CampaignBlock(DType.FLOAT16, 3, 0, 50),
              CampaignBlock(DType.FLOAT32, 3, 1, 50)]
    assert all(not set(texts(one)) & set(texts(block.cases(check, declared))) for block in others)
    assert CampaignBlock(DType.FLOAT32, 3, 0, 7).cases(check, declared) == one[:7]


def texts(recipes: Iterable[Recipe]) -> list[str]:
    return [recipe.text for recipe in recipes]


def test_clauses_of_one_domain_share_problems_but_not_drawn_values() -> None:
    declared, block = sound_subject("sound/naive").declaration, CampaignBlock(DType.FLOAT32, 0, 0, 5)
    moved = block.cases(checks()["causal.no_lookahead"], declared)
    assert all(set(recipe.drawn) == {"cut"} for recipe in moved)
    assert len({recipe.drawn["cut"] for recipe in moved}) > 1
    weights, shape = (block.cases(checks()[name], declared) for name in ("attention.finite", "attention.shape"))
    assert weights == shape


def test_a_law_of_chance_gets_one_shape_a_block_and_the_seed_of_the_block() -> None:
    check = checks()["scale.unit_variance"]
    declared = sound_subject("sound/naive").declaration
    cases = [CampaignBlock(DType.FLOAT32, number, 0, 10).cases(check, declared) for number in range(4)]
    assert [len(recipes) for recipes in cases] == [1] * 4
    assert len({recipes[0].sizes for recipes in cases}) == 4
    assert len({recipes[0].seed for recipes in cases}) == 4


def test_most_problems_are_small_and_some_are_not() -> None:
    check = checks()["attention.definition"]
    recipes = CampaignBlock(DType.FLOAT32, 0, 0, 2000).cases(check, sound_subject("sound/naive").declaration)
    large = sum(count_logits(recipe.sizes) > MOST_SMALL_LOGITS for recipe in recipes)
    assert 0 < large < 2000 / LARGE_ONE_IN


def judged(subject: str, block: int, *, cases: int = 100, lost: str = "") -> BlockJudged:
    return BlockJudged(subject, DType.FLOAT32, block, cases, 0, 0, 0, (0,) * HISTOGRAM_BINS, lost=lost)


def test_each_row_gets_its_part_and_what_it_has_counts() -> None:
    rows = [CampaignRow("a", DType.FLOAT32), CampaignRow("b", DType.FLOAT32)]
    blocks = [judged("a", 0), judged("a", 2), judged("b", 1)]
    assert blocks_needed(rows, 800, blocks) == {rows[0]: (1, 3), rows[1]: (0, 2, 3)}
    assert blocks_needed(rows, 400, blocks) == {rows[1]: (0,)}
    assert blocks_needed(rows, 1440, ()) == {rows[0]: (0,), rows[1]: (0,)}
    assert blocks_needed(rows[:1], EXPECTED * 3, (), 1) == {rows[0]: (0, 1, 2)}


def test_a_row_in_which_nothing_can_be_judged_is_not_tried_for_ever() -> None:
    assert blocks_needed([CampaignRow("a", DType.FLOAT32)], 100, [judged("a", 0, cases=0)]) == {}


def test_rows_are_the_dtypes_that_a_subject_declares() -> None:
    rows = rows_of(Plan(("jax/dot_product_attention_jit", "sound/naive"), dtypes=(DType.FLOAT16, DType.FLOAT32)))
    assert rows == (CampaignRow("jax/dot_product_attention_jit", DType.FLOAT32),
                    CampaignRow("sound/naive", DType.FLOAT32), CampaignRow("sound/naive", DType.FLOAT16))


@pytest.mark.nightly
def test_a_campaign_judges_12_implementations_4_of_others_at_four_dtypes() -> None:
    known_ids = {*registered_subjects(), *own_ids()}
    assert set(CHOSEN) <= known_ids
    assert {SOUND + name for name in DENSE} <= set(CHOSEN)
    others = [target for target in CHOSEN if "sdpa" in target or "mha" in target or "dot_product" in target]
    assert len(CHOSEN) >= 12
    assert len(others) >= 4
    assert len([target for target in CHOSEN if len(rows_of(Plan((target,)))) == 4]) >= 12


def test_a_known_finding_is_no_violation_and_no_case_that_held() -> None:
    recipe = Recipe.parse("B1,H2,Hkv2,T7,S9,D16,Dv16;mask=none;families=normal;with=causal+scale;scale=-0.25;seed=1")
    finding = explaining_finding("torch/sdpa_flash", recipe, "")
    assert finding is not None
    assert finding.id == "torch/causal_scale_not_positive"
    assert explaining_finding("torch/sdpa_math", recipe, "") is None
    assert explaining_finding("torch/sdpa_flash", replace(recipe, scale=0.25), "") is None
    assert explaining_finding("torch/sdpa_flash", replace(recipe, features=frozenset({"scale"})), "") is None


def test_a_known_finding_of_certain_exceptions_is_known_in_those_alone() -> None:
    recipe = Recipe.parse("B1,H2,Hkv2,T1,S1,D1,Dv1;mask=none;families=uniform;seed=6103182")
    finding = explaining_finding("torch/sdpa_flash", recipe, "RuntimeError: No available kernel.  Aborting execution.")
    assert finding is not None
    assert finding.id == "torch/one_feature_needs_stride_one"
    assert explaining_finding("torch/sdpa_flash", recipe, "RuntimeError: out of memory") is None
    assert explaining_finding("torch/sdpa_flash", recipe, "") is None


@pytest.mark.nightly
def test_what_is_shared_changes_no_verdict() -> None:
    plan, law = Plan(("sound/naive", "sound/finite_minimum_mask")), load_spec()
    together, apart = BlockWorker(plan, law, 1, lambda _: None), BlockWorker(plan, law, 1, lambda _: None)
    together.judge("sound/naive", DType.BFLOAT16, 0)
    shared = together.judge("sound/finite_minimum_mask", DType.BFLOAT16, 0)
    alone = apart.judge("sound/finite_minimum_mask", DType.BFLOAT16, 0)
    assert replace(shared, seconds=0) == replace(alone, seconds=0)


def test_a_block_that_is_judged_leaves_nothing_with_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(InProcess, "forget", lambda _: forgotten.append("once"))
    worker = BlockWorker(Plan(("sound/naive",), spec=str(SMALL_SPEC)), load_spec(SMALL_SPEC), 1, lambda _: None)
    worker.judge("sound/naive", DType.FLOAT32, 0)
    assert forgotten == ["once"]


def test_every_block_has_the_whole_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(InProcess, "begin_item", lambda _: begun.append("once"))
    worker = BlockWorker(Plan(("sound/naive",), spec=str(SMALL_SPEC)), load_spec(SMALL_SPEC), 1, lambda _: None)
    worker.judge("sound/naive", DType.FLOAT32, 0)
    worker.judge("sound/naive", DType.FLOAT32, 1)
    assert begun == ["once", "once"]


def test_the_definition_heeds_only_conventions_that_subjects_share_it_by() -> None:
    common = {"causal_alignment": "top_left", "grouped_heads": "repeat"}
    both = {**common, "mask_with_causal": "both"}
    refuses, rows = {**both, "mask_with_causal": "raises"}, {**both, "hidden_row": "nan"}
    assert heeded_conventions(refuses) == heeded_conventions(both) == heeded_conventions(rows)
    others = ({"mask_with_causal": "mask"}, {"causal_alignment": "bottom_right"}, {"grouped_heads": "tile"})
    assert all(heeded_conventions({**both, **other}) != heeded_conventions(both) for other in others)


def test_a_block_at_which_the_process_died_accuses_and_names_the_case() -> None:
    source = CampaignJobs(with_blocks(Plan(("a",)), {}))
    died = source.record_loss(BlockJob("a", "float32", 0), JobFailure("the process died", Verdict.CRASHED, "B1;seed=1"))
    assert (died.lost, died.violations, died.cases) == ("the process died: B1;seed=1", 1, 0)
    assert source.conclude([died], interrupted=False).exit_code == 1


def test_a_block_whose_turn_never_came_makes_the_campaign_incomplete() -> None:
    source = CampaignJobs(with_blocks(Plan(("a",)), {}))
    done = [judged("a", 0), source.record_loss(BlockJob("a", "float32", 1), JobFailure("the run was interrupted"))]
    end = source.conclude(done, interrupted=False)
    assert (end.exit_code, end.counts) == (2, {"held": 100, "lost blocks": 1})


def test_losses_of_one_kind_are_told_in_one_line_and_a_death_at_once() -> None:
    source = CampaignJobs(with_blocks(Plan(("a",)), {}))
    never = [source.record_loss(BlockJob("a", "float32", number), JobFailure("the run was interrupted"))
             for number in range(3)]
    died = source.record_loss(BlockJob("a", "float32", 3), JobFailure("the process died", Verdict.CRASHED, "B1;seed=1"))
    assert "not judged: a float32 block 0 and 2 blocks more: the run was interrupted" in list(table(never))
    assert [*alarms(never[0]), *alarms(died)] == ["died: a float32 block 3: the process died: B1;seed=1"]


def test_a_campaign_that_is_not_complete_says_how_it_goes_on() -> None:
    assert verdict(2, 1234, 5000) == ("1,234 of 5,000 cases were judged. Run the same command again to continue. "
                                      "(exit code 2)")


def test_too_few_cases_are_not_enough_however_well_they_held() -> None:
    assert [code_of([judged("a", 0)], cases) for cases in (100, 101)] == [0, 2]


@pytest.mark.parametrize("name", JUDGING)
def test_every_folder_whose_code_is_hashed_has_code(name: str) -> None:
    assert list((Path(attnspec.__file__).parent / name).glob("*.py"))
