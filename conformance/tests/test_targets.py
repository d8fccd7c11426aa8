from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from attnspec.cli import main
from attnspec.core.errors import TargetError, UsageError
from attnspec.core.nouns import DType, Kind
from attnspec.host import loading
from attnspec.subjects.outline import (
    class_for_function,
    file_of_module,
    no_such_function,
    public_functions,
    spelled_out,
)
from attnspec.subjects.registry import load_target

MINE = '''
"""Functions that a user might name."""
import functools


def attend(query, key, value, *, mask=None, causal=False):
    """My attention."""
    return value


def layer(query, key, value, *, params, heads):
    return value


class Thing:
    def __call__(self, query, key, value, *, scale=None):
        return value


thing = Thing()
part = functools.partial(attend, mask=None)
number = 3


def declared(query, key, value, *, bias=None):
    return value


declared.dtypes = ["float32"]
declared.ties_value_width = True
declared.bias_is_mask = True
declared.conventions = {"hidden_row": "zeros"}
declared.precision = {"float32": {"grade": "G0", "reason": "float32 throughout"}}


def starred(query, key, value, **more): ...
def starred_too(query, key, value, *more): ...
def typo(query, key, value, *, masc=None): ...
def positional(query, key, value, mask, /): ...
def two(query, key): ...
def half_a_layer(query, key, value, *, heads): ...
async def later(query, key, value): ...
def wrong_dtype(query, key, value): ...
def wrong_name(query, key, value): ...
def wrong_answer(query, key, value): ...
def wrong_grade(query, key, value): ...
def no_reason(query, key, value): ...
def wrong_lift(query, key, value): ...


wrong_dtype.dtypes = ["float33"]
wrong_name.ties_value_widht = True
wrong_answer.conventions = {"hidden_row": "zero"}
wrong_grade.precision = {"float32": {"grade": "G9", "reason": "none"}}
no_reason.precision = {"float32": {"grade": "G1"}}
wrong_lift.lift = "tensorflow"
'''


@pytest.fixture(autouse=True)
def here(here: Path) -> Iterator[Path]:
    """A user's folder, as the working directory."""
    files = {"my_attention.py": MINE, "my_imports.py": "import not_there_at_all", "my_raising.py": "x = 1\nx / 0",
             "my_syntax.py": "def f(:", "my_exit.py": "raise SystemExit(3)",
             "my_sibling.py": "from my_attention import attend"}
    for name, text in files.items():
        (here / name).write_text(textwrap.dedent(text).lstrip())
    (here / "my_folder").mkdir()
    (here / "my_package").mkdir()
    (here / "my_package" / "__init__.py").write_text("")
    yield here
    for name in [name for name in sys.modules if name.startswith(("my_", "attnspec_target_my_"))]:
        del sys.modules[name]


@pytest.mark.parametrize(("target", "keywords", "kind"), [
    ("my_attention:attend", frozenset({"mask", "causal"}), Kind.ATTENTION),
    ("my_attention.py:attend", frozenset({"mask", "causal"}), Kind.ATTENTION),
    ("./my_attention.py:attend", frozenset({"mask", "causal"}), Kind.ATTENTION),
    ("my_sibling.py:attend", frozenset({"mask", "causal"}), Kind.ATTENTION),
    ("my_attention:layer", frozenset({"params", "heads"}), Kind.LAYER),
    ("my_attention:thing", frozenset({"scale"}), Kind.ATTENTION),
    ("my_attention:part", frozenset({"mask", "causal"}), Kind.ATTENTION),
    ("my_attention:declared", frozenset({"bias", "mask"}), Kind.ATTENTION),
    ("my_attention:starred", frozenset(), Kind.ATTENTION),
    ("my_attention:starred_too", frozenset(), Kind.ATTENTION),
])
def test_a_signature_is_a_list_of_capabilities(target: str, keywords: frozenset[str], kind: Kind) -> None:
    subject = load_target(target)
    assert (subject.id, subject.declaration.keywords, subject.declaration.kind) == (target, keywords, kind)


