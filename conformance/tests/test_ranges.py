from __future__ import annotations

import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import evaluation.cli
import numpy as np
import pytest
from attnspec.cli import main
from attnspec.core.declaration import Declaration
from attnspec.core.errors import ManifestError, ReleaseError, TargetError
from attnspec.core.nouns import DType, Verdict
from attnspec.core.plan import Plan
from attnspec.core.surroundings import Surroundings
from attnspec.problems.problem import Problem
from attnspec.record.read import read_record
from attnspec.runner.judge import load_engine
from attnspec.subjects.installed import RangeEnd, RangePlace
from attnspec.subjects.manifest import Registered
from attnspec.subjects.registry import load_target, registered_subjects
from attnspec.subjects.subject import SubjectRaised
from evaluation.ranges import bench
from evaluation.ranges.bench import judge_at
from evaluation.ranges.page import ranges_page
from evaluation.ranges.tried import Fate, Tried, read_tried

MANIFEST = """\
library: Mine
distribution: numpy
versions: ">={least}"
requires: numpy
subjects:
  - id: attention
    title: My attention
    function: adapter:attend
    dtypes: [float32]
"""
ADAPTER = "import numpy as np\n\n\ndef attend(query, key, value):\n    {body}\n"
RIGHT = """\
import mine
import numpy as np


def attend(query, key, value):
    weights = mine.softmax(query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1], dtype=query.dtype))
    return weights @ value
"""
SOFTMAX = """\
import numpy as np


def {name}(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
"""


def written(parent: Path, body: str, *, least: str = "1", name: str = "mine") -> Path:
    """The folder of implementations in which this is the body of an adapter's function."""
    library = parent / "all" / name
    library.mkdir(parents=True)
    (library / "manifest.yaml").write_text(MANIFEST.format(least=least))
    (library / "adapter.py").write_text(ADAPTER.format(body=body))
    return library.parent


def answered(folder: Path, name: str) -> None:
    ones = np.ones((1, 1, 2, 2), np.float32)
    load_target(f"{name}/attention", Surroundings(), folders=[folder]).answer(Problem(DType.FLOAT32, ones, ones, ones))


@pytest.mark.family(3)
@pytest.mark.parametrize(("name", "body", "said"), [
    ("attribute", "return np.no_such_attention(query)", "AttributeError: module 'numpy' has no attribute"),
    ("keyword", "return np.sort(query, no_such_keyword=1)", "TypeError: .*unexpected keyword argument"),
    ("imported", "from numpy import no_such_name", "ImportError: cannot import name 'no_such_name'"),
    ("handed_on", "return np.vectorize(np.sort, **{'no_such_keyword': 1})(query)", "TypeError: .*keyword"),
    ("index", "return query.shape[9]", "IndexError: tuple index out of range"),
    ("name", "return no_such_name", "NameError: name 'no_such_name' is not defined"),
    ("parts", "first, second, third = query.shape", "ValueError: too many values to unpack"),
    ("needed", "return np.sort()", "TypeError: .*required positional argument"),
])
def test_what_an_adapter_asks_in_vain_is_its_own_failure(tmp_path: Path, name: str, body: str, said: str) -> None:
    place = r"all/\w+/adapter\.py:5"
    with pytest.raises(ReleaseError, match=rf"^{name}/attention cannot be judged with this release "
                                                 rf"\(Mine {np.__version__}\): its adapter fails, {said}.*{place}\)$"):
        answered(written(tmp_path, body, name=name), name)


@pytest.mark.family(3)
@pytest.mark.parametrize(("name", "body"), [
    ("value", "raise ValueError('no attribute, unexpected keyword argument')"),
    ("kind", "return query + object()"),
    ("arguments", "return np.transpose(query, None, None)"),  # a function that takes no mask
    ("called", "return np.take(query, 9, axis=-1)"),  # NumPy says that there is no such index
    ("said", "assert not query.size, 'no_such_attribute'"),
    ("inside", "import fractions; return fractions.Fraction(query)"),  # raised in the library's own file
    ("inner", "import types; import json; return json.dumps(1, cls=lambda **k: types.SimpleNamespace())"),
])
def test_what_a_library_raises_itself_stays_its_failure(tmp_path: Path, name: str, body: str) -> None:
    with pytest.raises(SubjectRaised):
        answered(written(tmp_path, body, name=name), name)


HANDED_ON = """\
class Layer:
    def __init__(self, **options):
        if options:
            raise ValueError(f"Unrecognized keyword arguments passed to Layer: {options}")

class Attention(Layer):
    def __init__(self, width=1, **options):
        super().__init__(**options)

def refuses_its_own(query):
    Attention(1, window=2)
"""


