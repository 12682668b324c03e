"""A page that shows a run while it goes on: tasks, hosts, bytes, and what waits for what."""

from __future__ import annotations

import json
import threading
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

import jinja2

from intarsia.run.events import ClusterError
from intarsia.units import bytes_text

_HERE = "127.0.0.1"


class LivePage:
    """Serves the page as long as it is open; `show` and `close` are of one thread."""

    def __init__(self, address: str) -> None:
        """Listen at `address`, `[HOST:]PORT`; 0 is any free port. Raises ClusterError."""
        host, _, port = address.rpartition(":")
        self._picture: dict[str, Any] = {}
        handler = partial(_Handler, self)
        try:
            self._server = ThreadingHTTPServer((host or _HERE, int(port)), handler)
        except (OSError, OverflowError) as error:
            raise ClusterError(
                f"--live {address}: {error}; give another port, or 0 for any that is free"
            ) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/"

    @property
    def picture(self) -> dict[str, Any]:
        """What is shown now; nothing before the first update."""
        return self._picture

    def show(self, picture: dict[str, Any]) -> None:
        """Show another picture, which nobody changes any more: threads of the server read it."""
        self._picture = picture

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, page: LivePage, *rest: Any) -> None:
        self._page = page
        super().__init__(*rest)

    def do_GET(self) -> None:
        """Answer with the page, or with what it shows as JSON."""
        picture = self._page.picture
        if self.path == "/state.json":
            self._answer(200, "application/json", json.dumps(picture))
        elif self.path == "/":
            self._answer(200, "text/html; charset=utf-8", page_of(picture))
        else:
            self._answer(404, "text/plain", "there are / and /state.json\n")

    def log_message(self, *_: Any) -> None:
        """Keep silent: standard error is the run's."""

    def _answer(self, status: int, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)


def page_of(picture: dict[str, Any]) -> str:
    """Return the page that shows a picture, or that there is none yet."""
    return _template().render(run=picture)


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["size"] = bytes_text
    source = (files("intarsia.run") / "live.html.j2").read_text(encoding="utf-8")
    return environment.from_string(source)
