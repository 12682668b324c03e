"""Files of a store for programs on hosts that have no mount of it: the serving side of `intarsia://`.

One process on a host with a mount answers over HTTP for what lies below it, with the rights of the
user who runs it, for those who know the token. `intarsia.engines.wire` asks.

    GET    PATH                  bytes, those of `Range` if there is one
    GET    PATH?op=info|list     what is there, as JSON
    PUT    PATH?at=BYTES         write the body there; at 0 the file is emptied before
    POST   PATH?op=mkdir|touch|move|copy[&to=PATH][&parents=1]
    POST   ?op=locate            where the files lie that the body lists as JSON
    DELETE PATH                  a file or an empty directory

What fails answers with JSON: `errno` and `error`.
"""

from __future__ import annotations

import argparse
import errno
import hmac
import json
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from intarsia.engines.urls import token_file
from intarsia.locate import host_of, locate

#: Bytes that are moved at a time.
PIECE = 1 << 20
_BODY_MAX = 64 << 20
_STATUS = {
    errno.ENOENT: 404,
    errno.EACCES: 403,
    errno.EPERM: 403,
    errno.EEXIST: 409,
    errno.ENOTEMPTY: 409,
    errno.ENOSPC: 507,
}


def told(path: str, name: str) -> dict[str, Any]:
    """What is said of a path, under `name`. Raises OSError."""
    about = os.stat(path)  # noqa: PTH116 - there may be thousands
    kind = "directory" if stat.S_ISDIR(about.st_mode) else "file"
    if not stat.S_ISDIR(about.st_mode) and not stat.S_ISREG(about.st_mode):
        kind = "other"
    size = about.st_size if kind == "file" else 0
    return {"name": name, "size": size, "type": kind, "mtime": about.st_mtime}