def test_a_function_says_where_it_stands_and_what_it_is() -> None:
    subject = load_target("my_attention:attend")
    assert (str(subject.source), subject.title) == ("my_attention.py:5", "My attention.")


def test_attributes_declare_what_a_signature_cannot_say() -> None:
    declaration = load_target("my_attention:declared").declaration
    assert declaration.dtypes == (DType.FLOAT32,)
    assert declaration.limits.ties_value_width
    assert declaration.conventions == {"hidden_row": "zeros"}
    assert declaration.precision[DType.FLOAT32]["grade"] == "G0"


MISTAKES = [
    ("numpy/attenton", "'numpy/attenton' is not a known subject. Did you mean 'numpy/attention'? "
                       "`attnspec list` names them all."),
    ("my_attention", "my_attention has: attend, layer, thing, part, declared, starred, starred_too, typo and 9 more. "
                     "Write my_attention:attend."),
    ("my_attention:", "my_attention has: attend, layer, thing, part, "),
    ("my_attention.py", "my_attention.py has: attend, layer, thing, part, "),
    ("my_raising", "my_raising defines no public function. A function of your own is named package.module:function or "
                   "path/to/file.py:function."),
    ("my_package", "my_package defines no public function."),
    ("my_syntax.py", "my_syntax.py:1: 'my_syntax.py' is no valid Python: invalid syntax."),
    ("my_atention.py", "my_atention.py: there is no such file. Did you mean 'my_attention.py'?"),
    ("./my_folder", "./my_folder is a folder. A function of your own is named package.module:function or "),
    ("no_such_thing_at_all", "'no_such_thing_at_all' is not a known subject. `attnspec list` names them all. "
                             "A function of your own is named package.module:function or path/to/file.py:function."),
    ("my_atention:attend", "there is no module 'my_atention'. Did you mean 'my_attention'?"),
    ("my_package.inner:attend", "there is no module 'my_package.inner'."),
    ("..:attend", "'..' is not a module name. Write package.module:function."),
    ("my_attention:attnd", "my_attention.py: there is no 'attnd' in it (target 'my_attention:attnd'). "
                           "Did you mean 'attend'?"),
    ("./my_atention.py:attend", "my_atention.py: there is no such file. Did you mean 'my_attention.py'?"),
    ("no_such_folder/mine.py:attend", "no_such_folder/mine.py: there is no such file."),
    ("my_imports:f", "importing 'my_imports' needs the module 'not_there_at_all', which was not found in "),
    ("my_raising:f", "my_raising.py:2: importing 'my_raising' raises ZeroDivisionError: division by zero"),
    ("my_raising.py:f", "my_raising.py:2: importing 'my_raising.py' raises ZeroDivisionError: division by zero"),
    ("my_exit:f", "my_exit.py:1: importing 'my_exit' raises SystemExit: 3"),
    ("my_syntax:f", "my_syntax.py:1: 'my_syntax' is no valid Python: invalid syntax."),
    ("my_syntax.py:f", "my_syntax.py:1: 'my_syntax.py' is no valid Python: invalid syntax."),
    ("my_attention:Thing", "my_attention.py:14: 'my_attention:Thing' is a class. Name a function, or a module-level "
                           "instance that can be called: attend = Thing(...); or let an adapter be written: "
                           "attnspec init my_attention:Thing"),
    ("my_attention:number", "'my_attention:number' is int and cannot be called; a function is expected: "
                            "attend(query, key, value, *, ...)."),
    ("my_attention:typo", "my_attention.py:37: typo takes 'masc', which is not a known keyword. Did you mean 'mask'?"),
    ("my_attention:positional", "positional takes 'mask' by position only, "
                                "but attnspec gives only query, key and value by position."),
    ("my_attention:two", "two takes (query, key); the first three should be query, key and value, given by position"),
    ("my_attention:half_a_layer", "half_a_layer takes heads but not params; "
                                  "a layer takes both, an attention function neither."),
    ("my_attention:later", "later is a coroutine or generator function; a plain function is expected"),
    ("my_attention:wrong_dtype", "my_attention.py:42: 'float33' is not a known dtype. Did you mean 'float32'?"),
    ("my_attention:wrong_name", "wrong_name has an attribute 'ties_value_widht'; did you mean 'ties_value_width'?"),
    ("my_attention:wrong_answer", "'zero' is not a known answer to hidden_row. Did you mean 'zeros'?"),
    ("my_attention:wrong_grade", "my_attention.py:45: 'G9' is not a known grade."),
    ("my_attention:no_reason", "the precision of 'float32' needs 'reason'. It has: grade."),
    ("my_attention:wrong_lift", "'tensorflow' is not a known lift. Known: jax, torch."),
]