@pytest.mark.parametrize(("body", "error"), [
    ("import layers_of_test; layers_of_test.Attention(1, window=2)", ReleaseError),
    ("import layers_of_test; layers_of_test.refuses_its_own(query)", SubjectRaised)])
def test_a_keyword_that_is_handed_on_belongs_to_who_gave_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, error: type[Exception]) -> None:
    (tmp_path / "layers_of_test.py").write_text(HANDED_ON)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"handed_{error.__name__}"
    with pytest.raises(error, match="Unrecognized keyword arguments"):
        answered(written(tmp_path, body, name=name), name)


def test_a_number_that_jax_does_not_have_yet_is_missed_by_who_asks_for_it(tmp_path: Path) -> None:
    body = "import jax; return jax.jit(lambda each: each * int(each.max()))(query)"
    with pytest.raises(ReleaseError, match="its adapter fails, ConcretizationTypeError"):
        answered(written(tmp_path, body, name="traced"), "traced")


def test_an_adapter_that_fails_is_no_violation_and_no_pass(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(here, "return np.no_such_attention(query)")
    assert main(["check", "mine/attention", "--implementations", "all", "--clause", "attention.one_key", "-n", "1",
                 "--effort", "glance", "--record", "r.jsonl"]) == 2
    assert {outcome.verdict for outcome in read_record(Path("r.jsonl")).outcomes} == {Verdict.NOT_RUN}
    assert "cannot be judged with this release" in capsys.readouterr().out


def test_smoke_says_that_an_adapter_fails(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(here, "return np.no_such_attention(query)")
    assert main(["smoke", "mine/attention", "--implementations", "all"]) == 2
    assert "FAIL  mine/attention: mine/attention cannot be judged with this release" in capsys.readouterr().out


def test_an_adapter_that_cannot_be_imported_says_the_release(tmp_path: Path) -> None:
    folder = written(tmp_path, "return value", name="imports")
    adapter = "from numpy import no_such_name\n\n\ndef attend(query, key, value): ...\n"
    (folder / "imports" / "adapter.py").write_text(adapter)
    with pytest.raises(ReleaseError, match=rf"this release \(Mine {np.__version__}\): .*raises ImportError"):
        load_target("imports/attention", Surroundings(), folders=[folder])


def test_a_release_outside_of_the_range_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, "return value", least="999")
    with pytest.raises(TargetError, match=rf"mine/attention cannot be judged here: Mine {np.__version__} is installed; "
                                          r"its adapters are written for >=999\. Install a release in that range\.$"):
        load_target("mine/attention", Surroundings(), folders=[folder])


@pytest.mark.family(2)
@pytest.mark.parametrize(("declared", "advice"), [
    ("distribution: of-mine\nrequires: not_there", "Install it: pip install of-mine"),
    ("requires: not_there", "Install the distribution that holds this module."),
    ("distribution: of-mine\nrequires: numpy not_there", "Install the distribution that holds this module."),
    ("distribution: of-mine\nrequires: not_there\ninstall: pip install this", "Install it: pip install this"),
])
def test_advice_to_install_never_names_a_module(tmp_path: Path, declared: str, advice: str) -> None:
    folder = written(tmp_path, "return value")
    manifest = MANIFEST.replace("distribution: numpy\n", "").replace("requires: numpy", declared)
    (folder / "mine" / "manifest.yaml").write_text(manifest.format(least="1"))
    assert registered_subjects([folder])["mine/attention"].why_missing == f"not_there is not installed. {advice}"


@pytest.mark.family(2)
@pytest.mark.parametrize(("tested", "complaint"), [
    ("{oldest: {install: numpy==1.0}}", "needs 'newest'"),
    ("{oldest: {install: numpy}, newest: {install: numpy==2}}", "should pin numpy, as in 'numpy==1.2.0', not 'numpy'"),
    ("{oldest: {install: numpy==0.1}, newest: {install: numpy==2}}",
     "pins numpy 0.1, which is outside of the declared range >=1."),
    ("{oldest: {instal: numpy==1}, newest: {}}", "Did you mean 'install'"),
    ("{oldest: {not_tested: no wheel, install: numpy==1}, newest: {}}", "key of the oldest release"),
])
def test_a_wrong_end_of_a_range_is_named_with_its_line(tmp_path: Path, tested: str, complaint: str) -> None:
    folder = written(tmp_path, "return value")
    manifest = MANIFEST.format(least="1").replace("requires:", f"tested: {tested}\nrequires:")
    (folder / "mine" / "manifest.yaml").write_text(manifest)
    with pytest.raises(ManifestError, match=complaint) as caught:
        registered_subjects([folder])
    assert "mine/manifest.yaml:4: " in str(caught.value)


def test_ends_without_a_range_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, "return value")
    manifest = MANIFEST.replace('versions: ">={least}"', "tested: {oldest: {not_tested: a}, newest: {not_tested: b}}")
    (folder / "mine" / "manifest.yaml").write_text(manifest)
    with pytest.raises(ManifestError, match=r"the manifest declares no range\. Give it 'versions'\."):
        registered_subjects([folder])


