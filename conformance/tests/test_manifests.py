from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from attnspec.core import paths
from attnspec.core.errors import AttnspecError, ManifestError, TargetError, UsageError
from attnspec.core.nouns import DType
from attnspec.spec.load import load_spec
from attnspec.subjects.attributes import check_precision
from attnspec.subjects.manifest import Registered
from attnspec.subjects.registry import load_target, registered_subjects

MANIFEST = """\
library: Mine
subjects:
  - id: attention
    title: My attention
    function: attention:attend
"""
ABSENT = "requires: not_there_at_all\ninstall: pip install not-there\n"
ADAPTER = "def attend(query, key, value, *, mask=None):\n    return value\n"


def library(folder: Path, *, manifest: str = MANIFEST, adapter: str = ADAPTER) -> Path:
    folder.mkdir(parents=True)
    (folder / "manifest.yaml").write_text(manifest)
    (folder / "attention.py").write_text(adapter)
    return folder


def test_a_new_folder_is_seen_at_once(tmp_path: Path) -> None:
    library(tmp_path / "mine_at_once")
    assert "mine_at_once/attention" in registered_subjects([tmp_path])
    assert load_target("mine_at_once/attention", folders=[tmp_path]).declaration.keywords == {"mask"}


def test_an_adapter_outside_the_checkout_survives_the_spawn_start_method(tmp_path: Path) -> None:
    library(tmp_path / "mine_spawned")
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing\n"
        "from attnspec.subjects.registry import load_target\n"
        "def work(target):\n"
        f"    return load_target(target, folders=[{str(tmp_path)!r}]).id\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(work, ['mine_spawned/attention', 'numpy/attention']))\n")
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "['mine_spawned/attention', 'numpy/attention']\n"


def spoilt(tmp_path: Path, name: str) -> Path:
    """A folder of implementations with one mistake in it."""
    root = tmp_path / "root"
    if name == "no manifest":
        (library(root / "mine") / "manifest.yaml").unlink()
    elif name == "no identifier":
        library(root / "my-lib")
    elif name == "same folder":
        library(root / "numpy")
    elif name == "twice":
        library(root / "mine", manifest=MANIFEST + MANIFEST.partition("subjects:\n")[2])
    elif name == "a library":
        return library(root)
    return root


