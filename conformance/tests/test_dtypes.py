"""The table of dtypes: its numbers are those of the formats, and no other table by dtype leaves one out."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping

import attnspec
import ml_dtypes
import numpy as np
import pytest
from attnspec.core.dtype import DTYPES, HALF_DTYPES
from attnspec.core.nouns import DType
from attnspec.host.frames import BIT_DTYPES, FLOATS
from attnspec.problems.problem import numpy_dtype


def tables_by_dtype() -> Iterator[tuple[str, frozenset[DType]]]:
    """The name of each table of a module whose keys are dtypes, and these keys."""
    for module in pkgutil.walk_packages(attnspec.__path__, "attnspec."):
        if module.name.endswith(("__main__", "pytest_plugin")) or ".host.lifts." in module.name:
            continue  # what runs or needs a framework
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, Mapping) and value and all(isinstance(key, DType) for key in value):
                yield f"{module.name}.{name}", frozenset(value)


@pytest.mark.parametrize("dtype", DType)
def test_the_numbers_are_those_of_the_format(dtype: DType) -> None:
    found, info = DTYPES[dtype], ml_dtypes.finfo(numpy_dtype(dtype))
    assert found.roundoff == float(info.eps) / 2
    assert (found.subnormal, found.normal) == (float(info.smallest_subnormal), float(info.smallest_normal))
    assert found.largest == float(info.max)


@pytest.mark.parametrize("dtype", DType)
def test_what_stands_beside_an_array_is_no_coarser(dtype: DType) -> None:
    assert DTYPES[dtype].roundoff >= DTYPES[DTYPES[dtype].wide].roundoff
    assert np.exp(-DTYPES[dtype].exponential_span) >= DTYPES[dtype].normal


def test_the_host_has_the_same_dtypes_and_smallest_numbers() -> None:
    assert {DType(name): smallest for name, smallest in FLOATS.items()} == {
        dtype: each.normal for dtype, each in DTYPES.items()}
    assert {dtype.value for dtype, each in DTYPES.items() if not each.is_of_numpy} <= BIT_DTYPES.keys()


def test_no_two_dtypes_share_a_name() -> None:
    names = [name for dtype, each in DTYPES.items() for name in {dtype.value, each.short_name, *each.other_names}]
    assert len(names) == len(set(names))


def test_every_table_by_dtype_has_all_of_them_or_all_wide_ones() -> None:
    whole, wide = frozenset(DType), frozenset(DType) - frozenset(HALF_DTYPES)
    tables = dict(tables_by_dtype())
    assert {"attnspec.core.dtype.DTYPES", "attnspec.report.figures.SHORT_NAMES"} <= tables.keys()
    # a fault says where it is none: at a dtype that it leaves out, it shows
    partial = {name for name, keys in tables.items() if keys not in (whole, wide) and "fault" not in name}
    assert partial == set()
