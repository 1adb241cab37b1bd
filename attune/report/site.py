"""The leaderboard: static pages of a folder of recipes, which need no server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from attune.recipe.layouts import layout_of
from attune.recipe.ranking import Board, Ranked, rank
from attune.recipe.schema import Recipe
from attune.report.html import copy_assets, templates, write_page
from attune.report.recipe import facts_of
from attune.report.words import say
from attune.trial.result import Provenance

if TYPE_CHECKING:
    from jinja2 import Environment
    from rich.console import Console

_TITLE = "Training recipes"
_LONGEST = 40_000
"""Characters of YAML on a page, so that it stays quick to open."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeFile:
    """A recipe and the text of its file."""

    path: Path
    recipe: Recipe
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltSite:
    """What was written."""

    folder: Path
    recipes: int
    boards: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """A recipe on its board."""

    name: str
    """Of its page, without ending."""
    key: str
    """Path of its page in the site, without ending."""
    place: int | None
    provenance: Provenance
    recipe: Recipe
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pages:
    """A board and the names of its pages."""

    model: str
    gpu: str
    folder: str
    rows: tuple[_Row, ...]

    @property
    def href(self) -> str:
        """Its page in the site."""
        return f"{self.folder}/index.html"

    @property
    def best(self) -> _Row | None:
        """The fastest that ran."""
        return next((row for row in self.rows if row.place == 1), None)


def build_site(files: Sequence[RecipeFile], folder: Path, title: str = _TITLE) -> BuiltSite:
    """Writes index, boards, recipe pages, YAML files and the compare view into `folder`.

    Raises:
        AttuneError: the folder cannot be written.
    """
    texts = {file.path: file.text for file in files}
    boards = list(_named(rank((file.path, file.recipe) for file in files), texts))
    pages = templates()
    copy_assets(folder / "assets")
    index = pages.get_template("site_index.html")
    write_page(
        folder / "index.html",
        index.render(title=title, assets="assets", boards=boards, recipes=len(files)),
    )
    choices = [
        (row.key, f"{board.model}, {board.gpu}: {row.name}")
        for board in boards
        for row in board.rows
    ]
    compare = pages.get_template("site_compare.html")
    write_page(
        folder / "compare.html",
        compare.render(title=f"Compare: {title}", assets="assets", choices=choices),
    )
    for board in boards:
        _write_board(pages, folder, board, boards)
    return BuiltSite(folder=folder, recipes=len(files), boards=len(boards))


def _named(boards: Sequence[Board], texts: dict[Path, str]) -> Iterator[_Pages]:
    taken: set[str] = set()
    for board in boards:
        folder = _free(f"{_slug(board.model)}/{_slug(board.gpu)}", taken)
        rows = tuple(_row(ranked, folder, taken, texts[ranked.path]) for ranked in board.ranked)
        yield _Pages(model=board.model, gpu=board.gpu, folder=folder, rows=rows)


def _row(ranked: Ranked, folder: str, taken: set[str], text: str) -> _Row:
    key = _free(f"{folder}/{_slug(ranked.path.stem)}", taken)
    return _Row(
        name=key.rpartition("/")[2],
        key=key,
        place=ranked.place,
        provenance=ranked.provenance,
        recipe=ranked.recipe,
        text=text,
    )


def _slug(text: str) -> str:
    """A plain file name; `index` is the board's own."""
    slug = re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:80] or "unnamed"
    return f"{slug}-recipe" if slug == "index" else slug


def _free(name: str, taken: set[str]) -> str:
    """The name, numbered where another recipe or board has it."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free)
    return free


def _write_board(pages: Environment, folder: Path, board: _Pages, boards: Sequence[_Pages]) -> None:
    place = folder / board.folder
    words = {"root": "../../", "assets": "../../assets", "board": board}
    others = [b for b in boards if b.model == board.model and b is not board]
    title = f"Training {board.model} on {board.gpu}"
    page = pages.get_template("site_board.html")
    write_page(place / "index.html", page.render(title=title, others=others, **words))
    template = pages.get_template("site_recipe.html")
    for row in board.rows:
        recipe = row.recipe
        text = template.render(
            title=f"{recipe.layout.label}: {recipe.model} on {recipe.gpu.type}",
            row=row,
            facts=list(facts_of(recipe)),
            stack=list(recipe.stack.model_dump(exclude_none=True).items()),
            environment="\n".join(f"export {name}={value}" for name, value in recipe.env.items()),
            text=_shown(row.text),
            **words,
        )
        write_page(place / f"{row.name}.html", text)
        write_page(place / f"{row.name}.yaml", row.text)
        write_page(folder / f"{row.key}.js", _data(row))


def _shown(text: str) -> str:
    """The YAML on the page; of a very long file the start, as the whole can be downloaded."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n... (download the whole)"


def _data(row: _Row) -> str:
    """The facts that the compare view shows, as a script: a browser fetches no data from a file."""
    recipe = row.recipe
    layout = layout_of(recipe)
    values = {"provenance": row.provenance, **dict(facts_of(recipe))}
    values |= {f"layout: {f.name}": str(getattr(layout, f.name)) for f in fields(layout)}
    values |= {f"environment: {name}": value for name, value in recipe.env.items()}
    stack = recipe.stack.model_dump(exclude_none=True)
    values |= {f"stack: {name}": str(value) for name, value in stack.items()}
    return f"attuneRecipe({json.dumps(row.key)}, {json.dumps(values)});\n"


def draw_site(built: BuiltSite, console: Console) -> None:
    """Where the pages are."""
    say(console, f"{built.recipes} recipes on {built.boards} boards: {built.folder / 'index.html'}")
