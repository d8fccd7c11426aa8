"""The page of the ranges: each adapter with several releases of its library, as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attnspec.report.figures import escape_text, format_code, format_row

from evaluation.ranges.tried import Fate, Tried

_HEAD = """# Releases

Each adapter is judged with the oldest release, the newest and up to two between of the range that its manifest declares
(`versions`), each in an environment of its own, on a CPU. `python -m evaluation ranges` judges it at effort glance, at
one dtype (float32 where it takes it), keeps the results in `reports/ranges/tried.jsonl` and writes this page. It does
not repeat a trial whose result is known.

An adapter **works** with a release if it answers all that its manifest says it takes, and if each `must` clause that
fails is one that a finding of the library explains for this release. "Answers five inputs" means that it has been put
the inputs of `attnspec smoke` with that release, and has not been judged yet.

A release outside of the range is refused, and the message names the release and the range. If an adapter itself fails
with a release, the message is "cannot be judged with this release"; that does not count as a failure of the library.
"""
_ENDS = ("oldest", "earlier", "later", "newest")
_UNJUDGED_YET = "answers five inputs"
_MARKS = {Fate.WORKS: "works", Fate.NOT_TESTED: "not tested", Fate.NOT_INSTALLED: "not installed",
          Fate.UNJUDGED: "**cannot be judged**", Fate.FAILS: "**the library fails**", Fate.REFUSED: "**refused**"}


def ranges_page(tried: Iterable[Tried], ranges: Mapping[str, Sequence[str]]) -> str:
    """The page. ranges: by library the versions that its manifest declares, for all that declare some; several where
    some of its adapters need others.
    """
    known = [each for each in tried if each.library in ranges]
    by_library = {library: [each for each in known if each.library == library] for library in ranges}
    lines = [_HEAD, _summary(known, ranges, by_library), "", "## Libraries", "",
             format_row(["library", "range", *_ENDS]), format_row(["---"] * (2 + len(_ENDS)))]
    lines += [format_row([escape_text(library), ", ".join(map(format_code, ranges[library])),
                          *(_of_library(each, end) for end in _ENDS)]) for library, each in by_library.items()]
    lines += ["", "## Adapters", "", format_row(["adapter", *_ENDS]), format_row(["---"] * (1 + len(_ENDS)))]
    subjects = sorted({each.subject for each in known})
    lines += [format_row([format_code(subject), *(_cell(known, subject, end) for end in _ENDS)])
              for subject in subjects]
    return "\n".join([*lines, *_reasons(known)]) + "\n"


def _summary(known: Sequence[Tried], ranges: Collection[str], by_library: Mapping[str, Sequence[Tried]]) -> str:
    run = [each for each in known if each.fate not in (Fate.NOT_TESTED, Fate.NOT_INSTALLED)]
    judged = [each for each in run if _is_judged(each)]
    works = sum(each.fate is Fate.WORKS for each in judged)
    both = sum(set(_ENDS[::3]) <= {each.end for each in tried if each in run} for tried in by_library.values())
    return (f"{len(judged)} of {len(run)} trials were judged at a glance; {works} of these work. Both ends were tried "
            f"of {both} of the {len(ranges)} libraries that declare a range.")


def _is_judged(tried: Tried) -> bool:
    """Whether more than five inputs were put to it, or it could not be judged at all."""
    return bool(tried.effort) or tried.fate in (Fate.UNJUDGED, Fate.REFUSED)


def _mark(tried: Tried) -> str:
    return _UNJUDGED_YET if tried.fate is Fate.WORKS and not tried.effort else _MARKS[tried.fate]


def _of_library(tried: Sequence[Tried], end: str) -> str:
    """`1.0.31: 8 of 8 work`, or why nothing was tried."""
    there = [each for each in tried if each.end == end]
    if not there:
        return "not run yet" if end in _ENDS[::3] else ""
    by_recipe: dict[str, list[Tried]] = {}
    for each in there:
        by_recipe.setdefault(each.recipe, []).append(each)
    return "; ".join(map(_of_recipe, by_recipe.values()))


def _of_recipe(tried: Sequence[Tried]) -> str:
    first, good = tried[0], [each for each in tried if each.fate is Fate.WORKS]
    if not first.release:
        return _MARKS[first.fate]
    verb = "answer five inputs" if good and not any(each.effort for each in good) else "work"
    return f"{first.release}, Python {first.python}: {len(good)} of {len(tried)} {verb}; {format_code(first.recipe)}"


def _cell(tried: Sequence[Tried], subject: str, end: str) -> str:
    found = next((each for each in tried if (each.subject, each.end) == (subject, end)), None)
    if found is None:
        return "not run yet" if end in _ENDS[::3] else ""
    return f"{found.release}: {_mark(found)}" if found.release else _mark(found)


def _reasons(tried: Iterable[Tried]) -> list[str]:
    """Why what does not work does not; adapters of one library that say the same share a line."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for each in tried:
        if each.fate is not Fate.WORKS:
            name = each.subject.removeprefix(f"{each.library}/")
            found.setdefault((each.library, each.end, each.words), []).append(name)
    if not found:
        return []
    return ["", "## Reasons", "", format_row(["library", "end", "adapters", "reason"]), format_row(["---"] * 4),
            *(format_row([escape_text(library), end, ", ".join(map(format_code, names)), escape_text(words)])
              for (library, end, words), names in found.items())]
