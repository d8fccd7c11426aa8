"""Reads sizes that a user names, `B4 H32 Hkv8 T2048 S2048 D128`, and refusals: `D > 256`, `T ≠ S`.

It says which sizes lie beside them, and what they cost. A refusal may name keywords as well:
`window with T ≠ S`, `softcap without causal`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from attnspec.core.errors import AttnspecError, FileLocation, UsageError, hint, quote_value
from attnspec.core.keywords import OFF

AXES = ("B", "H", "Hkv", "T", "S", "D", "Dv")
EXAMPLE = "B4 H32 Hkv8 T2048 S2048 D128"

MOST_HEADS, MOST_ENTRIES = 2**14, 2**30
"""Limits of a recipe: head slices (B·H); scores (B·H·T·S), or entries of an array."""

SIZE = re.compile(r"([A-Za-z]+)=?(\d{1,9})", re.ASCII)
"""One axis and its length."""

CASES = 4
"""At most so many cases of a clause are tried for each size that is named.

They are with and without the causal flag, at the size itself and at the one beside.
"""

_PACE = 4e9
"""Multiply-adds a second on one core, for call and judgement, as `cost` counts: measured."""

_PER_SCORE = 100   # multiply-adds for its exponential and its allowance
# bytes for each of query, key, value and output, with what is worked out of it, in judge and host
_PER_ENTRY = 40
_AT_LEAST = 1e8    # bytes, with what is worked out in blocks


def read_sizes(text: str, where: FileLocation | None = None, *,
               error: type[AttnspecError] = UsageError) -> dict[str, int]:
    """B, H, Hkv, T, S, D and Dv by name, from words such as `D128` in any order.

    Left out, B and H are 1, Hkv is H, S is T (T is S), and Dv is D. Raises `error` for a word that
    names no axis, with the nearest one, for what is named twice or not at all, for heads that are
    not shared out evenly, and for sizes that no recipe can have.
    """
    own: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        axis, length = _read_size(word, where, error)
        if axis in own:
            raise error(f"the sizes {quote_value(text)} say {axis} twice.", where=where)
        own[axis] = length
    missing = [] if "D" in own else ["D"]
    if own.keys().isdisjoint({"T", "S"}):
        missing.append("T or S")
    if missing:
        raise error(f"the sizes {quote_value(text)} say nothing of {' and '.join(missing)}. "
                    f"Write them as in {EXAMPLE!r}.", where=where)
    lengths = {"B": 1, "H": own.get("Hkv", 1), "T": own.get("S", 1), "Dv": own["D"], **own}
    lengths = {"Hkv": lengths["H"], "S": lengths["T"], **lengths}
    if wrong := _wrong(lengths):
        raise error(f"the sizes {quote_value(text)} {wrong}", where=where)
    return {axis: lengths[axis] for axis in AXES}


def _read_size(word: str, where: FileLocation | None, error: type[AttnspecError]) -> tuple[str,
                                                                                           int]:
    match = SIZE.fullmatch(word)
    if match is None:
        raise error(f"{quote_value(word)} is not a size. Write an axis and a number, as in {EXAMPLE!r}.", where=where)
    if match[1] not in AXES:
        known = {name: AXIS_MEANINGS[name] for name in AXES}
        raise error(f"{quote_value(word)} of the sizes names no axis.{hint(match[1], known)}",
                    where=where)
    if int(match[2]) < 1:
        raise error(f"{quote_value(word)} of the sizes: no axis is shorter than 1.", where=where)
    return match[1], int(match[2])


def _wrong(lengths: Mapping[str, int]) -> str:
    """What is wrong with these sizes, after `the sizes … `; empty if nothing is."""
    heads, queries, keys = lengths["B"] * lengths["H"], lengths["T"], lengths["S"]
    if lengths["H"] % lengths["Hkv"]:
        return f"have {lengths['H']} query heads, which is not a multiple of {lengths['Hkv']} key/value heads."
    if heads > MOST_HEADS:
        return f"have {heads:,} head slices (B·H); at most {MOST_HEADS:,} are tested. Name fewer."
    if (entries := heads * queries * keys) > MOST_ENTRIES:
        return (f"have {entries:,} scores (B·H·T·S); at most {MOST_ENTRIES:,} are tested. "
                "Name a smaller batch.")
    if heads * (queries + keys) * max(lengths["D"], lengths["Dv"]) > MOST_ENTRIES:
        return (f"have more than {MOST_ENTRIES:,} entries of query, key and value. "
                "Name a smaller batch.")
    return ""


def spell_lengths(lengths: Mapping[str, int]) -> str:
    """`B4 H32 Hkv8 T2048 S2048 D128 Dv128`: the same text for the same sizes."""
    return " ".join(f"{axis}{lengths[axis]}" for axis in AXES)


def is_sizes(text: str) -> bool:
    """Whether a text is meant as sizes, and not as the path of a file."""
    return all(SIZE.fullmatch(word) for word in text.replace(",", " ").split())


def read_all(texts: Iterable[str]) -> tuple[str, ...]:
    """The sizes of these texts, each spelled the same way and once; any other text is a file of
    sizes.

    A file has one a line; empty lines and what follows a # count for nothing. Raises UsageError
    with file and line.
    """
    return tuple(dict.fromkeys(spell_lengths(lengths) for text in texts
                               for lengths in _read_text(text)))


def _read_text(text: str) -> Iterator[dict[str, int]]:
    if not text.strip():
        raise UsageError(f"no sizes are named. Write them as in {EXAMPLE!r}, "
                         "or name a file of them.")
    if is_sizes(text) or not _is_path(text):
        yield read_sizes(text)
        return
    file = Path(text)
    for number, line in enumerate(_lines(file), start=1):
        if words := line.partition("#")[0].strip():
            yield read_sizes(words, FileLocation(text, number))


def _is_path(text: str) -> bool:
    """Whether a text that holds other words than sizes is a path.

    The file exists, or the text is one word with a dot or a slash in it.
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
        raise UsageError(f"the sizes cannot be read: {reason}.",
                         where=FileLocation(str(file))) from None


