"""MkDocs' hooks: the README is the home page, files outside ``docs/`` that pages link to become pages, the pages of the
reference are made from the navigation, and formulas become MathML.

So every link that works in a checkout, and on a site that renders one, works here too, without a network and without
the address of a repository.
"""

from __future__ import annotations

import ast
import html
import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
HOME = "README.md"
LINK = re.compile(r"\]\(([^)\s#:]+)((?:#[^)\s]*)?)\)")
LANGUAGES = {".py": "python", ".toml": "toml", ".txt": "text"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in ``docs/``."""
    named = _places(config.nav)
    for place in named:
        if place.startswith("reference/"):
            module = PurePosixPath(place).name.removesuffix(".md")
            content = f"# {module.removeprefix('constrained_maxent.')}\n\n::: {module}\n"
            files.append(File.generated(config, place, content=content))
    files.append(File.generated(config, "index.md", content=(ROOT / HOME).read_text(encoding="utf-8")))
    # A page that is added may link to further ones.
    waiting, seen = [file.src_uri for file in files.documentation_pages()], set[str]()
    while waiting:
        uri = waiting.pop()
        if uri in seen or uri.startswith("reference/"):
            continue
        seen.add(uri)
        if (place := _uri(_source(uri))) not in files.src_uris:
            inclusion = InclusionLevel.INCLUDED if place in named else InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, place, content=_shown(_source(uri)), inclusion=inclusion))
        if (source := ROOT / _source(uri)).suffix == ".md":
            waiting += [_uri(target) for target in _targets(source.read_text(encoding="utf-8"), uri)]
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Let links lead to where the site has their targets."""

    def moved(match: re.Match[str]) -> str:
        target = _target(match, page.file.src_uri)
        if target is None:
            return match[0]
        return f"]({relpath(_uri(target), str(PurePosixPath(page.file.src_uri).parent))}{match[2]})"

    return LINK.sub(moved, markdown)


def on_page_content(html_text: str, **_: Any) -> str:
    """Let browsers set the formulas, which needs no script."""
    html_text = re.sub(
        r'<span class="arithmatex">\\\((.*?)\\\)</span>',
        lambda match: _formula(match[1], "inline"),
        html_text,
        flags=re.DOTALL,
    )
    return re.sub(
        r'<div class="arithmatex">\\\[(.*?)\\\]</div>',
        lambda match: _formula(match[1], "block"),
        html_text,
        flags=re.DOTALL,
    )


def on_post_page(output: str, *, page: Page, **_: Any) -> None:
    """Let no page of the reference lack a public name.

    Raises:
        PluginError: one is missing, as it has no docstring.
    """
    if not page.file.src_uri.startswith("reference/"):
        return
    module = PurePosixPath(page.file.src_uri).name.removesuffix(".md")
    path = ROOT / module.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    missing = [name for name in public_names(source) if f'id="{module}.{name}"' not in output]
    if missing:
        raise PluginError(f"The page of {module} lacks {', '.join(missing)}: has it a docstring?")


def public_names(source: Path) -> list[str]:
    """What ``__all__`` of a module has, its modules left out; without one, all classes and functions."""
    body = ast.parse(source.read_text(encoding="utf-8")).body
    for statement in body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(statement.value)
            return [name for name in names if not _is_module(source.parent / name)]
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [part.name for part in body if isinstance(part, kinds) and not part.name.startswith("_")]


def _is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").is_file()


def _places(nav: Any) -> list[str]:
    """All files of the navigation."""
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav or []
    return [place for entry in entries for place in _places(entry)]


def _source(uri: str) -> str:
    """Where the text of a page is, from the root of the repository."""
    if uri == "index.md":
        return HOME
    if not uri.startswith("repository/"):
        return f"docs/{uri}"
    path = uri.removeprefix("repository/")
    return path if (ROOT / path).exists() else path.removesuffix(".md")


def _uri(path: str) -> str:
    """The page of a file; the inverse of ``_source``."""
    if path == HOME:
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


def _target(match: re.Match[str], uri: str) -> str | None:
    path = normpath(PurePosixPath(_source(uri)).parent / match[1])
    return path if (ROOT / path).is_file() else None  # what is missing MkDocs names itself


def _targets(text: str, uri: str) -> list[str]:
    """The texts that a page links to."""
    found = [_target(match, uri) for match in LINK.finditer(text)]
    return [path for path in found if path is not None and Path(path).suffix in (".md", *LANGUAGES)]


def _shown(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    return f"# {path}\n\n````{LANGUAGES[Path(path).suffix]}\n{text}````\n"


def _formula(latex: str, display: str) -> str:
    return convert(html.unescape(latex).strip(), display=display)
