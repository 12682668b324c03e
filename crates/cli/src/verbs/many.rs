//! Many files of running stores at once, by the sockets of their nodes.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::control::{self, Request};
use crate::registry::{Entry, Registry};

/// Bytes of paths in one request: well below the longest line.
const ASKED_BYTES: usize = 256 << 10;

/// Asks the nodes of this user's stores about `files`. An answer that is missing, or null, is for who asks for that file by
/// itself: its name is no UTF-8, it lies in no store of this user, or its node does not answer.
pub(super) fn ask(files: &[PathBuf], request: impl Fn(Vec<String>) -> Request) -> Vec<Value> {
    let mut answers = vec![Value::Null; files.len()];
    let Ok(registry) = Registry::of_user() else { return answers };
    let mut stores: Vec<Entry> = registry.entries();
    // A mount within another one comes first.
    stores.sort_by_key(|store| std::cmp::Reverse(store.mount_point.components().count()));
    let mut asked: BTreeMap<usize, Vec<(usize, String)>> = BTreeMap::new();
    let mut parents = HashMap::new();
    for (number, file) in files.iter().enumerate() {
        if let Some((store, path)) = within(&stores, file, &mut parents) {
            asked.entry(store).or_default().push((number, path));
        }
    }
    for (store, paths) in asked {
        for some in batches(paths) {
            let (numbers, paths): (Vec<_>, Vec<_>) = some.into_iter().unzip();
            let mut told = Vec::new();
            let hear = |answer| {
                if let Value::Array(some) = answer {
                    told.extend(some);
                }
            };
            if control::call(&stores[store].socket, &request(paths), hear).is_ok() {
                numbers.iter().zip(told).for_each(|(number, answer)| answers[*number] = answer);
            }
        }
    }
    answers
}

/// The store that a file is in, and its path below the mount.
fn within<'a>(
    stores: &[Entry],
    file: &'a Path,
    parents: &mut HashMap<&'a Path, Option<PathBuf>>,
) -> Option<(usize, String)> {
    let (parent, name) = (file.parent()?, file.file_name()?);
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let whole = parents.entry(parent).or_insert_with(|| parent.canonicalize().ok());
    let path = whole.as_ref()?.join(name);
    stores.iter().enumerate().find_map(|(number, store)| {
        let path = path.strip_prefix(&store.mount_point).ok()?.to_str()?;
        (!path.is_empty()).then(|| (number, path.to_owned()))
    })
}

/// Paths in requests that are short enough.
fn batches(paths: Vec<(usize, String)>) -> Vec<Vec<(usize, String)>> {
    let mut batches = vec![Vec::new()];
    let mut bytes = 0;
    for (number, path) in paths {
        bytes += path.len() + 8;
        if bytes > ASKED_BYTES {
            bytes = path.len() + 8;
            batches.push(Vec::new());
        }
        if let Some(last) = batches.last_mut() {
            last.push((number, path));
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_paths_are_asked_for_in_order_and_no_request_is_too_long() {
        let paths: Vec<_> = (0..5000).map(|n| (n, "x".repeat(n % 300))).collect();
        let batches = batches(paths.clone());
        assert!(batches.len() > 1);
        for batch in &batches {
            assert!(batch.iter().map(|(_, path)| path.len()).sum::<usize>() <= ASKED_BYTES);
        }
        assert_eq!(batches.concat(), paths);
    }
}
