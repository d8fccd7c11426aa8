"""Completion in bash, which breaks words at colons, as in path/to/file.py:function; click's own does not mend that.

The words are put together again before they are completed, and what bash already has of one is left out of the answer.
"""

from __future__ import annotations

import os

from click.shell_completion import BashComplete, CompletionItem, add_completion_class

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
    """Completes words that hold a colon, and escapes the * of a pattern."""

    source_template = _SOURCE
    _kept = ""  # what bash has of the word, up to its last colon
    _star = r"\*"

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is typed, and what there is of that."""
        args, incomplete = super().get_completion_args()
        if os.environ["COMP_WORDS"].rpartition("\n")[2].startswith(("'", '"')):
            self._star = "*"
        words = rejoined([*args, incomplete])
        if not incomplete and args:  # a new word, even after a colon
            words = [*rejoined(args), ""]
        self._kept = words[-1][:words[-1].rfind(":") + 1]
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem) -> str:
        """`plain,attend` for `mine.py:attend`, of which bash has `mine.py:`."""
        return f"{item.type},{item.value.removeprefix(self._kept).replace('*', self._star)}"


def rejoined(words: list[str]) -> list[str]:
    """The words as they were typed: `mine.py`, `:`, `attend` is one."""
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


def offer() -> None:
    """Let click answer bash by it."""
    add_completion_class(Bash)
