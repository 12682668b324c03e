//! The entries of one directory, in a listing order that survives changes.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::sync::Arc;

use fuser::FileType;

/// What a name points to.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Arc<OsStr>,
    pub(crate) ino: u64,
    pub(crate) kind: FileType,
}

/// Names to inodes. Every entry keeps its cookie for life, so a listing can go on after a change.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) parent: u64,
    cookies: HashMap<Arc<OsStr>, u64>,
    entries: BTreeMap<u64, Entry>,
    next_cookie: u64,
}

impl Directory {
    /// Cookies 1 and 2 belong to "." and "..".
    const FIRST_COOKIE: u64 = 3;

    pub(crate) fn new(parent: u64) -> Self {
        Self {
            parent,
            cookies: HashMap::new(),
            entries: BTreeMap::new(),
            next_cookie: Self::FIRST_COOKIE,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn get(&self, name: &OsStr) -> Option<&Entry> {
        self.entries.get(self.cookies.get(name)?)
    }

    /// Adds or replaces `name`.
    pub(crate) fn insert(&mut self, name: &OsStr, ino: u64, kind: FileType) {
        self.remove(name);
        let name: Arc<OsStr> = Arc::from(name);
        self.cookies.insert(Arc::clone(&name), self.next_cookie);
        self.entries.insert(self.next_cookie, Entry { name, ino, kind });
        self.next_cookie += 1;
    }

    pub(crate) fn remove(&mut self, name: &OsStr) -> Option<Entry> {
        let cookie = self.cookies.remove(name)?;
        self.entries.remove(&cookie)
    }

    /// The entries behind `cookie`, each with its own.
    pub(crate) fn after(&self, cookie: u64) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.range(cookie + 1..).map(|(cookie, entry)| (*cookie, entry))
    }
}
