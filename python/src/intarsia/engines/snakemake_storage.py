"""Files of a store as storage of Snakemake, without a copy: `storage.intarsia("intarsia://…")`.

The store is mounted where jobs run. An input is a symbolic link to the file in the store; an output
is moved there when the job has made it, which is a change of its name alone where Snakemake's local
copies (`--local-storage-prefix`) lie in the same store.
"""

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Optional

from snakemake_interface_storage_plugins.common import Operation
from snakemake_interface_storage_plugins.io import (
    IOCacheStorageInterface,
    Mtime,
    get_constant_prefix,
)
from snakemake_interface_storage_plugins.storage_object import (
    StorageObjectGlob,
    StorageObjectRead,
    StorageObjectTouch,
    StorageObjectWrite,
)
from snakemake_interface_storage_plugins.storage_provider import (
    ExampleQuery,
    QueryType,
    StorageProviderBase,
    StorageQueryValidationResult,
)

from intarsia.engines.urls import PREFIX, path_of, require_store


class StorageProvider(StorageProviderBase):
    """What Snakemake asks of the store as a whole."""

    @classmethod
    def example_queries(cls) -> list[ExampleQuery]:
        """Return queries with what they mean."""
        return [
            ExampleQuery("intarsia:///mnt/work/a.txt", "the path /mnt/work/a.txt", QueryType.ANY),
            ExampleQuery("intarsia://a.txt", "a.txt below the mount INTARSIA_MOUNT", QueryType.ANY),
        ]

    def rate_limiter_key(self, query: str, operation: Operation) -> Any:
        """Return the same for all: nothing is limited."""
        return None

    def default_max_requests_per_second(self) -> float:
        """Return a rate, which is not used."""
        return 1e6

    def use_rate_limiter(self) -> bool:
        """Return False: a mount needs no limit."""
        return False

    @classmethod
    def is_valid_query(cls, query: str) -> StorageQueryValidationResult:
        """Say whether a query is a URL of ours."""
        if not query.startswith(PREFIX):
            reason = f"it does not begin with {PREFIX}"
        else:
            try:
                path_of(query)
            except ValueError as error:
                reason = str(error)
            else:
                return StorageQueryValidationResult(query, valid=True)
        return StorageQueryValidationResult(query, valid=False, reason=reason)


class StorageObject(StorageObjectRead, StorageObjectWrite, StorageObjectGlob, StorageObjectTouch):
    """A file or directory of a store."""

    @property
    def path(self) -> Path:
        """Where it lies in the mount."""
        return Path(os.path.normpath(path_of(self.query)))

    def local_suffix(self) -> str:
        """Return a path below Snakemake's local copies."""
        return str(self.path).lstrip("/")

    async def inventory(self, cache: IOCacheStorageInterface) -> None:
        """Note what one look at the file tells."""
        key = self.cache_key()
        if key in cache.exists_in_storage:
            return
        there = self.exists()
        cache.exists_in_storage[key] = there
        if there:
            cache.mtime[key] = Mtime(storage=self.mtime())
            cache.size[key] = self.size()

    def get_inventory_parent(self) -> Optional[str]:  # noqa: UP045 - as the interface has it
        """Return None: files are looked at one by one."""
        return None

    def cleanup(self) -> None:
        """Leave nothing: local copies are Snakemake's own."""

    def exists(self) -> bool:
        """Whether it is there. Raises FileNotFoundError for a path outside stores."""
        require_store(str(self.path))
        return self.path.exists()

    def mtime(self) -> float:
        """When it was changed, in seconds since 1970."""
        return self.path.stat().st_mtime

    def size(self) -> int:
        """Bytes of a file; 0 for a directory."""
        return 0 if self.path.is_dir() else self.path.stat().st_size

    def local_footprint(self) -> int:
        """Bytes that it takes among the local copies: none."""
        return 0

    def retrieve_object(self) -> None:
        """Make a link to it in place of a copy."""
        self._link()

    def store_object(self) -> None:
        """Move it from the local copies to the store, under its name only when it is whole."""
        require_store(str(self.path))
        local = self.local_path()
        if local.is_symlink():
            return  # it was never a copy
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        try:
            local.replace(self.path)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy(local)
        self._link()

    def remove(self) -> None:
        """Remove it from the store, and the link to it."""
        _remove(self.path)
        if self.local_path().is_symlink():
            self.local_path().unlink()

    def touch(self) -> None:
        """Give it the time of now. Raises FileNotFoundError."""
        os.utime(self.path)

    def list_candidate_matches(self) -> Iterable[str]:
        """Return the files that a query with wildcards may mean, as queries."""
        prefix = get_constant_prefix(self.query)
        start = Path(path_of(prefix if prefix.endswith("/") else prefix.rpartition("/")[0] + "/"))
        head = prefix.rpartition("/")[0]
        return sorted(
            f"{head}/{(Path(folder) / name).relative_to(start)}"
            for folder, _, names in os.walk(start)
            for name in names
        )

    def _copy(self, local: Path) -> None:
        beside = self.path.with_name(f".{self.path.name}.part")
        _remove(beside)
        if local.is_dir():
            shutil.copytree(local, beside)
        else:
            shutil.copyfile(local, beside)
        beside.replace(self.path)

    def _link(self) -> None:
        local = self.local_path()
        _remove(local)
        local.parent.mkdir(parents=True, exist_ok=True)
        local.symlink_to(self.path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