@pytest.mark.parametrize(("name", "message"), [
    ("missing", "there is no such folder of implementations."),
    ("no manifest", "mine: holds adapters but no manifest.yaml."),
    ("no identifier", "the folder 'my-lib' is not an identifier, so its adapters cannot be imported. Rename it, as in "
                      "'my_lib'."),
    ("same folder", "there is already a folder of this name, implementations/numpy; rename this one."),
    ("twice", "manifest.yaml:6: the subject 'mine/attention' is registered twice, first at "),
    ("a library", "this is one library's folder; name the folder that holds it"),
])
def test_a_folder_of_implementations_that_cannot_be_read_says_why(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises((ManifestError, UsageError)) as caught:
        registered_subjects([spoilt(tmp_path, name)])
    assert message in str(caught.value)


@pytest.mark.parametrize(("manifest", "adapter", "message"), [
    (ABSENT + MANIFEST, ADAPTER, "manifest.yaml:5: {id} cannot be judged here: not_there_at_all is not installed. "
                                 "Install it: pip install not-there"),
    (MANIFEST + "    kind: layer\n", ADAPTER,
     "manifest.yaml:3: {id} is declared as kind 'layer', but attend is of kind 'attention' by its parameters."),
    (MANIFEST.replace("attention:attend", "attention:atend"), ADAPTER,
     "attention.py: there is no 'atend' in it (target 'attention:atend'). Did you mean 'attend'?"),
    (MANIFEST, "1/0", "attention.py:1: importing "),
    (MANIFEST + "    precision: {float32: {grade: G7, reason: none}}\n", ADAPTER,
     "manifest.yaml:6: 'G7' is not a known grade."),
    (MANIFEST + "    precision: {float32: {exp_ulp: 20, reason: none}}\n", ADAPTER,
     "manifest.yaml:6: 'exp_ulp' is not a known word of a precision class. Did you mean 'exp_ulps'?"),
], ids=["not installed", "kind", "no such function", "raises", "grade", "word"])
def test_a_subject_that_cannot_be_loaded_says_why(tmp_path: Path, manifest: str, adapter: str, message: str,
                                                  request: pytest.FixtureRequest) -> None:
    name = "mine_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.callspec.id)
    library(tmp_path / name, manifest=manifest, adapter=adapter)
    with pytest.raises(AttnspecError) as caught:
        load_target(f"{name}/attention", folders=[tmp_path])
    assert message.format(id=f"{name}/attention") in str(caught.value)


def test_a_function_that_an_adapter_lacks_is_told_at_its_line(tmp_path: Path) -> None:
    library(tmp_path / "mine_lacking", manifest=MANIFEST.replace("attention:attend", "attention:atend"))
    with pytest.raises(AttnspecError, match=r"^\S+/manifest\.yaml:3: \S+/attention\.py: there is no 'atend' in it"):
        load_target("mine_lacking/attention", folders=[tmp_path])


def test_a_library_not_installed_is_listed_with_how_to_install_it(tmp_path: Path) -> None:
    library(tmp_path / "mine_absent", manifest=ABSENT + MANIFEST)
    subject = registered_subjects([tmp_path])["mine_absent/attention"]
    assert subject.why_missing == "not_there_at_all is not installed. Install it: pip install not-there"
    assert subject.library.version == ""


def test_conventions_may_differ_by_form(tmp_path: Path) -> None:
    library(tmp_path / "mine", manifest=MANIFEST + "    conventions: {hidden_row: {mask: uniform, bias: nan}}\n")
    conventions = registered_subjects([tmp_path])["mine/attention"].declaration.conventions
    assert conventions == {"hidden_row": "uniform", "hidden_row.mask": "uniform", "hidden_row.bias": "nan"}


def test_a_variant_is_the_subject_with_what_it_declares_otherwise(tmp_path: Path) -> None:
    more = ("    conventions: {hidden_row: nan, mask_with_causal: both}\n"
            "    variants:\n"
            "      fast:\n"
            "        function: attention:attend_fast\n"
            "        conventions: {hidden_row: zeros}\n"
            "        precision: {float32: {grade: G0, reason: none}}\n"
            "        weights: averaged\n")
    library(tmp_path / "mine_varied", manifest=MANIFEST + more,
            adapter=ADAPTER + "def attend_fast(query, key, value, *, mask=None):\n    return value\n")
    subject = load_target("mine_varied/attention", folders=[tmp_path])
    fast = subject.variant("fast")
    assert [each.description and each.description.qualname for each in (subject, fast)] == ["attend", "attend_fast"]
    assert fast.id == "mine_varied/attention[fast]"
    assert fast.declaration.conventions == {"hidden_row": "zeros", "mask_with_causal": "both"}
    assert fast.declaration.limits.weights == "averaged"
    assert DType.FLOAT32 in fast.declaration.precision
    assert DType.FLOAT32 not in subject.declaration.precision


def test_a_deviation_is_read_whole(tmp_path: Path) -> None:
    more = ("    deviations:\n"
            "      - clause: masking.hidden_is_zero\n"
            "        verdict: violated\n"
            "        reason: it forgets\n"
            "        issue: https://example.org/1\n"
            "        until: '2.0'\n"
            "        dtypes: [float16]\n")
    library(tmp_path / "mine", manifest=MANIFEST + more)
    deviation, = registered_subjects([tmp_path])["mine/attention"].declaration.deviations
    assert (deviation.clause, deviation.until, deviation.dtypes) == ("masking.hidden_is_zero", "2.0", (DType.FLOAT16,))


SHIPPED = registered_subjects()


def test_every_system_of_the_documents_is_registered() -> None:
    systems = {"msa_note": {"numpy/msa", "torch/mha", "torch/mha_no_weights"},
               "self_attention_note": {"torch/single_head", "torch/multi_head", "jax/single_head", "jax/multi_head"},
               "self_attention_article": {"torch/multi_head_output", "jax/multi_head_output"},
               "aiayn_notes": {"numpy/paper", "torch/paper", "jax/paper"}}
    found = {document: {name for name, subject in SHIPPED.items() if subject.document == document}
             for document in systems}
    assert found == systems


@pytest.mark.parametrize("subject", SHIPPED.values(), ids=list(SHIPPED))
def test_what_ships_names_known_documents_and_sound_precision_classes(subject: Registered) -> None:
    assert subject.document in {"", *load_spec().bibliography}
    check_precision(subject.declaration, None)


def test_the_shipped_folder_is_named_where_the_user_sees_it() -> None:
    assert paths.folder("implementations").is_dir()
    with pytest.raises(TargetError, match="Did you mean 'jax/attention'"):
        load_target("jax/atention")


def test_a_mistake_in_one_library_keeps_no_other_from_being_judged(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "manifest.yaml").write_text("librry: broken\n")
    assert load_target("numpy/attention", folders=[tmp_path]).id == "numpy/attention"
    with pytest.raises(ManifestError, match="librry"):
        load_target("nupmy/attention", folders=[tmp_path])
