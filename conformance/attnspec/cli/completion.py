"""Completes what is typed in a shell, and explains the words that clauses are written with.

Neither imports NumPy or a framework: the words come from the generated schema. What a completion reads is imported
where a shell asks for it: most commands need none of that.
"""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from attnspec.core.conventions import PROFILES
from attnspec.core.errors import AttnspecError, FileLocation, SpecError
from attnspec.core.paths import folder
from attnspec.core.plan import FAULT, SOUND

if TYPE_CHECKING:
    from attnspec.spec.clause import Clause, Spec

WORD_PLACES: Mapping[str, str] = {
    "transform": "a transform, written under `runs`",
    "relation": "a relation, written under `then`",
    "draw": "a drawn value, named under `given: draw:`"}
"""What a word of each kind is, and where a clause has it."""

MOST_EXAMPLES = 4
"""Clauses that are named as examples."""

LINE_WIDTH = 100


class VocabularyWord(NamedTuple):
    """A word of clauses. schema: the JSON schema of its arguments, with descriptions."""

    name: str
    kind: str
    schema: Mapping[str, Any]


def list_vocabulary() -> Iterator[VocabularyWord]:
    """Yields every word. Raises SpecError if the schema has not been written."""
    path = folder("spec") / "schema.json"
    if not path.is_file():
        raise SpecError("there is no such file. Write it: attnspec schema --write.",
                        where=FileLocation(str(path)))
    definitions = json.loads(path.read_text(encoding="utf-8"))["$defs"]
    for kind in ("transform", "relation"):
        for name, word in _words_of_definition(definitions[kind]):
            yield VocabularyWord(name, kind, word)
    for draw in definitions["given"]["properties"]["draw"]["additionalProperties"]["oneOf"]:
        yield VocabularyWord(draw["const"], "draw", {"description": draw["description"]})


def _words_of_definition(definition: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The words of a definition with their arguments, from its object form."""
    forms = definition.get("anyOf", [definition])
    return [pair for form in forms for pair in form.get("properties", {}).items()]


def explain_word(word: VocabularyWord, law: Spec) -> Iterator[str]:
    """Explains a word: what it does, its arguments, and some clauses that use it."""
    yield f"{word.name}  ({WORD_PLACES[word.kind]})\n"
    yield textwrap.indent(str(word.schema["description"]), "  ")
    properties, required = word.schema.get("properties", {}), word.schema.get("required", ())
    if properties:
        yield "\narguments:"
    for name, hint in properties.items():
        yield from wrap_paragraph(f"{name}: {_argument(hint, is_required=name in required)}")
    using = [clause.id for clause in law.clauses if word.name in _list_words_of(clause)]
    more = f" and {len(using) - MOST_EXAMPLES} more" if len(using) > MOST_EXAMPLES else ""
    if using:
        yield f"\nclauses that use it: {', '.join(using[:MOST_EXAMPLES])}{more}"


def wrap_paragraph(text: str) -> list[str]:
    """Breaks a paragraph of an explanation into lines."""
    return textwrap.wrap(text, LINE_WIDTH, initial_indent="  ", subsequent_indent="    ",
                         break_long_words=False)


def _list_words_of(clause: Clause) -> frozenset[str]:
    steps = (word for words in clause.runs.values() for word in words)
    return frozenset((*(word.name for word in (*clause.then, *steps)), *clause.draw.values()))


def _argument(hint: Mapping[str, Any], *, is_required: bool) -> str:
    form = _describe_form(hint)
    if "default" in hint:
        return f"{form}, {hint['default']} by default"
    return form if is_required else f"{form}, may be left out"


def _describe_form(hint: Mapping[str, Any]) -> str:
    """Says in words which values an argument takes."""
    if "enum" in hint:
        names = ", ".join(map(str, hint["enum"]))
        return f"one of {names}" if len(hint["enum"]) > 1 else names
    if "anyOf" in hint:
        return " or ".join(_describe_form(each)
                           for each in hint["anyOf"] if each.get("type") != "null")
    if hint.get("type") == "array":
        forms = dict.fromkeys(map(_describe_form, hint.get("prefixItems") or [hint["items"]]))
        return f"a list, each {' or '.join(forms)}"
    span = [f"{word} {hint[key]:g}"
            for key, word in (("minimum", "from"), ("maximum", "to")) if key in hint]
    return " ".join((str(hint.get("description") or hint.get("const") or hint.get("type")), *span))


_SOURCE = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o plusdirs ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value"); [[ $value == *: ]] && compopt -o nospace ;;
        esac
    done < <(IFS=$'\\n'; COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1")
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """Completes words with a colon, at which bash breaks them, and escapes the * of a pattern."""

    source_template = _SOURCE
    _kept_prefix = ""  # what bash has of the word, up to its last colon
    _star = r"\*"

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is being typed, and that one."""
        args, incomplete = super().get_completion_args()
        if os.environ["COMP_WORDS"].rpartition("\n")[2].startswith(("'", '"')):
            self._star = "*"
        words = rejoin_words([*args, incomplete])
        if not incomplete and args:  # a new word, even after a colon
            words = [*rejoin_words(args), ""]
        self._kept_prefix = words[-1][:words[-1].rfind(":") + 1]
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem) -> str:
        """`plain,attend` for `mine.py:attend`, if bash has typed `mine.py:`."""
        return f"{item.type},{item.value.removeprefix(self._kept_prefix).replace('*', self._star)}"


