"""Hook of mkdocs: the pages of the repository's root become pages of the site, and links are rewritten to match.

    make docs

README.md is the site's first page. A link to a file that is no page, such as a source file, becomes plain text.
"""

import posixpath
import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
ROOT_PAGES: Final = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "DECISIONS.md", "SECURITY.md")
FENCED_BLOCK: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>[^]]*)\]\((?P<path>[^)#:]+)(?P<anchor>#[^)]*)?\)")


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Add the pages of the repository's root."""
    for name in ROOT_PAGES:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page."""
    del config, files
    folder = "" if page.file.src_uri in ROOT_PAGES else "docs"
    parts = FENCED_BLOCK.split(markdown)
    return "".join(part if part.startswith("```") else with_links_of_site(part, folder) for part in parts)


def with_links_of_site(text: str, folder: str) -> str:
    """Return text of a page in a folder of the repository with links as the site has them."""

    def rewritten(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link["path"]))
        if target not in ROOT_PAGES and not target.startswith("docs/"):
            return link["text"] if (ROOT / target).exists() else link[0]
        in_site = target.removeprefix("docs/")
        return f"{link['image']}[{link['text']}]({in_site}{link['anchor'] or ''})"

    return LINK.sub(rewritten, text)