NARROWER = """
    versions: ">=2"
    tested: {oldest: {install: numpy==2.1}}
  - id: other
    title: T
    function: adapter:attend
"""
ENDS = "tested: {oldest: {install: numpy==1.0}, newest: {install: numpy==2.9}}\nrequires:"


def narrowed(folder: Path, narrower: str) -> Mapping[str, Registered]:
    """Two subjects of a library; the first has a range of its own."""
    manifest = MANIFEST.format(least="1").replace("requires:", ENDS)
    (folder / "mine" / "manifest.yaml").write_text(manifest.rstrip() + narrower)
    return registered_subjects([folder])


def test_a_subject_may_need_newer_releases_than_its_library(tmp_path: Path) -> None:
    known = narrowed(written(tmp_path, "return value"), NARROWER)
    ends = {name: [end.install for end in known[name].library.tested] for name in ("mine/attention", "mine/other")}
    assert ends == {"mine/attention": ["numpy==2.1", "numpy==2.9"], "mine/other": ["numpy==1.0", "numpy==2.9"]}
    assert [known[name].library.versions for name in ends] == [">=2", ">=1"]


def since(folder: Path, versions: str) -> Declaration:
    """What is declared of a subject that takes a window in these versions of NumPy."""
    manifest = MANIFEST.format(least="1").replace("requires:", f"since: {{window: '{versions}'}}\nrequires:")
    (folder / "mine" / "manifest.yaml").write_text(manifest + "    claims: [window]\n")
    (folder / "mine" / "adapter.py").write_text("def attend(query, key, value, *, window=None): ...\n")
    return load_target("mine/attention", Surroundings(), folders=[folder]).declaration


@pytest.mark.parametrize(("versions", "keywords"), [("<1.0", set()), (">=1.0", {"window"})])
def test_a_release_is_not_asked_for_a_keyword_that_it_does_not_know_yet(
        tmp_path: Path, versions: str, keywords: set[str]) -> None:
    declared = since(written(tmp_path, "return value"), versions)
    assert {*declared.keywords} == keywords == {*declared.claims}


@pytest.mark.parametrize(("versions", "variants"), [("<1.0", set()), (">=1.0", {"other"})])
def test_a_variant_belongs_to_the_releases_that_have_its_switch(
        tmp_path: Path, versions: str, variants: set[str]) -> None:
    folder = written(tmp_path, "return value")
    about = f"    variants: {{other: {{function: 'adapter:attend', versions: '{versions}'}}}}\n"
    (folder / "mine" / "manifest.yaml").write_text(MANIFEST.format(least="1") + about)
    assert load_target("mine/attention", Surroundings(), folders=[folder]).variants.keys() == variants


def test_a_keyword_that_no_version_can_know_is_named_with_its_line(tmp_path: Path) -> None:
    folder = written(tmp_path, "return value")
    manifest = MANIFEST.format(least="1").replace("requires:", "since: {windw: '>=1'}\nrequires:")
    (folder / "mine" / "manifest.yaml").write_text(manifest)
    with pytest.raises(ManifestError, match=r"Did you mean 'window'\?"):
        registered_subjects([folder])


def test_a_subject_names_the_end_that_its_library_has_outside(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="needs 'oldest'"):
        narrowed(written(tmp_path, "return value"), NARROWER.replace("{oldest: {install: numpy==2.1}}", "{}"))


def test_the_page_tells_each_range_and_each_release_of_a_library() -> None:
    tried = [Tried(f"mine/{name}", "oldest", f"mine=={release}", release, "3.11", Fate.WORKS, "", "glance")
             for name, release in (("a", "1.0"), ("b", "2.1"))]
    page = ranges_page(tried, {"mine": (">=1", ">=2")})
    assert ("| mine | `>=1`, `>=2` | 1.0, Python 3.11: 1 of 1 work; `mine==1.0`; 2.1, Python 3.11: 1 of 1 work; "
            "`mine==2.1` |") in page


