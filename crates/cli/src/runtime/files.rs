//! Where many files lie, and hints for many, by their paths within the store.

use std::collections::HashMap;

use intarsia_node::Node;
use intarsia_types::{Error, Hint, InodeId, Result};
use serde_json::{Value, json};

use super::Store;
use crate::exit::{Failure, Outcome};

/// So many answers go into one message.
const TOLD_AT_ONCE: usize = 100;
/// Files that are given hints at the same time: each waits for a commit.
const TAGGED_AT_ONCE: usize = 8;

/// The directories of paths, each looked up once.
struct Directories<'a> {
    node: &'a Node,
    known: HashMap<&'a str, std::result::Result<InodeId, i32>>,
}

impl<'a> Directories<'a> {
    fn new(node: &'a Node) -> Self {
        Self { node, known: HashMap::new() }
    }

    /// The directory of a path and the name in it; the errno where there is none.
    fn split(&mut self, path: &'a str) -> std::result::Result<(InodeId, &'a [u8]), i32> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let find = || self.node.directory_at(parent.as_bytes()).map_err(|error| error.errno());
        let dir = (*self.known.entry(parent).or_insert_with(find))?;
        Ok((dir, name.as_bytes()))
    }
}

impl Store {
    /// Tells of each path where its file lies, and null of what has to be asked by itself.
    pub(crate) fn locate(&self, paths: &[String], tell: &mut dyn FnMut(Value)) {
        let mut directories = Directories::new(&self.node);
        let mut locate = |path| {
            let (dir, name) = directories.split(path).ok()?;
            let located = self.node.locate_in(dir, name).ok()?;
            let nodes: Vec<String> = located.hosts.into_iter().map(|host| host.0).collect();
            let (size_bytes, layout) = (located.size_bytes, located.description);
            Some(json!({ "size_bytes": size_bytes, "layout": layout, "nodes": nodes }))
        };
        for some in paths.chunks(TOLD_AT_ONCE) {
            tell(some.iter().map(|path| locate(path)).collect());
        }
    }

    /// Gives hints to the files at all paths; tells of each the errno, 0 where it has them now.
    pub(crate) fn tag(
        &self,
        hints: &[String],
        paths: &[String],
        tell: &mut dyn FnMut(Value),
    ) -> Outcome {
        let parse = |text: &String| {
            text.parse::<Hint>()
                .map_err(|e: intarsia_types::HintError| Failure::usage(e.to_string()))
        };
        let hints: Vec<Hint> = hints.iter().map(parse).collect::<Outcome<_>>()?;
        let mut directories = Directories::new(&self.node);
        let entries: Vec<_> = paths.iter().map(|path| directories.split(path)).collect();
        for some in entries.chunks(TOLD_AT_ONCE) {
            let share = some.len().div_ceil(TAGGED_AT_ONCE);
            let told: Vec<i32> = std::thread::scope(|scope| {
                let tag =
                    |part: &[_]| part.iter().map(|entry| self.tag_one(*entry, &hints)).collect();
                let threads: Vec<_> = some
                    .chunks(share)
                    .map(|part| scope.spawn(move || -> Vec<i32> { tag(part) }))
                    .collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
            });
            tell(json!(told));
        }
        Ok(())
    }

    fn tag_one(&self, entry: std::result::Result<(InodeId, &[u8]), i32>, hints: &[Hint]) -> i32 {
        let tag = |(dir, name)| -> Result<()> { self.node.tag_in(dir, name, hints, None) };
        entry.map_or_else(
            |errno| errno,
            |entry| tag(entry).map_or_else(|e: Error| e.errno(), |()| 0),
        )
    }
}
