//! What is under test, as a client sees it: names below one directory, and a clock.

use std::fs::{File, OpenOptions, ReadDir};
use std::io::{Read, Result, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::closing::close;
use crate::event::{self, Instant};

/// A file system and a clock. Each method is one system call, or a few of the same kind.
pub trait System {
    /// An open file.
    type File;
    /// What is left of a listing; each step is one call.
    type Listing: Iterator<Item = Result<String>>;

    /// Now, on the clock of all clients.
    fn now(&self) -> Instant;
    /// Does nothing for so long.
    fn sleep(&self, duration: Duration);
    /// Opens to write, made if it is not there and emptied if it is.
    ///
    /// # Errors
    /// As `open(2)`.
    fn open_to_write(&self, name: &str) -> Result<Self::File>;
    /// Makes a file that is not there, and opens it to write.
    ///
    /// # Errors
    /// As `open(2)`.
    fn create_new(&self, name: &str) -> Result<Self::File>;
    /// Opens to read.
    ///
    /// # Errors
    /// As `open(2)`.
    fn open(&self, name: &str) -> Result<Self::File>;
    /// Reads on.
    ///
    /// # Errors
    /// As `read(2)`.
    fn read(&self, file: &mut Self::File, buffer: &mut [u8]) -> Result<usize>;
    /// Writes on.
    ///
    /// # Errors
    /// As `write(2)`.
    fn write_all(&self, file: &mut Self::File, bytes: &[u8]) -> Result<()>;
    /// Closes and says how that went.
    ///
    /// # Errors
    /// As `close(2)`.
    fn close(&self, file: Self::File) -> Result<()>;
    /// Removes a name.
    ///
    /// # Errors
    /// As `unlink(2)`.
    fn remove(&self, name: &str) -> Result<()>;
    /// Renames.
    ///
    /// # Errors
    /// As `rename(2)`.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Gives a file a second name.
    ///
    /// # Errors
    /// As `link(2)`.
    fn link(&self, from: &str, to: &str) -> Result<()>;
    /// The size of a file.
    ///
    /// # Errors
    /// As `stat(2)`.
    fn size(&self, name: &str) -> Result<u64>;
    /// Begins to list a directory.
    ///
    /// # Errors
    /// As `opendir(3)`.
    fn list(&self, directory: &str) -> Result<Self::Listing>;
}

/// A directory of this machine.
pub(crate) struct Directory {
    root: PathBuf,
}

impl Directory {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl System for Directory {
    type File = File;
    type Listing = Names;

    fn now(&self) -> Instant {
        event::now()
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn open_to_write(&self, name: &str) -> Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(self.path(name))
    }

    fn create_new(&self, name: &str) -> Result<File> {
        File::create_new(self.path(name))
    }

    fn open(&self, name: &str) -> Result<File> {
        File::open(self.path(name))
    }

    fn read(&self, file: &mut File, buffer: &mut [u8]) -> Result<usize> {
        file.read(buffer)
    }

    fn write_all(&self, file: &mut File, bytes: &[u8]) -> Result<()> {
        file.write_all(bytes)
    }

    fn close(&self, file: File) -> Result<()> {
        close(file)
    }

    fn remove(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.path(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        std::fs::hard_link(self.path(from), self.path(to))
    }

    fn size(&self, name: &str) -> Result<u64> {
        std::fs::metadata(self.path(name)).map(|meta| meta.len())
    }

    fn list(&self, directory: &str) -> Result<Names> {
        std::fs::read_dir(self.path(directory)).map(Names)
    }
}

/// The names that are left of a directory.
pub(crate) struct Names(ReadDir);

impl Iterator for Names {
    type Item = Result<String>;
    fn next(&mut self) -> Option<Result<String>> {
        let entry = self.0.next()?;
        Some(entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
    }
}
