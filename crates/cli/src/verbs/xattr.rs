//! Extended attributes of files in a store, with messages for people.

use std::path::Path;

use intarsia_types::{HINT_PREFIX, LOCATION_NAME};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::exit::{Failure, Outcome};
use crate::{control, process};

/// Names the node that serves a path; every path in a store has it, no other path does.
pub(super) const NODE_NAME: &str = "user.intarsia.node";
/// How the bytes of a file are kept.
pub(super) const LAYOUT_NAME: &str = "user.intarsia.layout";
/// Whether somebody may be writing to a file.
pub(super) const STATE_NAME: &str = "user.intarsia.state";
/// Longest value that the kernel hands out.
const MAX_VALUE_BYTES: usize = 1 << 16;

/// The value of an attribute; `None` when the file has none of that name.
pub(super) fn get(path: &Path, name: &str) -> Outcome<Option<String>> {
    let outcome = call(path, name, |path, name| {
        let mut buffer = vec![0; MAX_VALUE_BYTES];
        let length = rustix::fs::getxattr(path, name, &mut buffer[..])?;
        buffer.truncate(length);
        Ok(buffer)
    })?;
    match outcome {
        Ok(value) => Ok(Some(String::from_utf8_lossy(&value).into_owned())),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(e) => Err(explain(path, name, e)),
    }
}

/// Sets an attribute.
pub(super) fn set(path: &Path, name: &str, value: &str) -> Outcome {
    let value = value.to_owned();
    let set = move |path: &Path, name: &str| {
        rustix::fs::setxattr(path, name, value.as_bytes(), XattrFlags::empty())
    };
    call(path, name, set)?.map_err(|e| explain(path, name, e))
}

/// Removes an attribute; one that is not there is fine.
pub(super) fn remove(path: &Path, name: &str) -> Outcome {
    match call(path, name, |path, name| rustix::fs::removexattr(path, name))? {
        Ok(()) | Err(Errno::NODATA) => Ok(()),
        Err(e) => Err(explain(path, name, e)),
    }
}

/// Calls the file system with a bound: a hung node must not hang its user.
fn call<T: Send + 'static>(
    path: &Path,
    name: &str,
    work: impl FnOnce(&Path, &str) -> Result<T, Errno> + Send + 'static,
) -> Outcome<Result<T, Errno>> {
    let (owned_path, owned_name) = (path.to_owned(), name.to_owned());
    process::bounded(control::TIMEOUT, move || work(&owned_path, &owned_name)).ok_or_else(|| {
        Failure::general(format!("{}: the file system does not answer", path.display()))
            .with_help("'intarsia doctor' shows which; 'intarsia down --force' ends a hung node")
    })
}

/// Refuses a path that lies in no store.
pub(super) fn require_store(path: &Path) -> Outcome<String> {
    get(path, NODE_NAME)?.ok_or_else(|| {
        Failure::not_running(format!("{} is in no store", path.display()))
            .with_help("'intarsia status' lists the stores that are up")
    })
}

/// Whether the store that has this file or directory is one of several hosts.
pub(super) fn is_shared(path: &Path) -> Outcome<bool> {
    let node: serde_json::Value = serde_json::from_str(&require_store(path)?).unwrap_or_default();
    Ok(node.get("shared").and_then(serde_json::Value::as_bool).unwrap_or(false))
}

/// The nodes that hold a file, heaviest first.
pub(super) fn location(path: &Path) -> Outcome<Option<String>> {
    get(path, LOCATION_NAME)
}

fn explain(path: &Path, name: &str, error: Errno) -> Failure {
    let shown = path.display();
    match error {
        Errno::NOTCONN | Errno::CONNABORTED => {
            Failure::not_running(format!("{shown}: the node of this mount is dead"))
                .with_help("'intarsia down' on the mount clears the place, 'intarsia up' brings the store up again")
        }
        Errno::INVAL if name.starts_with(HINT_PREFIX) => {
            Failure::usage(format!("{shown}: the store refused {name}"))
                .with_help("'intarsia hint list' shows the values; the store's log says why")
        }
        e => Failure::io(shown, &e.into()),
    }
}
