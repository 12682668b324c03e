//! The rooms of `crates/node/src`: how large they are, which of them use which, and whether that goes downwards.
//!
//! Read off the text, as rustfmt lays it out. A use is a path `crate::ROOM::…`, or a call of a method of `Node` that is
//! defined in another room.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The rooms by layer, lowest first: a room may use those of lower layers, and of its own.
pub const ORDER: &[&[&str]] = &[
    &["clock", "metrics", "identity", "ranks", "kernel"],
    &["background", "record"],
    &["membership"],
    &["options", "locks", "directory", "space"],
    &["members"],
    &["body"],
    &["cache"],
    &["replication"],
    &["inode"],
    &["rebalance"],
    &["vfs"],
    &["peer"],
    &["lifecycle", "status"],
    &["node"],
];

/// A file of the node without its tests.
pub struct Source {
    /// The folder or file under `src` that it belongs to.
    pub room: String,
    /// Below `src`.
    pub path: PathBuf,
    /// Without its test module.
    pub code: String,
    /// Lines of the whole file.
    pub lines: usize,
}

/// What one room uses of another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// Who uses it.
    pub from: String,
    /// Whose it is.
    pub to: String,
    /// The file that uses it.
    pub file: PathBuf,
    /// The path or the method.
    pub what: String,
}

