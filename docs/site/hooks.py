"""What the site has beside the pages of docs/: the README as its first page, and the audit, which its search finds.

A link to what lies outside of docs/ leads nowhere on a site: its words stay, and the path of a file is named.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

CHECKOUT = Path(__file__).parents[2]
AUDIT = CHECKOUT / "reports" / "audit" / "index.html"
AUDIT_LINK, AUDIT_PAGE = "reports/audit/index.html", "audit.html"
_ENTRY = re.compile(r'<details class="entry[^>]* id="(?P<anchor>[^"]+)".*?<span class="title">(?P<title>.*?)<span '
                    r'class="meta">(?P<meta>.*?)</span>', re.DOTALL)
_LINE = re.compile(r'<th scope="row" id="(?P<anchor>subject-\d+)" data-k="(?P<title>[^"]+)">(?P<meta>.*?)</th>',
                   re.DOTALL)
_LINK = re.compile(r"(?P<image>!?)\[(?P<words>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README, its links as they are from docs/, and the audit."""
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=readme))
    files.append(File.generated(config, AUDIT_PAGE, abs_src_path=str(AUDIT)))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """The page without links that leave the site."""
    folder = PurePosixPath("docs", page.file.src_uri).parent

    def keep_or_unlink(link: re.Match[str]) -> str:
        target = link["target"]
        if link["image"] or "://" in target or target.startswith(("#", "mailto:")):
            return link[0]
        place = _resolve_target(folder, target.partition("#")[0])
        if str(place) == AUDIT_LINK:
            return f"[{link['words']}]({'../' * (len(folder.parts) - 1)}{AUDIT_PAGE})"
        if place.parts[:1] == ("docs",) and files.get_file_from_path(str(PurePosixPath(*place.parts[1:]))):
            return link[0]
        return link["words"]

    return _LINK.sub(keep_or_unlink, markdown)


@event_priority(-100)  # after the search has written its index
def on_post_build(config: MkDocsConfig) -> None:
    """Have the site's search find the implementations and findings of the audit, too."""
    path = Path(config.site_dir, "search", "search_index.json")
    index = json.loads(path.read_text(encoding="utf-8"))
    index["docs"] += _searchable_parts(AUDIT.read_text(encoding="utf-8"))
    path.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


def _searchable_parts(page: str) -> Iterator[dict[str, str]]:
    """The page itself, which the search wants first, then a part for each implementation and finding."""
    yield {"location": AUDIT_PAGE, "title": "The audit", "text": ""}
    yield {"location": f"{AUDIT_PAGE}#table", "title": "The audit", "text": "What attention layers really do"}
    for part in (*_LINE.finditer(page), *_ENTRY.finditer(page)):
        yield {"location": f"{AUDIT_PAGE}#{part['anchor']}", "title": _without_tags(part["title"]),
               "text": _without_tags(part["meta"])}


def _without_tags(source: str) -> str:
    return html.escape(html.unescape(re.sub(r"<[^>]*>", " ", source)), quote=False).strip()


def _resolve_target(folder: PurePosixPath, target: str) -> PurePosixPath:
    """The path from the checkout's root that a link on a page of this folder leads to."""
    parts = list(folder.parts)
    for part in PurePosixPath(target).parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return PurePosixPath(*parts)
