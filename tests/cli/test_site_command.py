from __future__ import annotations

import threading
import urllib.request

import pytest

from attune.errors import AttuneError
from attune.recipe.library import recipe_files
from attune.verbs.site import site_server


def test_build_and_serve_on_the_loopback(attune, tmp_path):
    answer = attune("site", "build", recipe_files()[0], "-o", tmp_path / "site")
    assert answer.code == 0 and "1 recipes on 1 boards" in answer.out.replace("\n", "")
    with site_server(tmp_path / "site") as server:
        assert server.server_address[0] == "127.0.0.1"
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/", timeout=60) as page:
            assert b"Training recipes" in page.read()
        thread.join(60)


def test_no_site_no_recipe_and_a_taken_port(attune, tmp_path):
    with pytest.raises(AttuneError, match="attune site build"):
        site_server(tmp_path)
    assert attune("site", "build", tmp_path).code == 1
    (tmp_path / "index.html").write_text("x")
    with (
        site_server(tmp_path) as first,
        pytest.raises(AttuneError, match="give another --port"),
    ):
        site_server(tmp_path, first.server_port)