/// The files under `src`, but for `lib.rs`.
///
/// # Panics
/// When a file cannot be read.
#[must_use]
pub fn read(src: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    collect(src, src, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

#[expect(clippy::expect_used, reason = "there is nothing to measure then")]
fn collect(src: &Path, dir: &Path, found: &mut Vec<Source>) {
    for entry in std::fs::read_dir(dir).expect("a directory of sources") {
        let path = entry.expect("its entry").path();
        if path.is_dir() {
            collect(src, &path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let below = path.strip_prefix(src).expect("below it").to_owned();
            let first = below.iter().next().and_then(|name| name.to_str()).unwrap_or_default();
            let room = first.trim_end_matches(".rs").to_owned();
            if room == "lib" {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source");
            let code = product_code(&text);
            found.push(Source { room, path: below, code, lines: text.lines().count() });
        }
    }
}

/// The source without what is there for tests alone, which may do as it likes.
#[must_use]
pub fn product_code(text: &str) -> String {
    if text.contains("\n#![cfg(test)]") {
        return String::new();
    }
    let mut code = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let indent = line.len() - line.trim_start().len();
            // The item ends where its first line does, or with a brace below its first letter.
            let _ = lines.find(|line| {
                let is_at_indent = line.len() - line.trim_start().len() == indent;
                is_at_indent
                    && !line.trim_start().starts_with("#[")
                    && line.ends_with(['}', ';', ','])
            });
        } else {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// The layer of a room.
#[must_use]
pub fn layer(room: &str) -> Option<usize> {
    ORDER.iter().position(|layer| layer.contains(&room))
}

/// Everything that a room uses of another one.
#[must_use]
pub fn uses(sources: &[Source]) -> Vec<Use> {
    let methods = methods(sources);
    let mut found = Vec::new();
    for source in sources {
        let mut is_in_node = false;
        let mut last_word = String::new();
        for line in source.code.lines() {
            let code = line.split("//").next().unwrap_or_default();
            is_in_node = (is_in_node && line != "}") || is_impl_of_node(line);
            let mut note = |to: &str, what: &str| {
                if to != source.room {
                    found.push(Use {
                        from: source.room.clone(),
                        to: to.to_owned(),
                        file: source.path.clone(),
                        what: what.to_owned(),
                    });
                }
            };
            for after in code.split("crate::").skip(1) {
                let room = word(after);
                if layer(room).is_some() {
                    note(room, &format!("crate::{}", path(after)));
                }
            }
            for method in called(code, &last_word, is_in_node) {
                if let Some(room) = methods.get(method) {
                    note(room, method);
                }
            }
            last_word = code.trim().to_owned();
        }
    }
    found
}

/// Those that go upwards.
#[must_use]
pub fn upward(sources: &[Source]) -> Vec<Use> {
    let mut found = uses(sources);
    found.retain(|found| layer(&found.from) < layer(&found.to));
    found
}

/// The rooms that know the whole node, and so reach everything.
#[must_use]
pub fn knowing_node(sources: &[Source]) -> BTreeSet<String> {
    let knows = |source: &&Source| {
        source.code.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.contains("node::Node") || code.contains("crate::Node")
        })
    };
    sources.iter().filter(knows).map(|source| source.room.clone()).collect()
}

/// Rooms that use each other in circles, each circle with all that take part.
#[must_use]
pub fn circles(sources: &[Source]) -> Vec<BTreeSet<String>> {
    let mut reach: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for found in uses(sources) {
        reach.entry(found.from).or_default().insert(found.to);
    }
    loop {
        let before: usize = reach.values().map(BTreeSet::len).sum();
        for room in reach.keys().cloned().collect::<Vec<_>>() {
            let direct = reach.get(&room).cloned().unwrap_or_default();
            let further = direct.iter().filter_map(|next| reach.get(next)).flatten();
            let all: BTreeSet<_> = direct.iter().chain(further).cloned().collect();
            reach.insert(room, all);
        }
        if reach.values().map(BTreeSet::len).sum::<usize>() == before {
            break;
        }
    }
    let circle = |(room, reached): (&String, &BTreeSet<String>)| {
        let back = |other: &&String| reach.get(*other).is_some_and(|all| all.contains(room));
        reached.contains(room).then(|| reached.iter().filter(back).cloned().collect())
    };
    let found: BTreeSet<BTreeSet<String>> = reach.iter().filter_map(circle).collect();
    found.into_iter().collect()
}

/// The lengths of the functions in a source, in lines, shortest first.
#[must_use]
pub fn functions(code: &str) -> Vec<usize> {
    let mut lengths: Vec<_> = named_functions(code).into_iter().map(|(length, _)| length).collect();
    lengths.sort_unstable();
    lengths
}

/// The longest function of all: its lines, and `ROOM::NAME`.
#[must_use]
pub fn longest_function(sources: &[Source]) -> Option<(usize, String)> {
    let all = sources.iter().flat_map(|source| {
        let named = named_functions(&source.code).into_iter();
        named.map(|(length, name)| (length, format!("{}::{name}", source.room)))
    });
    all.max()
}

fn named_functions(code: &str) -> Vec<(usize, &str)> {
    let lines: Vec<_> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let text = line.trim_start();
        let is_function = text.starts_with("fn ")
            || (text.starts_with("pub") || text.starts_with("const ")) && text.contains(" fn ");
        let Some(after) = text.split("fn ").nth(1).filter(|_| is_function) else { continue };
        let indent = line.len() - text.len();
        let ends = |line: &&str| {
            let is_at_indent = line.len() - line.trim_start().len() == indent;
            is_at_indent && (line.trim() == "}" || line.ends_with(';') || line.ends_with('}'))
        };
        let Some(length) = lines[at..].iter().position(ends) else { continue };
        if !lines[at + length].ends_with(';') {
            found.push((length + 1, word(after)));
        }
    }
    found
}

/// So many in ten are at most this.
#[must_use]
pub fn ninth_decile(sorted: &[usize]) -> usize {
    let at = (sorted.len() * 9).div_ceil(10).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0)
}

/// A structure of the node. In the order of its fields, so that the largest is the greatest.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Structure {
    /// How many it has.
    pub fields: usize,
    /// `ROOM::NAME`.
    pub name: String,
    /// How many of its fields are `bool`.
    pub flags: usize,
}

impl Structure {
    /// Counts a line of its declaration, if that is a field.
    fn count(&mut self, line: &str) {
        let text = line.trim_start_matches("    ").trim_start_matches("pub(crate) ");
        let text = text.trim_start_matches("pub(super) ").trim_start_matches("pub ");
        let is_field = !text.starts_with(['/', '#', ' ']) && text.contains(": ");
        self.fields += usize::from(is_field);
        self.flags += usize::from(is_field && text.contains(": bool"));
    }
}