def sizes_beside(lengths: Mapping[str, int]) -> dict[str, int]:
    """The lengths with one more query and one more key, past the end of whatever block they
    filled.

    One less where no recipe can have more; a single query stays one.
    """
    longer = _move_lengths(lengths, 1)
    return _move_lengths(lengths, -1) if _wrong(longer) else longer


def _move_lengths(lengths: Mapping[str, int], step: int) -> dict[str, int]:
    axes = ("T", "S") if lengths["T"] > 1 else ("S",)
    return {**lengths, **{axis: max(1, lengths[axis] + step) for axis in axes}}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a case costs.

    work: multiply-adds of the two products of a call.  seconds: for call and judgement, about.
    bytes: in judge and host together, without scores.  scores: bytes of one float32 array of
    scores; a subject may hold several.
    """

    work: int
    seconds: float
    bytes: float
    scores: int

    def __str__(self) -> str:
        """`1.4e+11 multiply-adds a call, 3.6 GB (2.1 of them one array of scores), about …`."""
        scores = f"{self.scores / 1e9:.1f}"
        of_scores = f" ({scores} of them one array of scores)" if float(scores) else ""
        memory = f"{(self.bytes + self.scores) / 1e9:.1f} GB{of_scores}"
        return (f"{self.work:.1e} multiply-adds a call, {memory}, "
                f"about {max(1, round(self.seconds))} s a case")


def estimate_cost(lengths: Mapping[str, int]) -> Cost:
    """About what a case of these sizes costs."""
    B, H, Hkv, T, S, D, Dv = (lengths[axis] for axis in AXES)
    scores, entries = B * H * T * S, B * (H * T + Hkv * S) * (D + Dv)
    work = scores * (D + Dv)
    return Cost(work, (work + _PER_SCORE * scores) / _PACE, _PER_ENTRY * entries + _AT_LEAST,
                4 * scores)


def foretell_costs(texts: Iterable[str], deadline: float) -> Iterator[str]:
    """What these sizes will cost, a line each, to be told before they are tried.

    One more line where an item may take longer than its deadline, in seconds.
    """
    seconds = 0.0
    for text in texts:
        each = estimate_cost(read_sizes(text))
        seconds += CASES * each.seconds
        yield f"sizes: {text}: {each}, up to {CASES} cases a clause"
    if seconds > deadline:
        yield f"sizes: a clause may take {seconds:.0f} s at them; the deadline of {deadline:g} s should be longer"


AXIS_MEANINGS: Mapping[str, str] = {
    "B": "batch", "H": "query heads", "Hkv": "key/value heads",
    "G": "query heads for each key/value head, H / Hkv",
    "T": "queries", "S": "keys", "D": "width of query and key", "Dv": "width of values"}
"""The axes that a condition may name. G follows from the others."""

LARGEST_SIZE = 2**14
"""The longest axis of any problem."""

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    ">": operator.gt, "<": operator.lt, "≥": operator.ge, "≤": operator.le, "≠": operator.ne,
    "=": operator.eq}
_SPELLED: Mapping[str, str] = {">=": "≥", "<=": "≤", "!=": "≠", "==": "="}
_SIZE = r"\d{1,7}"
_COMPARED = re.compile(rf"(?P<axis>\w+)\s*(?:%\s*(?P<step>{_SIZE}))?\s*(?P<sign>>=|<=|!=|==|[<>≥≤≠=])\s*(?P<than>\w+)",
                       re.ASCII | re.VERBOSE)
_LISTED = re.compile(rf"(?P<axis>\w+)\s+(?P<sign>not\s+in|in)\s+\((?P<than>{_SIZE}(?:\s*,\s*{_SIZE})*),?\)", re.ASCII)


@dataclass(frozen=True, slots=True)
class RefusalCondition:
    """A condition on sizes under which a call is refused.

    sign: a comparison with a number or another axis, or `in` and `not in`, with numbers. step: if
    it is more than 1, the remainder of the axis divided by it is compared.
    """

    axis: str
    sign: str
    than: int | str | tuple[int, ...]
    step: int = 1

    def holds_at(self, sizes: Mapping[str, int]) -> bool:
        """Whether the condition holds at these sizes, which have every axis."""
        size, limit = sizes[self.axis], self.than
        if self.step != 1:
            size %= self.step
        if isinstance(limit, tuple):
            return (size in limit) is (self.sign == "in")
        if isinstance(limit, str):
            limit = sizes[limit]
        return _COMPARISONS[self.sign](size, limit)

    @property
    def is_of_one_axis(self) -> bool:
        """Whether no other axis matters."""
        return not isinstance(self.than, str)

    def __str__(self) -> str:
        axis = self.axis if self.step == 1 else f"{self.axis} % {self.step}"
        if isinstance(self.than, tuple):
            return f"{axis} {self.sign} ({', '.join(map(str, self.than))})"
        return f"{axis} {self.sign} {self.than}"


@lru_cache(maxsize=4096)  # planning asks for the same few sizes thousands of times
def nearest_taken(size: int, refusals: tuple[RefusalCondition, ...], least: int = 1) -> int:
    """The nearest size, at least `least`, at which no condition holds; smaller ones first.

    The size itself where there is none up to LARGEST_SIZE away.
    """
    if not refusals:
        return size
    for distance in range(LARGEST_SIZE):
        for each in (size - distance, size + distance):
            if each >= least and not any(one.holds_at({one.axis: each}) for one in refusals):
                return each
    return size


@dataclass(frozen=True, slots=True)
class Refusal:
    """Problems that have all of these keywords and meet all of these conditions are not taken.

    without: unless they have all of these as well.
    """

    conditions: tuple[RefusalCondition, ...] = ()
    keywords: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()

    def meets(self, sizes: Mapping[str, int], keywords: Collection[str]) -> bool:
        """Whether a problem of these sizes, with all axes, and these keywords is refused."""
        has = set(keywords)
        is_spared = bool(self.without) and self.without <= has
        return (self.keywords <= has and not is_spared
                and all(each.holds_at(sizes) for each in self.conditions))

    def covers(self, other: Refusal) -> bool:
        """Whether it refuses all that another one refuses, by lengths of one axis, and more."""
        mine, its = self.single_condition, other.single_condition
        if not mine or not its or mine.axis != its.axis or self == other or self.without or other.without:
            return False
        lengths = ({mine.axis: length} for length in range(1, LARGEST_SIZE))
        return all(mine.holds_at(each) for each in lengths if its.holds_at(each))

    @property
    def single_condition(self) -> RefusalCondition | None:
        """The condition on one axis, if the refusal has no other and names no keyword."""
        if self.keywords or len(self.conditions) != 1 or not self.conditions[0].is_of_one_axis:
            return None
        return self.conditions[0]

    def __str__(self) -> str:
        keywords = " and ".join(sorted(self.keywords))
        conditions = " and ".join(map(str, self.conditions))
        exceptions = " and ".join(sorted(self.without))
        problems = " with ".join(filter(None, (keywords, conditions)))
        return " without ".join(filter(None, (problems, exceptions)))


def read_refusal(text: str) -> Refusal:
    """Reads a refusal.

    Raises UsageError that says which part is no keyword and no condition.
    """
    problems, *exceptions = re.split(r"\s+without\s+", text.strip())
    parts, exception_parts = (re.split(r"\s+(?:with|and)\s+", each)
                              for each in (problems, " and ".join(exceptions)))
    conditions = tuple(_condition(part) for part in parts if part not in OFF)
    return Refusal(conditions, frozenset(part for part in parts if part in OFF),
                   frozenset(_keyword(part) for part in exception_parts if part))


def _keyword(name: str) -> str:
    if name not in OFF:
        raise UsageError.unknown("keyword", name, OFF)
    return name


def _condition(text: str) -> RefusalCondition:
    if match := _LISTED.fullmatch(text):
        sign = "not in" if match["sign"] != "in" else "in"
        return RefusalCondition(_axis(match["axis"]), sign,
                                tuple(int(size) for size in match["than"].split(",")))
    match = _COMPARED.fullmatch(text)
    if match is None:
        if text.isidentifier():
            raise UsageError.unknown("keyword", text, OFF)
        raise UsageError(f"{text!r} is no condition on sizes. Write it as 'D > 256', 'T != S', 'D % 8 != 0' or "
                         "'D not in (64, 128)'.")
    than = int(match["than"]) if match["than"].isdecimal() else _axis(match["than"])
    if match["step"] and not int(match["step"]):
        raise UsageError(f"{text!r} divides by 0.")
    return RefusalCondition(_axis(match["axis"]), _SPELLED.get(match["sign"], match["sign"]), than,
                            int(match["step"] or 1))


def _axis(name: str) -> str:
    if name not in AXIS_MEANINGS:
        raise UsageError.unknown("axis", name, AXIS_MEANINGS)
    return name
