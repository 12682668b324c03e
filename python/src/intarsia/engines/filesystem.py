"""`intarsia://`: a store as a file system of fsspec, by its mount, or over the wire without one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, ClassVar

from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import _Cached
from fsspec.utils import stringify_path

from intarsia.engines.urls import is_mounted, path_of, require_store, server_of
from intarsia.engines.wire import WireFileSystem
from intarsia.locate import Locations, locate


class _ByMountOrWire(_Cached):
    """Makes a `WireFileSystem` where the files are to come from a server."""

    def __call__(self, *arguments: Any, server: str | None = None, **options: Any) -> Any:
        if server is None and not is_mounted():
            server = os.environ.get("INTARSIA_SERVER")
        if server is not None:
            return WireFileSystem(server, *arguments, **options)
        options.pop("token", None)
        return super().__call__(*arguments, **options)


class IntarsiaFileSystem(LocalFileSystem, metaclass=_ByMountOrWire):
    """Files of a store, through its mount; without one, from a server that has one.

    `intarsia:///mnt/work/a` is the path `/mnt/work/a`; `intarsia://a` is `a` below the mount that
    the environment variable INTARSIA_MOUNT names. Files outside a store are refused.
    `intarsia://node01:7700/mnt/work/a`, or `server="node01:7700"`, is `/mnt/work/a` as the server
    there has it, and so is `intarsia:///mnt/work/a` where no store is mounted and INTARSIA_SERVER
    names one. What is made then is a `WireFileSystem`.
    """

    protocol: ClassVar[str] = "intarsia"

    @property
    def fsid(self) -> str:
        """Name of this kind of file system, for fsspec."""
        return "intarsia"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        server = server_of(path)
        return {} if server is None else {"server": server}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, (list, set, tuple)):
            return type(path)(cls._strip_protocol(one) for one in path)
        return super()._strip_protocol(path_of(stringify_path(path)))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        name = self._strip_protocol(path)
        require_store(name)
        return super()._open(name, mode, **options)

    def touch(self, path: str, truncate: bool = True, **options: Any) -> None:
        """Make an empty file, or set the time of one; `truncate` empties it."""
        require_store(self._strip_protocol(path))
        super().touch(path, truncate=truncate, **options)

    def put_file(self, path1: str, path2: str, callback: Any = None, **options: Any) -> None:
        """Copy the local file `path1` to `path2` in the store."""
        require_store(self._strip_protocol(path2))
        super().put_file(path1, path2, callback=callback, **options)

    def locate(self, paths: str | Iterable[str]) -> Locations:
        """Say where files lie; `paths` as fsspec takes them, with or without `intarsia://`."""
        names = [paths] if isinstance(paths, str) else paths
        return locate(self._strip_protocol(name) for name in names)