/// The structures of the node, largest first.
#[must_use]
pub fn structures(sources: &[Source]) -> Vec<Structure> {
    let mut found = Vec::new();
    for source in sources {
        let mut open: Option<Structure> = None;
        for line in source.code.lines() {
            if line == "}" {
                found.extend(open.take());
            } else if let Some(structure) = &mut open {
                structure.count(line);
            } else if let Some(after) = line.split("struct ").nth(1)
                && line.ends_with('{')
                && !line.starts_with(' ')
            {
                let name = format!("{}::{}", source.room, word(after));
                open = Some(Structure { name, ..Structure::default() });
            }
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    found
}

/// Names of threads that a room starts: given where the thread is built, or in a list of names that it is built from.
#[must_use]
pub fn threads(code: &str) -> BTreeSet<String> {
    let named = |before: &'static str| {
        code.split(before).skip(1).filter_map(|after| {
            let text = after.trim_start_matches("format!(").strip_prefix('"')?;
            Some(text.split('"').next()?.replace("{number}", "N"))
        })
    };
    let listed = code.contains(".name(name").then(|| named("(("));
    named(".name(").chain(listed.into_iter().flatten()).collect()
}

/// The locks of a room: fields of these types, and types that are one, by their names.
#[must_use]
pub fn locks(code: &str) -> Vec<String> {
    let declared = code.lines().filter_map(|line| {
        let code = line.split("//").next().unwrap_or_default().trim_start();
        let is_lock = code.contains("Mutex<") || code.contains("RwLock<");
        if !is_lock || code.contains("fn ") || code.starts_with("let ") {
            return None;
        }
        let visibilities = ["pub(crate) ", "pub(super) ", "pub "];
        let bare = visibilities.iter().find_map(|visibility| code.strip_prefix(visibility));
        let bare = bare.unwrap_or(code);
        let kinds = ["struct ", "type "];
        let name = word(kinds.iter().find_map(|kind| bare.strip_prefix(kind)).unwrap_or(bare));
        Some(name.to_owned()).filter(|name| !name.is_empty())
    });
    declared.collect()
}

/// How often code names a kind of body.
#[must_use]
pub fn kinds_of_body(code: &str) -> usize {
    let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let is_kind = |after: &&str| after.starts_with(char::is_uppercase);
    code.map(|line| line.split("Body::").skip(1).filter(is_kind).count()).sum()
}

fn is_impl_of_node(line: &str) -> bool {
    line.starts_with("impl") && (line.ends_with(" Node {") || line.ends_with("::Node {"))
}

/// The methods of `Node` by the room that defines them; those of traits are not among them.
fn methods(sources: &[Source]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for source in sources {
        let mut is_in_node = false;
        for line in source.code.lines() {
            let is_inherent = is_impl_of_node(line) && !line.contains(" for ");
            is_in_node = (is_in_node && line != "}") || is_inherent;
            let text = line.strip_prefix("    ").unwrap_or_default();
            if is_in_node
                && !text.starts_with(' ')
                && let Some(after) = text.split("fn ").nth(1)
            {
                found.insert(word(after).to_owned(), source.room.clone());
            }
        }
    }
    found
}

/// What is called of a node in a line: of `self` in its methods, and of what is named `node`.
fn called<'c>(code: &'c str, before: &str, is_in_node: bool) -> Vec<&'c str> {
    let mut found = Vec::new();
    let owner = |text: &str| {
        let owner = text.trim_end().trim_start_matches('.');
        let ends = |name: &str| {
            owner.strip_suffix(name).is_some_and(|rest| !rest.ends_with(is_part_of_word))
        };
        (is_in_node && ends("self")) || ends("node")
    };
    for (at, _) in code.match_indices('.') {
        let name = word(&code[at + 1..]);
        let is_call = code[at + 1 + name.len()..].starts_with('(');
        let rest = &code[..at];
        let is_of_node = if rest.trim().is_empty() { owner(before) } else { owner(rest) };
        if is_call && is_of_node {
            found.push(name);
        }
    }
    found
}

