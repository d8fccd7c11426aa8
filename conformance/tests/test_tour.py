"""The tour judges what is installed and one wrong function, and says whether it ends as expected."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from attnspec.cli import check
from attnspec.core.errors import CONFORMS, VIOLATED
from attnspec.core.nouns import Verdict
from attnspec.examples.running_sum import attend
from attnspec.record.events import ItemFinished
from attnspec.runner.session import Result, Session
from attnspec.subjects.registry import registered_subjects
from click.testing import CliRunner
from helpers.outcomes import outcome
from helpers.places import CHECKOUT


def ended(monkeypatch: pytest.MonkeyPatch, folder: Path, *accused: str) -> tuple[int, str]:
    """The exit code and the output of a tour in which these subjects fail."""
    outcomes = [outcome(Verdict.VIOLATED if name in accused else Verdict.HELD, subject=name)
                for name in (*check.TOUR_RIGHT, check.TOUR_WRONG)]
    done = tuple(ItemFinished(each) for each in outcomes)
    monkeypatch.setattr(Session, "run", lambda *_: Result(VIOLATED if accused else CONFORMS, done, False, ()))
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(check.tour, [], standalone_mode=False)
    return int(result.return_value), result.output


def test_the_wrong_function_of_the_tour_is_the_one_of_the_readme() -> None:
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    [body] = re.findall(r"^def attend.*\n((?:    .*\n)+)", readme, re.MULTILINE)
    assert inspect.getsource(attend).endswith(body)


def test_the_right_ones_of_the_tour_are_registered() -> None:
    assert set(check.TOUR_RIGHT) <= set(registered_subjects(()))


@pytest.mark.parametrize(("accused", "code"), [
    ((check.TOUR_WRONG,), CONFORMS), ((), VIOLATED), ((check.TOUR_WRONG, "numpy/msa"), VIOLATED)])
def test_the_tour_ends_as_expected_if_only_the_wrong_one_fails(
        accused: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert ended(monkeypatch, tmp_path, *accused)[0] == code


def test_the_tour_judges_and_writes_a_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(check, "TOUR_RIGHT", ())
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(check.tour, ["-n", "1"], standalone_mode=False)
    assert result.return_value == CONFORMS, result.output
    assert "blocks_sum_not_rescaled" in (tmp_path / "reports/run/tour.html").read_text(encoding="utf-8")
