"""The table of how long tests take: all of them, and those of the short suite."""

from __future__ import annotations

from seconds_of_tests import table_of

LOG = """
12.00s call     conformance/tests/test_a.py::test_one[a b]
1.00s setup    conformance/tests/test_a.py::test_two
3.00s call     conformance/tests/test_b.py::test_it
0.40s call     somewhere/else.py::test_it
"""


def test_seconds_are_added_up_by_file_with_the_part_of_the_short_suite() -> None:
    short = frozenset({"conformance/tests/test_a.py::test_two", "conformance/tests/test_b.py::test_it"})
    assert table_of(LOG, short, shown=1).splitlines()[2:] == [
        "| `test_a.py` | 13 | 1 |", "| 1 others | 3 | 3 |", "| together | 16 | 4 |"]