@pytest.mark.family(12)
@pytest.mark.parametrize(("target", "message"), MISTAKES, ids=[target for target, _ in MISTAKES])
def test_a_target_that_is_no_attention_is_told_what_is_wrong(target: str, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        load_target(target)
    assert message in str(caught.value)


def test_a_file_that_changed_within_a_second_is_judged_as_it_stands(
    here: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for answer in (1, 2):  # Python's compiled copy of the first goes by seconds and by the length of the file
        (here / "my_candidate.py").write_text(f"answer = {answer}", encoding="utf-8")
        os.utime(here / "my_candidate.py", (1e9, 1e9))
        assert loading.load_member({"file": str(here / "my_candidate.py")}, "answer") == answer


def test_a_file_is_told_apart_without_running_it(here: Path) -> None:
    (here / "my_jit.py").write_text("import jax\ndef _attend(q, k, v): ...\nattend = jax.jit(_attend)\nx = len([])\n")
    assert public_functions(here / "my_jit.py") == ["attend"]
    (here / "my_helpers.py").write_text("def softmax(x, axis): ...\ndef attend(q, k, v): ...\ndef any(*args): ...\n")
    assert public_functions(here / "my_helpers.py") == ["attend", "any", "softmax"]
    assert file_of_module("my_package") == here / "my_package" / "__init__.py"
    assert [public_functions(here / name) for name in ("my_syntax.py", "none.py")] == [[], []]
    assert not {"my_jit", "my_package"} & set(sys.modules)


def test_a_file_alone_means_its_only_function(here: Path) -> None:
    attend = "def attend(q, k, v): ...\n"
    files = {"one": attend, "helped": "def softmax(x, axis): ...\n" + attend,
             "two": attend + attend.replace("d(", "d_fast("),
             "paired": attend + attend.replace("d(", "d_backward("),
             "none": "def softmax(x): ...\n", "private": attend.replace("attend", "_attend"), "broken": "def"}
    for name, text in files.items():
        (here / f"{name}.py").write_text(text)
    meant = [spelled_out(f"{name}.py") for name in files]
    assert meant == ["one.py:attend", "helped.py:attend", "two.py", "paired.py:attend", "none.py:softmax",
                     "private.py", "broken.py"]
    assert [spelled_out(other) for other in ("one", "one.py:x", "nowhere.py")] == ["one", "one.py:x", "nowhere.py"]


def test_where_no_name_is_near_a_module_tells_its_own_alone(here: Path) -> None:
    (here / "my_two.py").write_text("from json import dumps, loads\n\ndef attend(q, k, v): ...\n")
    with pytest.raises(TargetError, match=r"my_two.py: there is no 'zzz' in it .*Known: attend\.$"):
        load_target("my_two:zzz")
    with pytest.raises(TargetError, match=r"Did you mean 'dumps'\?$"):
        load_target("my_two:dump")


def test_a_lift_that_does_not_exist_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="'tensor' is not a known lift"):
        load_target("my_attention:attend", lift="tensor")


def test_what_the_working_directory_does_not_hold_leaves_the_path_alone() -> None:
    before = list(sys.path)
    with pytest.raises(TargetError, match="takes"):
        load_target("json:dumps")
    assert sys.path == before


@pytest.mark.parametrize(("name", "said"), [
    ("mine.py:atend", "mine.py: there is no 'atend' in it (target 'mine.py:atend'). Did you mean 'attend'?"),
    ("mine:atend", "mine.py: there is no 'atend' in it (target 'mine:atend'). Did you mean 'attend'?"),
    ("mine.py::attend", "'mine.py::attend' has two colons. Did you mean mine.py:attend?"),
    ("mine.py:attend", ""), ("mine.py:made", ""), ("mine.py:attend.part", "")])
def test_a_name_that_no_import_could_find_is_told_before_one(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "mine.py").write_text("def attend(q, k, v): ...\nmade = [attend][0]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert str(no_such_function(name) or "") == said


@pytest.mark.parametrize("more", [
    "from numpy import *", "def __getattr__(name): ...", "globals()['atend'] = 1", "def ("])
def test_a_file_whose_names_come_about_unseen_is_left_to_the_import(more: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"def attend(q, k, v): ...\n{more}\n", encoding="utf-8")
    assert no_such_function(f"{tmp_path}/mine.py:atend") is None


def test_a_class_is_told_before_its_file_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    text = "raise OSError('it was imported')\nclass Layer(nn.Module):\n    pass\nclass Plain:\n    pass\n"
    (tmp_path / "net.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for target in ("net.py:Layer", "net:Layer"):
        assert main(["check", target]) == 2
        assert capsys.readouterr() == ("", f"attnspec: net.py:2: '{target}' is a class. Name a function, or a "
                                           "module-level instance that can be called: attend = Layer(...); or let an "
                                           "adapter be written: attnspec init net:Layer\n")
    assert main(["check", "net:Plain"]) == 2
    assert capsys.readouterr().err.endswith("Plain(...); or write an adapter: docs/writing-an-adapter.md\n")


@pytest.mark.parametrize("text", [
    "class Layer: ...\nLayer = Layer()\n", "@made\nclass Layer: ...\n", "def Layer(query, key, value): ...\n",
    "from elsewhere import Layer\n", "if True:\n    class Layer: ...\n", "class Layer(\n"])
def test_what_may_be_no_class_once_it_is_imported_is_left_to_the_import(text: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(text, encoding="utf-8")
    assert class_for_function(f"{tmp_path}/net.py:Layer") is None


@pytest.mark.parametrize(("imported", "says"), [
    ("attention_of_mine", "importing 'folder/mine.py' needs the module 'attention_of_mine', which was not found in the "
                          "current folder, "),
    ("attention_of_mine", " folder or the installed packages."),
    ("numpyy", " or the installed packages. Did you mean 'numpy'?"),
    ("theirs.layres", "needs the module 'theirs.layres', which was not found in theirs. Did you mean 'layers'?"),
    ("mindspore", "needs 'mindspore', which is not installed. Install it: pip install mindspore \"numpy<2\""),
    ("ml_dtypes", "needs 'ml_dtypes', which is not installed. Install it: pip install ml_dtypes")])
def test_only_of_known_libraries_pip_is_named(
    imported: str, says: str, here: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("theirs/__init__.py", "theirs/layers.py", "folder/mine.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(f"import {imported}\n" if name.startswith("folder") else "", encoding="utf-8")
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    if imported in ("mindspore", "ml_dtypes"):
        monkeypatch.setitem(sys.modules, imported, None)
    with pytest.raises(TargetError) as caught:
        load_target("folder/mine.py:attend")
    assert says in str(caught.value)
    assert ("pip" in says) is ("pip" in str(caught.value))
