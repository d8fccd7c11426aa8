"""Sizes that a user names: `B4 H32 Hkv8 T2048 S2048 D128`. How they are read, which lie beside them, what they cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from attnspec.core.errors import AttnspecError, FileLocation, UsageError, hint, quoted
from attnspec.core.refusal import AXES as NAMED

AXES = ("B", "H", "Hkv", "T", "S", "D", "Dv")
EXAMPLE = "B4 H32 Hkv8 T2048 S2048 D128"

MOST_HEADS, MOST_ENTRIES = 2**14, 2**30
"""Head slices (B·H), and scores (B·H·T·S) or entries of query, key and value: what is larger has no recipe."""

SIZE = re.compile(r"([A-Za-z]+)=?(\d{1,9})", re.ASCII)
"""One axis and its length."""

CASES = 4
"""How many cases a clause is tried on for each size that is named, at most: with the causal flag and without it, at the
size itself and at the one beside.
"""

_PACE = 4e9
"""Multiply-adds a second on one core, a call and its judgement together, as `cost` counts them: measured."""

_PER_SCORE = 100   # multiply-adds for its exponential and its allowance
_PER_ENTRY = 40    # bytes for each of query, key, value and output, with what is worked out of it, in judge and host
_AT_LEAST = 1e8    # bytes, with what is worked out in blocks


def read_sizes(text: str, where: FileLocation | None = None, *,
               error: type[AttnspecError] = UsageError) -> dict[str, int]:
    """B, H, Hkv, T, S, D and Dv by name, of words such as `D128` in any order. Left out, B and H are 1, Hkv is H, S is
    T (T is S), and Dv is D.

    Raises `error` for a word that names no axis, with the nearest one, for what is named twice or not at all, for heads
    that are not shared out evenly, and for sizes that no recipe can have.
    """
    given: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        axis, length = _read_size(word, where, error)
        if axis in given:
            raise error(f"the sizes {quoted(text)} say {axis} twice.", where=where)
        given[axis] = length
    if missing := [name for name, ways in (("D", {"D"}), ("T or S", {"T", "S"})) if not ways & given.keys()]:
        raise error(f"the sizes {quoted(text)} say nothing of {' and '.join(missing)}. Write them as in {EXAMPLE!r}.",
                    where=where)
    lengths = {"B": 1, "H": given.get("Hkv", 1), "T": given.get("S", 1), "Dv": given["D"], **given}
    lengths = {"Hkv": lengths["H"], "S": lengths["T"], **lengths}
    if wrong := _wrong(lengths):
        raise error(f"the sizes {quoted(text)} {wrong}", where=where)
    return {axis: lengths[axis] for axis in AXES}


def _read_size(word: str, where: FileLocation | None, error: type[AttnspecError]) -> tuple[str, int]:
    match = SIZE.fullmatch(word)
    if match is None:
        raise error(f"{quoted(word)} is not a size. Write an axis and a number, as in {EXAMPLE!r}.", where=where)
    if match[1] not in AXES:
        raise error(f"{quoted(word)} of the sizes names no axis.{hint(match[1], {name: NAMED[name] for name in AXES})}",
                    where=where)
    if int(match[2]) < 1:
        raise error(f"{quoted(word)} of the sizes: no axis is shorter than 1.", where=where)
    return match[1], int(match[2])


def _wrong(lengths: Mapping[str, int]) -> str:
    """What is wrong with these sizes, after `the sizes … `; empty if nothing is."""
    heads, queries, keys = lengths["B"] * lengths["H"], lengths["T"], lengths["S"]
    if lengths["H"] % lengths["Hkv"]:
        return f"have {lengths['H']} query heads, which is not a multiple of {lengths['Hkv']} key/value heads."
    if heads > MOST_HEADS:
        return f"have {heads:,} head slices (B·H); at most {MOST_HEADS:,} are tested. Name fewer."
    if (entries := heads * queries * keys) > MOST_ENTRIES:
        return f"have {entries:,} scores (B·H·T·S); at most {MOST_ENTRIES:,} are tested. Name a smaller batch."
    if heads * (queries + keys) * max(lengths["D"], lengths["Dv"]) > MOST_ENTRIES:
        return f"have more than {MOST_ENTRIES:,} entries of query, key and value. Name a smaller batch."
    return ""


def spell_lengths(lengths: Mapping[str, int]) -> str:
    """`B4 H32 Hkv8 T2048 S2048 D128 Dv128`: the same text for the same sizes."""
    return " ".join(f"{axis}{lengths[axis]}" for axis in AXES)


def is_sizes(text: str) -> bool:
    """Whether a text is meant as sizes, and not as the path of a file."""
    return all(SIZE.fullmatch(word) for word in text.replace(",", " ").split())


def read_all(texts: Iterable[str]) -> tuple[str, ...]:
    """The sizes of these texts, each spelled the same way and none twice; a text that is none is a file of them.

    A file has one a line; empty lines and what follows a # count for nothing. Raises UsageError with file and line.
    """
    return tuple(dict.fromkeys(spell_lengths(lengths) for text in texts for lengths in _all_of(text)))


def _all_of(text: str) -> Iterator[dict[str, int]]:
    if not text.strip():
        raise UsageError(f"no sizes are named. Write them as in {EXAMPLE!r}, or name a file of them.")
    if is_sizes(text) or not _is_path(text):
        yield read_sizes(text)
        return
    file = Path(text)
    for number, line in enumerate(_lines(file), start=1):
        if said := line.partition("#")[0].strip():
            yield read_sizes(said, FileLocation(text, number))


def _is_path(text: str) -> bool:
    """Whether a text that holds other words than sizes is the path of a file: it exists, or has one word, and a dot or
    a slash in it.
    """
    try:
        exists = Path(text).is_file()
    except (OSError, ValueError):  # a name that no file can have
        exists = False
    return exists or (len(text.split()) == 1 and bool({".", "/", "\\"} & set(text)))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", "") or "it is no UTF-8 text"
        raise UsageError(f"the sizes cannot be read: {reason}.", where=FileLocation(str(file))) from None


def sizes_beside(lengths: Mapping[str, int]) -> dict[str, int]:
    """Lengths with one more query and one more key, past the end of whatever block they filled, or one less where no
    recipe can have more; a single query stays one.
    """
    longer = _move_lengths(lengths, 1)
    return longer if not _wrong(longer) else _move_lengths(lengths, -1)


def _move_lengths(lengths: Mapping[str, int], step: int) -> dict[str, int]:
    axes = ("T", "S") if lengths["T"] > 1 else ("S",)
    return {**lengths, **{axis: max(1, lengths[axis] + step) for axis in axes}}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a case costs. work: multiply-adds of the two products of a call.  seconds: for call and judgement, about.

    bytes: in judge and host together, and those of one float32 array of scores, of which a subject may hold several.
    """

    work: int
    seconds: float
    bytes: float
    scores: int

    def __str__(self) -> str:
        """`1.4e+11 multiply-adds a call, 3.6 GB (2.1 of them one array of scores), about 48 s a case`."""
        scores = f"{self.scores / 1e9:.1f}"
        of_scores = f" ({scores} of them one array of scores)" if float(scores) else ""
        memory = f"{(self.bytes + self.scores) / 1e9:.1f} GB{of_scores}"
        return f"{self.work:.1e} multiply-adds a call, {memory}, about {max(1, round(self.seconds))} s a case"


def estimate_cost(lengths: Mapping[str, int]) -> Cost:
    """What a case of these sizes costs, about."""
    B, H, Hkv, T, S, D, Dv = (lengths[axis] for axis in AXES)
    scores, entries = B * H * T * S, B * (H * T + Hkv * S) * (D + Dv)
    work = scores * (D + Dv)
    return Cost(work, (work + _PER_SCORE * scores) / _PACE, _PER_ENTRY * entries + _AT_LEAST, 4 * scores)


def foretell_costs(texts: Iterable[str], deadline: float) -> Iterator[str]:
    """What these sizes are to cost, a line each, to be told before they are tried; and one more where an item may take
    longer than its deadline, in seconds.
    """
    seconds = 0.0
    for text in texts:
        each = estimate_cost(read_sizes(text))
        seconds += CASES * each.seconds
        yield f"sizes: {text}: {each}, up to {CASES} cases a clause"
    if seconds > deadline:
        yield f"sizes: a clause may take {seconds:.0f} s at them; the deadline of {deadline:g} s should be longer"
