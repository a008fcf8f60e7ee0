"""Sphinx: the pages of this folder, and references made from docstrings and from the comments of the schema.

`make docs` builds them. Diagrams are drawn in the browser by Mermaid where its script was fetched; without it they are
shown as they are written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes

from pgtasker import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent

project = "pgtasker"
author = "the pgtasker developers"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "pgtasker"
html_show_copyright = False
html_static_path = ["_static"]
html_extra_path = ["llms.txt"]
myst_heading_anchors = 4
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
suppress_warnings = [
    "misc.highlighting_failure",  # psql's own commands, which no lexer for SQL knows
    "myst.xref_missing",  # links to files of the repository; the tests follow them all
]


def draw_mermaid(app: Sphinx, doctree: nodes.document) -> None:
    """Leave the drawing of Mermaid's blocks to its script."""
    if app.builder.format != "html" or not (HERE / "_static" / "mermaid.min.js").exists():
        return
    for block in list(doctree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            text = block.astext().replace("&", "&amp;").replace("<", "&lt;")
            block.replace_self(nodes.raw("", f'<pre class="mermaid">{text}</pre>', format="html"))


def title_sql(app: Sphinx, docname: str, source: list[str]) -> None:
    """What `pgtasker sql api` prints is a list of functions; here it is a page."""
    if docname == "reference/sql":
        source[0] = f"# Every SQL function\n\n## Functions\n\n{source[0]}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-read", draw_mermaid)
    app.connect("source-read", title_sql)
    if (HERE / "_static" / "mermaid.min.js").exists():
        app.add_js_file("mermaid.min.js")
        app.add_js_file(None, body="mermaid.initialize({startOnLoad: true});")
    return {"parallel_read_safe": True}
