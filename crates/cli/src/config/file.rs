//! Settings from a TOML file. Every refusal names the file, the line and column, the key and the fix.

use std::path::{Path, PathBuf};

use intarsia_types::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Given, Key, Layers, Source};
use crate::exit::{Failure, Outcome};

/// The file to read: the one named, else the first of the usual places that exists.
pub(crate) fn locate(flag: Option<&Path>) -> Option<PathBuf> {
    let named = flag.map(Path::to_owned).or_else(|| {
        std::env::var_os("INTARSIA_CONFIG").filter(|v| !v.is_empty()).map(PathBuf::from)
    });
    named.or_else(|| usual_places().into_iter().find(|p| p.exists()))
}

/// Where a file is looked for, first one first.
pub(crate) fn usual_places() -> Vec<PathBuf> {
    let home = super::path::xdg("XDG_CONFIG_HOME", ".config");
    home.into_iter()
        .map(|dir| dir.join("intarsia/config.toml"))
        .chain([PathBuf::from("/etc/intarsia/config.toml")])
        .collect()
}

/// Adds what the file gives.
pub(crate) fn add(layers: &mut Layers, path: &Path) -> Outcome {
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::usage(format!("configuration file {}: {e}", path.display()))
            .with_help("name a readable TOML file with --config or INTARSIA_CONFIG, or none")
    })?;
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    add_text(layers, &path, &text)
}

fn add_text(layers: &mut Layers, path: &Path, text: &str) -> Outcome {
    let file = File { path, text };
    let table = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        file.refuse(at, &format!("not valid TOML: {}", e.message().replace('\n', " ")))
    })?;
    for (name, value) in table.get_ref() {
        let at = name.span().start;
        let key = Key::from_name(name.get_ref()).ok_or_else(|| file.unknown(at, name.get_ref()))?;
        let texts = file.texts(key, value)?;
        let (line, column) = file.position(value.span().start);
        let source = Source::File { path: path.to_owned(), line, column };
        layers.add(key, Given { texts, source });
    }
    Ok(())
}

/// Line and column of a byte of a text, both counted from 1, columns in characters.
pub(crate) fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |n| n + 1);
    let line = before.matches('\n').count() + 1;
    (line, before.get(line_start..).unwrap_or_default().chars().count() + 1)
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    fn position(&self, byte: usize) -> (usize, usize) {
        position(self.text, byte)
    }

    fn refuse(&self, at: usize, why: &str) -> Failure {
        let (line, column) = self.position(at);
        Failure::usage(format!("{}:{line}:{column}: {why}", self.path.display()))
    }

    fn unknown(&self, at: usize, name: &str) -> Failure {
        let names: Vec<&str> = Key::ALL.iter().map(|k| k.name()).collect();
        let failure = self.refuse(at, &format!("unknown key '{name}'"));
        match nearest(name, names.iter().copied()) {
            Some(near) => failure.with_help(format!("did you mean '{near}'?")),
            None => failure.with_help(format!("the keys are {}", names.join(", "))),
        }
    }

    fn texts(&self, key: Key, value: &Spanned<DeValue<'_>>) -> Outcome<Vec<String>> {
        match (key.is_list(), value.get_ref()) {
            (true, DeValue::Array(items)) => items.iter().map(|i| self.item(key, i)).collect(),
            (true, _) => Ok(vec![self.item(key, value)?]),
            (false, _) => Ok(vec![self.scalar(key, value)?]),
        }
    }

    /// An element of a list; a tier may be a table, `{ dir = "/ssd", class = "ssd" }`.
    fn item(&self, key: Key, value: &Spanned<DeValue<'_>>) -> Outcome<String> {
        match (key, value.get_ref()) {
            (Key::Tiers, DeValue::Table(table)) => self.tier(value.span().start, table),
            _ => self.scalar(key, value),
        }
    }

    fn tier(&self, at: usize, table: &DeTable<'_>) -> Outcome<String> {
        const FIELDS: [&str; 3] = ["dir", "class", "capacity"];
        for (name, _) in table {
            if !FIELDS.contains(&name.get_ref().as_ref()) {
                let why = format!("tiers: unknown key '{}'", name.get_ref());
                return Err(self
                    .refuse(name.span().start, &why)
                    .with_help("a tier has dir, class and capacity"));
            }
        }
        let field = |name: &str| {
            let value = table.iter().find(|(n, _)| n.get_ref() == name).map(|(_, v)| v);
            value.map(|v| self.scalar(Key::Tiers, v)).transpose()
        };
        let dir = field("dir")?.ok_or_else(|| {
            self.refuse(at, "tiers: a tier needs dir = \"…\", the directory that holds its files")
        })?;
        let class = field("class")?.map(|c| format!(",class={c}")).unwrap_or_default();
        let capacity = field("capacity")?.map(|c| format!(",capacity={c}")).unwrap_or_default();
        Ok(format!("{dir}{class}{capacity}"))
    }

    fn scalar(&self, key: Key, value: &Spanned<DeValue<'_>>) -> Outcome<String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Boolean(flag) => Ok(flag.to_string()),
            DeValue::Integer(number) => Ok(number.to_string()),
            other => {
                let why = format!("{}: a {} does not fit here", key.name(), other.type_str());
                Err(self.refuse(value.span().start, &why).with_help(format!(
                    "write {} = {}",
                    key.name(),
                    if key.is_list() { "[\"…\", \"…\"]" } else { "\"…\"" }
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Outcome<Layers> {
        let mut layers = Layers::default();
        add_text(&mut layers, Path::new("/c.toml"), text).map(|()| layers)
    }

    #[test]
    fn names_the_line_the_key_and_the_fix() {
        let failure = read("dir = \"/x\"\ndurabilty = \"sync\"\n").unwrap_err();
        assert_eq!(failure.message, "/c.toml:2:1: unknown key 'durabilty'");
        assert_eq!(failure.help.as_deref(), Some("did you mean 'durability'?"));
        let failure = read("a = 1\n").unwrap_err();
        assert!(failure.help.unwrap().contains("the keys are mount, dir"));
        let failure = read("dir = \"/x\"\ninterval = \n").unwrap_err();
        assert!(failure.message.starts_with("/c.toml:2:"), "{}", failure.message);
        let failure = read("mount = [\"/x\"]").unwrap_err();
        assert!(failure.message.starts_with("/c.toml:1:9: mount: a array"), "{}", failure.message);
    }

    #[test]
    fn tiers_are_texts_or_tables() {
        let layers = read(
            "[[tiers]]\ndir = \"/a\"\nclass = \"ssd\"\ncapacity = \"4GiB\"\n[[tiers]]\ndir = \"/b\"",
        )
        .unwrap();
        assert_eq!(layers.get(Key::Tiers).unwrap().texts, ["/a,class=ssd,capacity=4GiB", "/b"]);
        let layers = read("tiers = [\"/a\", { dir = \"/b\" }]").unwrap();
        assert_eq!(layers.get(Key::Tiers).unwrap().texts, ["/a", "/b"]);
        assert!(read("tiers = [{ class = \"ssd\" }]").unwrap_err().message.contains("needs dir"));
        assert!(read("tiers = [{ dir = \"/b\", size = 1 }]").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z=\\[\\]\"{}\\n#. 0-9ü]{0,60}") { let _ = read(&text); }
    }
}
