"""`intarsia://`: a store's mount as a file system of fsspec."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import stringify_path

from intarsia.engines.urls import path_of, require_store
from intarsia.locate import Locations, locate


class IntarsiaFileSystem(LocalFileSystem):
    """Files of a store, through its mount.

    `intarsia:///mnt/work/a` is the path `/mnt/work/a`; `intarsia://a` is `a` below the mount that
    the environment variable INTARSIA_MOUNT names. Files outside a store are refused.
    """

    protocol: ClassVar[str] = "intarsia"

    @property
    def fsid(self) -> str:
        """Name of this kind of file system, for fsspec."""
        return "intarsia"

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