class Answers(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    server: Server
    # A reader that is gone keeps no thread.
    timeout = 60
    # Heads and bodies are sent one after the other.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Bytes, or what is there."""
        self._answer(self._get)

    def do_PUT(self) -> None:
        """Bytes of a file."""
        self._answer(self._put)

    def do_POST(self) -> None:
        """What changes names."""
        self._answer(self._post)

    def do_DELETE(self) -> None:
        """A name goes."""
        self._answer(self._delete)

    def log_message(self, *_: Any) -> None:
        """Nothing: there are as many requests as reads."""

    def _answer(self, work: Any) -> None:
        self._left = int(self.headers.get("Content-Length") or 0)
        try:
            given = self.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
                raise PermissionError(errno.EACCES, "the token is not that of this server")
            split = urlsplit(self.path)
            asked = {name: values[0] for name, values in parse_qs(split.query).items()}
            said = work(unquote(split.path), asked)
            if said is not None:
                self._say(200, json.dumps(said).encode())
        except OSError as error:
            self._fail(error.errno or errno.EIO, error.strerror or str(error))
        except ValueError as error:
            self._fail(errno.EINVAL, str(error))

    def _fail(self, number: int, why: str) -> None:
        # Who is still sending would not read the answer.
        while 0 < self._left <= _BODY_MAX and (piece := self.rfile.read(min(PIECE, self._left))):
            self._left -= len(piece)
        self.close_connection = self._left > 0
        text = json.dumps({"errno": number, "error": why}).encode()
        self._say(_STATUS.get(number, 400), text)

    def _say(self, status: int, text: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def _get(self, path: str, asked: dict[str, str]) -> Any:
        real = self._real(path)
        if asked.get("op") == "info":
            return told(real, path)
        if asked.get("op") == "list":
            names = sorted(os.listdir(real))  # noqa: PTH208 - names alone
            return [found for name in names if (found := self._listed(real, path, name))]
        with open(real, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            start, end = _range_of(self.headers.get("Range"), size)
            self.send_response(206)
            self.send_header("Content-Length", str(end - start))
            self.end_headers()
            if start < end and self.connection.sendfile(file, start, end - start) < end - start:
                # It was cut meanwhile: what was promised cannot be kept.
                self.close_connection = True
        return None

    def _listed(self, real: str, path: str, name: str) -> dict[str, Any] | None:
        try:
            return told(f"{real}/{name}", f"{path.rstrip('/')}/{name}")
        except FileNotFoundError:
            # It went meanwhile, or is a link that leads nowhere.
            return None

    def _put(self, path: str, asked: dict[str, str]) -> Any:
        at = int(asked.get("at", "0"))
        real = self._real(path, asked.get("parents") == "1")
        flags = os.O_WRONLY | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if at == 0 else 0)
        descriptor = os.open(real, flags, 0o666)
        try:
            while self._left:
                piece = self.rfile.read(min(PIECE, self._left))
                if not piece:
                    raise ConnectionError(errno.ECONNRESET, "the body ended too soon")
                self._left -= len(piece)
                while piece:
                    written = os.pwrite(descriptor, piece, at)
                    at, piece = at + written, piece[written:]
        finally:
            os.close(descriptor)
        return {"size": at}

    def _post(self, path: str, asked: dict[str, str]) -> Any:
        operation = asked.get("op")
        if operation == "locate":
            return [
                [file.size_bytes, dict(file.bytes_by_host), file.is_everywhere, file.problem]
                for file in locate(self._real(name) for name in json.loads(self._body())).files
            ]
        parents = asked.get("parents") == "1"
        real = self._real(path, parents)
        if operation == "mkdir":
            os.makedirs(real, exist_ok=True) if parents else os.mkdir(real)  # noqa: PTH102, PTH103
        elif operation == "touch":
            descriptor = os.open(real, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            os.utime(descriptor)
            os.close(descriptor)
        elif operation in ("move", "copy"):
            other = self._real(asked.get("to", ""), parents)
            os.replace(real, other) if operation == "move" else shutil.copyfile(real, other)  # noqa: PTH105
        else:
            raise ValueError(
                f"op={operation}: there are info, list, mkdir, touch, move, copy, locate"
            )
        return {}

    def _delete(self, path: str, _: dict[str, str]) -> Any:
        real = self._real(path)
        os.rmdir(real) if os.path.isdir(real) else os.unlink(real)  # noqa: PTH106, PTH108, PTH112
        return {}

    def _body(self) -> bytes:
        if self._left > _BODY_MAX:
            raise ValueError(f"a body of more than {_BODY_MAX} bytes")
        body = self.rfile.read(self._left)
        self._left = 0
        return body

    def _real(self, path: str, makes_parents: bool = False) -> str:
        """The path without links; refused where it leads out of what is served."""
        real = os.path.realpath(path)
        root = self.server.root
        if real != root and not real.startswith(root.rstrip("/") + "/"):
            raise PermissionError(errno.EACCES, f"{path} is not below {root}, which is served here")
        if makes_parents:
            os.makedirs(os.path.dirname(real), exist_ok=True)  # noqa: PTH103, PTH120
        return real


def _range_of(header: str | None, size: int) -> tuple[int, int]:
    """Return the first byte that is asked for and the one after the last.

    >>> _range_of("bytes=3-5", 10), _range_of("bytes=3-99", 10), _range_of(None, 10)
    ((3, 6), (3, 10), (0, 10))
    """
    if header is None:
        return 0, size
    first, _, last = header.removeprefix("bytes=").partition("-")
    start = min(int(first), size)
    return start, max(start, min(int(last) + 1, size) if last else size)


class Server(ThreadingHTTPServer):
    """Serves what is below `root`."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], root: str, token: str) -> None:
        self.root, self.token = os.path.realpath(root), token
        super().__init__(address, Answers)


def token_in(path: Path) -> str:
    """Return the token in a file, which is made for its user alone where there is none."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if path.stat().st_mode & 0o077:
            raise PermissionError(
                errno.EACCES, f"{path} can be read by others; chmod 600 {path}"
            ) from None
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        token = secrets.token_urlsafe(32)
        file.write(token + "\n")
    return token


def main(words: Sequence[str] | None = None) -> int:
    """Serve until it is ended."""
    parser = argparse.ArgumentParser(
        prog="python -m intarsia.engines.serve",
        description="Serve files of a store to programs on hosts that have no mount of it.",
        epilog="example: python -m intarsia.engines.serve /mnt/work --listen 10.0.0.1:7700",
    )
    parser.add_argument("root", help="a directory of a store: what is below it is served")
    parser.add_argument("--listen", default="127.0.0.1:0", help="address and port (%(default)s)")
    parser.add_argument("--token-file", type=Path, default=token_file(), help="(%(default)s)")
    arguments = parser.parse_args(words)
    host, _, port = arguments.listen.rpartition(":")
    try:
        if host_of(arguments.root) is None:
            parser.error(f"{arguments.root} lies in no store; 'intarsia status' lists their mounts")
        server = Server((host, int(port)), arguments.root, token_in(arguments.token_file))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    where = "{}:{}".format(*server.server_address[:2])
    print(f"serving {server.root} at {where}; token in {arguments.token_file}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
