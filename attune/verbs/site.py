"""The leaderboard site: built from recipes, and served on this machine for a look."""

from __future__ import annotations

from collections.abc import Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from attune.catalog.yaml_file import read_text
from attune.errors import AttuneError
from attune.recipe.files import load_recipe
from attune.report.site import BuiltSite, RecipeFile, build_site
from attune.verbs.recipe import recipes_in


def write_site(places: Sequence[Path], folder: Path) -> BuiltSite:
    """Pages of the recipes in those files and folders, or of the shipped ones.

    Raises:
        AttuneError: a file that is no recipe, or a folder that cannot be written.
        NothingFoundError: the places hold no recipe.
    """
    files = [
        RecipeFile(path=path, recipe=load_recipe(path), text=read_text(path))
        for path in recipes_in(places)
    ]
    return build_site(files, folder)


def site_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of a built site on the loopback; port 0 takes a free one.

    Raises:
        AttuneError: the folder holds no site, or the port is taken.
    """
    if not (folder / "index.html").is_file():
        raise AttuneError(f"{folder} holds no site; `attune site build -o {folder}` makes one")

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, format: str, *words: Any) -> None:
            pass

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Quiet)
    except OSError as error:
        words = f"cannot listen on 127.0.0.1:{port}: {error.strerror}"
        raise AttuneError(f"{words}; give another --port") from error
