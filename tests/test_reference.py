"""Every public name has a docstring, every public module a page of the reference, every error an entry of its own.

Sources are read, not imported, so that names that need Ray or Stable-Baselines3 count as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "constrained_maxent"


def source_of(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def listed(module: str) -> list[str] | None:
    """``__all__`` of a module, if it has one."""
    for statement in ast.parse(source_of(module).read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return list(ast.literal_eval(statement.value))
    return None


def public_modules(parent: str = "constrained_maxent") -> Iterator[str]:
    """What ``__all__`` of a package names of modules, and packages in packages that have an ``__all__``."""
    folder = source_of(parent).parent
    inner = [path.parent.name for path in folder.glob("*/__init__.py")] if parent != "constrained_maxent" else []
    for name in sorted({*(listed(parent) or ()), *inner}):
        module = f"{parent}.{name}"
        if source_of(module).is_file():
            if module != "constrained_maxent.adapters":  # of modules alone
                yield module
            if source_of(module).name == "__init__.py":
                yield from public_modules(module)


MODULES = list(public_modules())


def public_names(module: str) -> list[str]:
    names = listed(module)
    if names is not None:
        return [name for name in names if not source_of(f"{module}.{name}").is_file()]
    body = ast.parse(source_of(module).read_text()).body
    return [part.name for part in body if isinstance(part, DEFINITIONS) and not part.name.startswith("_")]


DEFINITIONS = (ast.ClassDef, ast.FunctionDef)


def docstring(module: str, name: str) -> str | None:
    """Of a class or function; of anything else, the string below it; wherever the module has the name from."""
    tree = ast.parse(source_of(module).read_text())
    for block in [tree.body, *(part.body for part in tree.body if isinstance(part, ast.If))]:
        for statement, below in zip(block, [*block[1:], None], strict=True):
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    if (alias.asname or alias.name) == name:
                        return docstring(statement.module or "", alias.name)
            if isinstance(statement, DEFINITIONS) and statement.name == name:
                return ast.get_docstring(statement)
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                is_string = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                return str(below.value.value) if is_string else None
    raise AssertionError(f"{module} has no {name}")


def test_there_are_modules() -> None:
    assert {"constrained_maxent.agents.policies", "constrained_maxent.adapters.sb3", "constrained_maxent.tracker"} <= {
        *MODULES
    }


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_docstring(module: str) -> None:
    assert ast.get_docstring(ast.parse(source_of(module).read_text()))
    assert [name for name in public_names(module) if not (docstring(module, name) or "").strip()] == []


def test_every_public_module_has_a_page_of_the_reference() -> None:
    """That a page shows all public names of its module is looked at where the pages are built, by ``make docs``."""
    pages = re.findall(r"^ +- reference/(.*)\.md$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    assert sorted(pages) == sorted(MODULES)


def test_every_error_and_warning_has_its_entry_among_the_troubles() -> None:
    tree = ast.parse((PACKAGE / "errors.py").read_text())
    classes = [part.name for part in tree.body if isinstance(part, ast.ClassDef)]
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    entries = re.split(r"^### (\w+)\n", text, flags=re.MULTILINE)
    assert len(classes) > 30
    assert entries[1::2] == classes  # in the order of the file
    assert all(len(entry.split()) >= 5 for entry in entries[2::2])