fn is_part_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// How often code asks whether a body is of a certain kind.
#[must_use]
pub fn asks_for_kinds(code: &str) -> usize {
    const ASKS: [&str; 6] =
        [".inline()", ".local()", ".kept()", ".remote()", ".striped()", ".is_lower()"];
    let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.map(|line| ASKS.iter().map(|ask| line.matches(ask).count()).sum::<usize>()).sum()
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

fn path(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    text[..end.unwrap_or(text.len())].trim_end_matches(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(room: &str, code: &str) -> Source {
        let path = PathBuf::from(format!("{room}.rs"));
        Source { room: room.into(), path, code: code.into(), lines: code.lines().count() }
    }

    #[test]
    fn paths_and_calls_of_the_node_are_uses_and_comments_are_not() {
        let sources = [
            source(
                "vfs",
                "impl Node {\n    pub fn unlink(&self) {\n        self.settle(1);\n    }\n}\n",
            ),
            source(
                "inode",
                "use crate::vfs::names::X;\n// crate::vfs::names\nimpl Node {\n    fn settle(&self, n: u8) {\n        self\n            .unlink();\n        let table = self.table.settle(2);\n    }\n}\n",
            ),
        ];
        let found: Vec<_> = upward(&sources).into_iter().map(|found| found.what).collect();
        assert_eq!(found, ["crate::vfs::names::X", "unlink"]);
        assert_eq!(uses(&sources).len(), 3);
        assert_eq!(circles(&sources).len(), 1);
    }

    #[test]
    fn what_is_for_tests_alone_is_left_out_and_what_follows_is_not() {
        let code = "#[cfg(test)]\nmod alone;\nstruct A {\n    a: u8,\n    #[cfg(test)]\n    b: u8,\n}\n\
            #[cfg(test)]\n#[path = \"x.rs\"]\nmod tests {\n    fn c() {}\n}\nfn d() {}\n";
        assert_eq!(product_code(code), "struct A {\n    a: u8,\n}\nfn d() {}\n");
        assert_eq!(product_code("//! Doc\n\n#![cfg(test)]\nfn a() {}\n"), "");
    }

    #[test]
    fn functions_are_measured_to_their_last_brace() {
        let code =
            "impl X {\n    fn a(&self) {\n        b();\n    }\n\n    fn c();\n}\n\npub fn d() {}\n";
        assert_eq!(functions(code), [1, 3]);
        assert_eq!(longest_function(&[source("x", code)]).unwrap().0, 3);
        assert_eq!(ninth_decile(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 50]), 9);
    }

    #[test]
    fn locks_and_threads_have_names() {
        let code = "struct A(Mutex<u8>);\npub(crate) struct B(RwLock<u8>);\npub(crate) type C = Mutex<u8>;\n\
            struct D {\n    e: Mutex<u8>,\n    pub(super) f: RwLock<()>,\n    g: [Mutex<u8>; 4],\n\
            // h: Mutex<u8>,\n}\nfn i(j: &Mutex<u8>) {}\n";
        assert_eq!(locks(code), ["A", "B", "C", "e", "f", "g"]);
        let code = "b.name(\"one\".into());\nlet all = [((\"two\", run))];\nb.name(name.into());\n";
        assert_eq!(threads(code).into_iter().collect::<Vec<_>>(), ["one", "two"]);
    }

    #[test]
    fn questions_for_the_kind_of_a_body_are_counted() {
        let code = "if state.local().is_some() && !body.is_lower() { // state.inline()\n}\n";
        assert_eq!(asks_for_kinds(code), 2);
    }

    #[test]
    fn fields_are_counted() {
        let code = "pub struct A {\n    /// Of it: a.\n    pub(crate) a: u8,\n    b: Vec<u8>,\n}\n";
        let expected = Structure { fields: 2, name: "x::A".into(), flags: 0 };
        assert_eq!(structures(&[source("x", code)]), [expected]);
        let code = "struct B {\n    is_a: bool,\n    b: u8,\n}\n";
        assert_eq!(structures(&[source("x", code)])[0].flags, 1);
    }
}