def rejoin_words(words: list[str]) -> list[str]:
    """Joins words that bash has broken at colons: `mine.py`, `:`, `attend` is one."""
    joined: list[str] = []
    is_open = False
    for word in words:
        is_colon = bool(word) and not word.strip(":")
        if joined and (is_colon or is_open):
            joined[-1] += word
        else:
            joined.append(word)
        is_open = is_colon
    return joined


def offer_words() -> None:
    """Has click complete for bash with the class above."""
    add_completion_class(Bash)


MOST_FILES_READ = 20  # files of a folder that are read for the names of their functions
Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completer(names: Callable[[click.Context, str], Iterable[str | CompletionItem]]) -> Completer:
    """Makes a completer of what yields names; mistakes in manifests or the spec yield none."""
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            items = [CompletionItem(name) if isinstance(name, str) else name
                     for name in names(ctx, incomplete)]
        except (AttnspecError, OSError):
            return []
        return [item for item in items if item.type == "dir" or item.value.startswith(incomplete)]

    return complete


def _complete_targets(ctx: click.Context, incomplete: str) -> Iterator[str | CompletionItem]:
    from attnspec.subjects.outline import file_of_module, public_functions  # noqa: PLC0415  (weight: a shell asks, and no command)

    module, colon, _ = incomplete.rpartition(":")
    if colon:
        file = Path(module) if module.endswith(".py") else file_of_module(module)
        yield from (f"{module}:{name}" for name in (public_functions(file) if file else ()))
        return
    yield CompletionItem(incomplete, type="dir")
    yield from _complete_functions(incomplete)
    yield from _complete_ids(ctx, incomplete)
    yield from _complete_own(ctx, incomplete)


def _complete_functions(incomplete: str) -> Iterator[str]:
    """Yields the functions of the files being typed; of many files, only the paths."""
    from attnspec.subjects.outline import public_functions  # noqa: PLC0415  (weight: a shell asks, and no command)

    folder, slash, start = incomplete.rpartition("/")
    files = sorted(Path(folder + slash or ".").glob(f"{start}*.py"))
    for file in files:
        names = public_functions(file) if len(files) <= MOST_FILES_READ else [""]
        for name in names:
            yield f"{folder}{slash}{file.name}:{name}"


def _complete_ids(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from attnspec.subjects.registry import registered_subjects  # noqa: PLC0415  (weight: a shell asks, and no command)

    library, slash, _ = incomplete.partition("/")
    return registered_subjects(ctx.params.get("implementations") or (),
                               library=library if slash else "")


def _complete_own(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """Yields attnspec's own implementations: each fault once a fault is being typed."""
    if incomplete.startswith(FAULT):
        yield from (FAULT + name for name in _complete_faults(ctx, ""))
    yield from (f"{FAULT}*", f"{SOUND}*")


def _complete_clauses(ctx: click.Context, _: str) -> Iterator[str]:
    from attnspec.spec.clause import themes_of  # noqa: PLC0415  (weight: a shell asks, and no command)

    ids = [clause.id for clause in _load_completed_spec(ctx).clauses]
    yield from themes_of(ids)
    yield from ids


def _complete_faults(ctx: click.Context, _: str) -> Iterable[str]:
    from attnspec.faults.witnesses import all_faults  # noqa: PLC0415  (weight: a shell asks, and no command)
    from attnspec.spec.clause import read_refutations  # noqa: PLC0415  (weight: a shell asks, and no command)

    law = _load_completed_spec(ctx)
    return all_faults(law, read_refutations(law))


def _load_completed_spec(ctx: click.Context) -> Spec:
    from attnspec.spec.load import load_spec  # noqa: PLC0415  (weight: a shell asks, and no command)

    return load_spec(ctx.params.get("spec") or "", ctx.params.get("spec_add") or ())


def _complete_libraries(ctx: click.Context, _: str) -> Iterable[str]:
    from attnspec.subjects.manifest import library_folders  # noqa: PLC0415  (weight: a shell asks, and no command)

    return (folder.name for folder in library_folders(ctx.params.get("implementations") or ()))


targets = _completer(_complete_targets)
clauses = _completer(_complete_clauses)
explainable = _completer(lambda ctx, start: (
    *_complete_clauses(ctx, start), *(word.name for word in list_vocabulary()),
    *_complete_faults(ctx, start)))
profiles = _completer(lambda _ctx, _start: PROFILES)
libraries = _completer(_complete_libraries)
