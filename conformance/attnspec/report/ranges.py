"""The page of the ranges: each adapter with the oldest and the newest release of its library, as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attnspec.record.tried import Fate, Tried
from attnspec.report.markdown import code, plain, row

_HEAD = """# Releases

Each adapter was tried with the oldest and the newest release of the range that its manifest declares (`versions`),
each in an environment of its own, on a CPU. An adapter works with a release if it gives the right answers to the five
inputs of `attnspec smoke` and to the example of `attention.worked_example`; if it is a rotary embedding, to a few cases
of `rotary.definition`. `attnspec ranges` tries the adapters, keeps the results in `reports/ranges/tried.jsonl` and
writes this page. It does not repeat a trial whose result is known.

A release outside of the range is refused, and the message names the release and the range. If an adapter itself fails
with a release, the message is "cannot be judged with this release"; that does not count as a failure of the library.
"""
_MARKS = {Fate.WORKS: "works", Fate.NOT_TESTED: "not tested", Fate.NOT_INSTALLED: "not installed",
          Fate.UNJUDGED: "**cannot be judged**", Fate.FAILS: "**the library fails**", Fate.REFUSED: "**refused**"}


def ranges_page(tried: Iterable[Tried], ranges: Mapping[str, Sequence[str]]) -> str:
    """The page. ranges: by library the versions that its manifest declares, for all that declare some; several where
    some of its adapters need others.
    """
    known = [each for each in tried if each.library in ranges]
    by_library = {library: [each for each in known if each.library == library] for library in ranges}
    lines = [_HEAD, _summary(known, ranges, by_library), "", "## Libraries", "",
             row(["library", "range", "oldest", "newest"]), row(["---"] * 4)]
    lines += [row([plain(library), ", ".join(map(code, ranges[library])),
                   *(_of_library(each, end) for end in ("oldest", "newest"))]) for library, each in by_library.items()]
    lines += ["", "## Adapters", "", row(["adapter", "oldest", "newest"]), row(["---"] * 3)]
    subjects = sorted({each.subject for each in known})
    lines += [row([code(subject), *(_cell(known, subject, end) for end in ("oldest", "newest"))])
              for subject in subjects]
    return "\n".join([*lines, *_reasons(known)]) + "\n"


def _summary(known: Sequence[Tried], ranges: Collection[str], by_library: Mapping[str, Sequence[Tried]]) -> str:
    run = [each for each in known if each.fate not in (Fate.NOT_TESTED, Fate.NOT_INSTALLED)]
    works = sum(each.fate is Fate.WORKS for each in run)
    both = sum({each.end for each in tried if each in run} == {"oldest", "newest"} for tried in by_library.values())
    return (f"{works} of {len(run)} trials work. Both ends were tried of {both} of the {len(ranges)} libraries that "
            "declare a range.")


def _of_library(tried: Sequence[Tried], end: str) -> str:
    """`1.0.31: 8 of 8 work`, or why nothing was tried."""
    there = [each for each in tried if each.end == end]
    if not there:
        return "not run yet"
    by_recipe: dict[str, list[Tried]] = {}
    for each in there:
        by_recipe.setdefault(each.recipe, []).append(each)
    return "; ".join(map(_of_recipe, by_recipe.values()))


def _of_recipe(tried: Sequence[Tried]) -> str:
    first, works = tried[0], sum(each.fate is Fate.WORKS for each in tried)
    if not first.release:
        return _MARKS[first.fate]
    return f"{first.release}, Python {first.python}: {works} of {len(tried)} work; {code(first.recipe)}"


def _cell(tried: Sequence[Tried], subject: str, end: str) -> str:
    found = next((each for each in tried if (each.subject, each.end) == (subject, end)), None)
    if found is None:
        return "not run yet"
    return f"{found.release}: {_MARKS[found.fate]}" if found.release else _MARKS[found.fate]


def _reasons(tried: Iterable[Tried]) -> list[str]:
    """Why what does not work does not; adapters of one library that say the same share a line."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for each in tried:
        if each.fate is not Fate.WORKS:
            name = each.subject.removeprefix(f"{each.library}/")
            found.setdefault((each.library, each.end, each.words), []).append(name)
    if not found:
        return []
    return ["", "## Reasons", "", row(["library", "end", "adapters", "reason"]), row(["---"] * 4),
            *(row([plain(library), end, ", ".join(map(code, names)), plain(words)])
              for (library, end, words), names in found.items())]
