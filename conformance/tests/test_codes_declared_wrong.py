"""Codes that are declared, or handed over, otherwise than a function takes them: what is said names the way out."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import pytest
from attnspec.aspects.quantised.arrays import storage_dtype
from attnspec.core.errors import UsageError
from helpers.commands import Cli

MINE = '''
import numpy as np

def attend(query, key, value, key_scale=None, value_scale=None):
    {0}
    def wide(codes, scale):
        numbers = codes.astype(np.float32) if scale is None else codes.astype(np.float32) * scale[:, None, None]
        return np.repeat(numbers, query.shape[1] // codes.shape[1], 1)
    logits = query @ wide(key, key_scale).swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ wide(value, value_scale)

attend.dtypes = ["float32"]
{1}
'''
BY_HEAD = 'attend.key_scales = attend.value_scales = "head"'


def said(cli: Cli, folder: Path, declared: str, first: str = "") -> str:
    """What a check says of it."""
    (folder / "mine.py").write_text(MINE.format(first, declared), encoding="utf-8")
    _, out, err = cli("check", str(folder / "mine.py:attend"), "--clause", "quantised.keys_by_token", "--clause",
                      "quantised.keys_by_head", "--effort", "quick")
    return " ".join((out + err).split())


def test_scales_of_another_shape_are_told_with_what_is_declared(cli: Cli, tmp_path: Path) -> None:
    out = said(cli, tmp_path, 'attend.stored_key = attend.stored_value = "int8"\n'
                              'attend.key_scales = attend.value_scales = "token"')
    assert "it raises ValueError" in out
    assert "or what is declared: it is handed codes of the key in int8 (stored_key), its scales by token, (B,Hkv,S) " \
           "(key_scales)" in out


def test_codes_of_another_dtype_are_told_with_what_is_declared(cli: Cli, tmp_path: Path) -> None:
    out = said(cli, tmp_path, f'attend.stored_key = attend.stored_value = "float8_e4m3fn"\n{BY_HEAD}',
               "assert key.dtype == np.int8, f'codes are int8, not {key.dtype}'")
    assert "codes are int8, not float8_e4m3fn" in out
    assert "or what is declared: it is handed codes of the key in float8_e4m3fn (stored_key)" in out


@pytest.mark.parametrize(("declared", "words"), [
    ('attend.stored_key = "fp8"', "'fp8' is not a known format of codes. Did you mean 'mxfp8'?"),
    ('attend.packed_key = "low_first"', "'packed_key' of 'limits' needs stored_key to be a format of four bits (int4, "
                                        "uint4, mxfp4, nvfp4)."),
    ('attend.stored_query = "int8"', "attend.stored_query declares codes of the query, and attend has no parameter "
                                     "query_scale. Add it (None where codes are the numbers), or leave stored_query "
                                     "out."),
    ('attend.query_scales = "head"', "attend.query_scales declares codes of the query"),
    ('attend.key_scales = "heads"', "'heads' is not a known answer to how many entries share a scale. Did you mean "
                                    "'head'"),
    ('attend.key_scales = "page"', "scales of its key are declared by page, and its keys lie in none (declare token, "
                                   "or another)"),
])
def test_what_is_declared_wrong_is_told_with_the_way_out(cli: Cli, tmp_path: Path, declared: str, words: str) -> None:
    assert words in said(cli, tmp_path, declared)


def test_a_type_that_an_old_release_lacks_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ml_dtypes, "float8_e8m0fnu")
    with pytest.raises(UsageError, match=r"has no float8_e8m0fnu\. Install a later release of it\."):
        storage_dtype("float8_e8m0fnu")
