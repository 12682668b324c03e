//! What is to be copied: the sources as a list, directories before what is in them.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::Error;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use super::Failed;

/// One thing to be copied.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) source: PathBuf,
    /// Where it goes, relative to the destination.
    pub(crate) path: PathBuf,
    pub(crate) meta: Metadata,
    pub(crate) what: What,
}

/// What kind of thing it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum What {
    Directory,
    File,
    Symlink(PathBuf),
    /// Another name of the file that goes to this path.
    HardLink(PathBuf),
}

/// Everything to be copied, and what cannot be.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) items: Vec<Item>,
    pub(crate) failed: Vec<Failed>,
    /// Where files with several names were met first, by device and inode.
    first_names: HashMap<(u64, u64), PathBuf>,
}

impl Tree {
    /// Walks the sources. `SOURCE` becomes `DEST/NAME`; of a source that ends in `.`, `..` or `/` alone
    /// its content goes straight into the destination, as with `cp`.
    pub(crate) fn of(sources: &[PathBuf]) -> Self {
        let mut tree = Self::default();
        for source in sources {
            match name_of(source) {
                Some(name) => tree.add(source, &name),
                None => tree.descend(source, Path::new("")),
            }
        }
        tree
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files().map(|item| item.meta.len()).sum()
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.what == What::File)
    }

    fn add(&mut self, source: &Path, path: &Path) {
        let meta = match std::fs::symlink_metadata(source) {
            Ok(meta) => meta,
            Err(e) => return self.failed.push(Failed::new(source, &e)),
        };
        let what = match self.classify(source, path, &meta) {
            Ok(what) => what,
            Err(e) => return self.failed.push(Failed::new(source, &e)),
        };
        let is_directory = what == What::Directory;
        self.items.push(Item { source: source.to_owned(), path: path.to_owned(), meta, what });
        if is_directory {
            self.descend(source, path);
        }
    }

    fn classify(&mut self, source: &Path, path: &Path, meta: &Metadata) -> Result<What, Error> {
        let kind = meta.file_type();
        if kind.is_dir() {
            return Ok(What::Directory);
        }
        if kind.is_symlink() {
            return std::fs::read_link(source).map(What::Symlink);
        }
        if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
            return Err(Error::other("a FIFO, socket or device is not staged"));
        }
        if meta.nlink() > 1 {
            let id = (meta.dev(), meta.ino());
            if let Some(first) = self.first_names.get(&id) {
                return Ok(What::HardLink(first.clone()));
            }
            self.first_names.insert(id, path.to_owned());
        }
        Ok(What::File)
    }

    /// In the order of names, so that two runs do the same.
    fn descend(&mut self, source: &Path, path: &Path) {
        let listed = std::fs::read_dir(source).and_then(|entries| {
            entries.map(|e| e.map(|e| e.file_name())).collect::<Result<Vec<_>, _>>()
        });
        let mut names = match listed {
            Ok(names) => names,
            Err(e) => return self.failed.push(Failed::new(source, &e)),
        };
        names.sort();
        for name in names {
            if !super::transfer::is_temporary(&name) {
                self.add(&source.join(&name), &path.join(&name));
            }
        }
    }
}

/// The name that a source has at the destination; none when its content is meant.
fn name_of(source: &Path) -> Option<PathBuf> {
    // `components` leaves a "." at the end out.
    let text = source.as_os_str().as_encoded_bytes();
    if text.ends_with(b"/.") || text == b"." {
        return None;
    }
    match source.components().next_back() {
        Some(Component::Normal(name)) => Some(name.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_keep_their_names_but_for_content() {
        for (source, name) in [
            ("a/b", Some("b")),
            ("a/b/", Some("b")),
            ("a/.", None),
            (".", None),
            ("..", None),
            ("/", None),
        ] {
            assert_eq!(name_of(Path::new(source)), name.map(PathBuf::from), "{source}");
        }
    }
}