def test_who_answered_five_inputs_alone_is_not_said_to_work() -> None:
    tried = [Tried("mine/a", "oldest", "mine==1", "1.0", "3.11", Fate.WORKS)]
    page = ranges_page(tried, {"mine": (">=1",)})
    assert "| `mine/a` | 1.0: answers five inputs |" in page
    assert "0 of 1 trials were judged at a glance" in page


def wheel(folder: Path, release: str, name: str) -> None:
    """A release of `mine` with a function of this name, which sees the packages of this environment."""
    with zipfile.ZipFile(folder / f"mine-{release}-py3-none-any.whl", "w") as file:
        about = f"mine-{release}.dist-info/"
        file.writestr("mine.py", SOFTMAX.format(name=name))
        file.writestr("numpy_of_the_test.pth", str(Path(np.__file__).parents[1]) + "\n")
        file.writestr(about + "METADATA", f"Metadata-Version: 2.1\nName: mine\nVersion: {release}\n")
        file.writestr(about + "WHEEL", "Wheel-Version: 1.0\nGenerator: me\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(about + "RECORD", "")


@pytest.fixture
def ranged(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library with two releases, of which the adapter knows the newest alone. One clause stands for all."""
    monkeypatch.setattr(bench, "load_engine", lambda plan: load_engine(replace(plan, clauses=("attention.one_key",))))
    folder = written(here, "return value")
    (folder / "mine" / "adapter.py").write_text(RIGHT)
    wheel(here, "1.0", "soft_max")
    wheel(here, "2.0", "softmax")
    ends = "tested:\n  oldest: {install: '--no-index --find-links . mine==1.0'}\n" \
           "  newest: {install: '--no-index --find-links . mine==2.0'}\nrequires:"
    (folder / "mine" / "manifest.yaml").write_text(
        MANIFEST.format(least="1").replace("numpy", "mine").replace("requires:", ends))
    return here


COMMAND = ["ranges", "mine", "--implementations", "all", "--environments", "e", "--record", "t.jsonl"]


@pytest.mark.nightly
@pytest.mark.usefixtures("ranged")
def test_ranges_tries_both_ends_once_and_writes_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluation.cli.main([*COMMAND, "--markdown", "page.md"]) == 1
    oldest, newest = sorted(read_tried(Path("t.jsonl")), key=lambda each: each.release)
    version = "{}.{}".format(*sys.version_info[:2])
    assert (oldest.fate, oldest.release, oldest.python) == (Fate.UNJUDGED, "1.0", version)
    assert "AttributeError: module 'mine' has no attribute 'softmax'" in oldest.words
    assert (newest.fate, newest.release, newest.words) == (Fate.WORKS, "2.0", "")
    page = Path("page.md").read_text()
    assert "| `mine/attention` | 1.0: **cannot be judged** |  |  | 2.0: works |" in page
    assert "2 of 2 trials were judged at a glance; 1 of these work." in page
    assert capsys.readouterr().out.count("mine/attention with") == 2
    evaluation.cli.main(COMMAND)
    assert capsys.readouterr().out == ""  # what is known is not tried again


def test_a_rotary_embedding_is_judged_by_its_own_clauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "load_engine", lambda plan: load_engine(replace(plan, clauses=("*.definition",))))
    folder = written(tmp_path, "return value")
    about = MANIFEST.format(least="1").replace("dtypes:", "kind: rotary\n    claims: [rotary]\n    dtypes:")
    (folder / "mine" / "manifest.yaml").write_text(about)
    (folder / "mine" / "adapter.py").write_text("def attend(x, positions):\n    return x\n")
    tried = judge_at("mine/attention", RangeEnd(RangePlace.OLDEST),
                     Plan(("mine/attention",), implementations=(str(folder),)))
    assert tried.fate is Fate.FAILS  # it turns nothing, and `smoke` asks only for finite numbers
    assert "rotary.definition is violated" in tried.words


def test_ranges_says_why_nothing_was_tried(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = written(here, "return value")
    ends = "tested: {oldest: {not_tested: no wheel}, newest: {install: numpy==2, python: '2.9'}}\nrequires:"
    (folder / "mine" / "manifest.yaml").write_text(MANIFEST.format(least="1").replace("requires:", ends))
    assert evaluation.cli.main(COMMAND) == 0
    out = capsys.readouterr().out
    assert "mine/attention with oldest : not tested: no wheel" in out
    assert "mine/attention with newest : could not be installed: there is no python2.9 on the path that starts" in out


def test_ranges_names_the_nearest_library_that_has_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluation.cli.main(["ranges", "tim"]) == 2
    assert "'tim' is not a known library that declares a range. Did you mean 'timm'?" in capsys.readouterr().err
