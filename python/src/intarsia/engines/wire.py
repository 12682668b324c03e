"""`intarsia://` where there is no mount: files over HTTP, from `intarsia.engines.serve`."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile
from fsspec.utils import stringify_path

from intarsia.engines.urls import path_of, token_file
from intarsia.locate import Located, Locations

_TIMEOUT_S = 60
# The server ends a connection that was idle for long; then it is asked again, once.
_LOST = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class _Connection(http.client.HTTPConnection):
    """One that is closed when its thread, or its file system, goes."""

    def __del__(self) -> None:
        self.close()


class WireFileSystem(AbstractFileSystem):
    """Files that a server on a host of the store has.

    `server` is its address and port; `token` what its token file holds, else that of
    INTARSIA_TOKEN, or of `~/.intarsia-token` here. Paths are those on the server's host. With
    `auto_mkdir` directories are made as they are needed. Errors of the server are raised as OSError
    with its errno.
    """

    protocol: ClassVar[str] = "intarsia"
    root_marker = "/"

    def __init__(
        self, server: str, token: str | None = None, auto_mkdir: bool = False, **options: Any
    ) -> None:
        super().__init__(**options)
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"server {server!r}: write HOST:PORT, as the server says it")
        self._address = (host, int(port))
        self._token = token or os.environ.get("INTARSIA_TOKEN") or _token_here()
        self._auto_mkdir = auto_mkdir
        self._connections = threading.local()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, (list, set, tuple)):
            return type(path)(cls._strip_protocol(one) for one in path)
        return "/" + path_of(stringify_path(path)).strip("/")

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Say what is at a path."""
        found: dict[str, Any] = self._ask("GET", path, {"op": "info"})
        return found | {"name": self._strip_protocol(path)}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List a directory, or the file itself."""
        found = self.info(path)
        entries = (
            [found] if found["type"] != "directory" else self._ask("GET", path, {"op": "list"})
        )
        return entries if detail else [entry["name"] for entry in entries]

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Make a directory."""
        if self.exists(path):
            raise FileExistsError(path)
        self._ask("POST", path, {"op": "mkdir"} | _parents(create_parents))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory and those above it."""
        if not exist_ok and self.exists(path):
            raise FileExistsError(path)
        self._ask("POST", path, {"op": "mkdir"} | _parents(True))

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        self._ask("DELETE", path)

    def _rm(self, path: str) -> None:
        self._ask("DELETE", path)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy a file at the server."""
        if self.isdir(path1):
            return self.makedirs(path2, exist_ok=True)
        to = self._strip_protocol(path2)
        self._ask("POST", path1, {"op": "copy", "to": to} | _parents(self._auto_mkdir))
        return None

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        """Rename a file or a directory."""
        self.mv_file(path1, path2)

    def mv_file(self, path1: str, path2: str, **_: Any) -> None:
        """Rename a file."""
        self._ask("POST", path1, {"op": "move", "to": self._strip_protocol(path2)})

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        """Make an empty file, or set the time of one; `truncate` empties it."""
        if truncate:
            self.write_at(path, 0, b"")
        else:
            self._ask("POST", path, {"op": "touch"} | _parents(self._auto_mkdir))

    def modified(self, path: str) -> Any:
        """Return the time of the last change, in seconds since 1970."""
        return self.info(path)["mtime"]

    def locate(self, paths: str | Iterable[str]) -> Locations:
        """Say where files lie."""
        names = [paths] if isinstance(paths, str) else list(paths)
        asked = [self._strip_protocol(name) for name in names]
        said = self._ask("POST", "/", {"op": "locate"}, json.dumps(asked).encode())
        return Locations(tuple(Located(name, *one) for name, one in zip(asked, said, strict=True)))

    def read_at(self, path: str, start: int, end: int) -> bytes:
        """Read the bytes from `start` up to `end`; fewer at the end of the file."""
        if start >= end:
            return b""
        found: bytes = self._send("GET", path, {"Range": f"bytes={start}-{end - 1}"}, b"", {})
        return found

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        """Write bytes of a file; at 0 it is made, or emptied before."""
        self._ask("PUT", path, {"at": str(offset)} | _parents(self._auto_mkdir), content)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> Any:
        """Read a file, or the bytes from `start` up to `end`, which may be counted from its end."""
        size = self.info(path)["size"]
        first, last, _step = slice(start, end).indices(size)
        return self.read_at(path, first, last)

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **options: Any) -> Any:
        if "x" in mode and self.exists(path):
            raise FileExistsError(path)
        size = 4 << 20 if block_size in (None, "default") else block_size
        return WireFile(self, path, mode, size, **options)

    def _ask(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str] = MappingProxyType({}),
        body: bytes = b"",
    ) -> Any:
        return json.loads(self._send(verb, path, {}, body, query))

    def _send(
        self, verb: str, path: str, headers: dict[str, str], body: bytes, query: Mapping[str, str]
    ) -> Any:
        name = self._strip_protocol(path)
        target = quote(name) + ("?" + urlencode(query) if query else "")
        headers = headers | {"Authorization": f"Bearer {self._token}"}
        for is_last in (False, True):
            connection = self._connection()
            try:
                connection.request(verb, target, body or None, headers)
                answer = connection.getresponse()
                content = answer.read()
            except _LOST:
                connection.close()
                if is_last:
                    raise
                continue
            except OSError as error:
                connection.close()
                where = "{}:{}".format(*self._address)
                raise OSError(error.errno, f"the server at {where}: {error}", name) from error
            break
        if answer.status >= 300:
            said = json.loads(content or b"{}")
            raise OSError(said.get("errno", 5), said.get("error", answer.reason), name)
        return content

    def _connection(self) -> _Connection:
        """The connection of this thread and process."""
        kept = getattr(self._connections, "kept", None)
        if kept is None or kept[0] != os.getpid():
            kept = (os.getpid(), _Connection(*self._address, timeout=_TIMEOUT_S))
            self._connections.kept = kept
        connection: _Connection = kept[1]
        return connection


class WireFile(AbstractBufferedFile):
    """An open file, read ahead and written in blocks."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        content: bytes = self.fs.read_at(self.path, start, end)
        return content

    def _initiate_upload(self) -> None:
        self._at = 0
        if "a" in self.mode and self.fs.exists(self.path):
            self._at = self.fs.info(self.path)["size"]
        else:
            self.fs.write_at(self.path, 0, b"")

    def _upload_chunk(self, final: bool = False) -> bool:
        content = self.buffer.getvalue()
        if content:
            self.fs.write_at(self.path, self._at, content)
            self._at += len(content)
        return True


def _parents(wanted: bool) -> dict[str, str]:
    return {"parents": "1"} if wanted else {}


def _token_here() -> str:
    path = token_file()
    try:
        return path.read_text().strip()
    except OSError:
        raise ValueError(
            f"no token: give token=, set INTARSIA_TOKEN, or copy the server's file to {path}"
        ) from None
