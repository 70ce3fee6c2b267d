"""Pages of the site that are made, not written: the reference of each package, the changelog, how to contribute."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "holdfast"
PACKAGES = {
    "training": "Training",
    "data": "Data",
    "models": "Models",
    "losses": "Losses",
    "mining": "Miners",
    "gradients": "Direct gradients",
    "attacks": "Attacks",
    "regimes": "Regimes",
    "metrics": "Metrics",
    "audit": "Audit",
    "search": "Search",
    "report": "Report",
}
BESIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
MADE = {
    "build": "`build(name, **arguments)` makes a member by name; arguments are checked as in a recipe.",
    "names": "`names()` lists the members.",
    "register": "`@register(name)` adds a class, or a function that returns one.",
    "registry": "`registry` holds the members by name.",
}
"""Made by `holdfast.config.builder` for each family, so that they have no docstring of their own."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    pages = {"changelog.md": _of_the_root("CHANGELOG.md"), "contributing.md": _of_the_root("CONTRIBUTING.md")}
    pages["api/index.md"] = "# Python\n\nThe names that `import holdfast` offers.\n\n" + "\n".join(_top())
    for package, title in PACKAGES.items():
        pages[f"api/{package}.md"] = f"# {title}\n\n" + "\n".join(_package(package))
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files beside docs/ lead to the pages made of them."""
    for name, target in BESIDE.items():
        markdown = markdown.replace(f"](../{name})", f"]({target})")
    return markdown


def _of_the_root(name: str) -> str:
    """A page beside docs/, its links as seen from inside."""
    return (ROOT / name).read_text("utf-8").replace("](docs/", "](")


def _top() -> Iterator[str]:
    for package, title in PACKAGES.items():
        yield f"- [`holdfast.{package}`]({package}.md): {title.lower()}"
    yield "\n::: holdfast.evaluation.evaluate\n\n::: holdfast.errors.HoldfastError"


def _package(package: str) -> Iterator[str]:
    """What the package offers, then every member that recipes know by name."""
    folder = SOURCE / package
    tree = ast.parse((folder / "__init__.py").read_text("utf-8"))
    yield f"{ast.get_docstring(tree)}\n"
    made = _made(tree)
    offered = _offered(tree)
    yield "\n".join(f"- {MADE[name]}" for name in offered if name in made)
    for name in offered:
        if name not in made:
            yield f"\n::: holdfast.{package}.{name}"
    members = sorted(pair for file in folder.rglob("*.py") for pair in _registered(file))
    if members:
        yield "\n## By name\n"
    for name, path in members:
        shown = f"{{heading: '{name}', toc_label: '{name}', heading_level: 3, members: false}}"
        yield f"\n::: {path}\n    options: {shown}"


def _made(tree: ast.Module) -> set[str]:
    """Names that come from the family's registry: assigned here, or imported from beside it."""
    assigned = {
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }
    return set(MADE) & (assigned | {"register", "registry"})


def _offered(tree: ast.Module) -> list[str]:
    """What `__all__` holds, in however many statements it is written."""
    return [
        name
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AugAssign))
        and any(isinstance(part, ast.Name) and part.id == "__all__" for part in ast.walk(node))
        for name in ast.literal_eval(node.value)
    ]


def _registered(file: Path) -> Iterator[tuple[str, str]]:
    """(name, path) of what a file registers."""
    module = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)
    for node in ast.parse(file.read_text("utf-8")).body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and decorator.args and isinstance(decorator.args[0], ast.Constant):
                called = decorator.func.id if isinstance(decorator.func, ast.Name) else ""
                if called.startswith("register"):
                    yield str(decorator.args[0].value), f"{module}.{node.name}"
