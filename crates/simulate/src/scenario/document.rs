//! A scenario in layers: what a later one says replaces what an earlier one said.

use super::Problem;
use super::section::Section;
use super::value::{Converter, Entry, Item, Place, Table, Value};

/// A scenario, not yet read.
#[derive(Clone, Debug)]
pub struct Document {
    at: Place,
    root: Table,
}

impl Document {
    /// The document of a TOML text; `source` names it in messages.
    ///
    /// # Errors
    /// When the text is not valid TOML.
    pub fn parse(source: &str, text: &str) -> Result<Self, Problem> {
        let root = Converter::new(source, text).document()?;
        Ok(Self { at: Place::whole(source), root })
    }

    /// Lays `above` over this one: its sections merge, its fields and lists of sections replace.
    pub fn overlay(&mut self, above: Self) {
        self.at = above.at;
        self.root.overlay(above.root);
    }

    /// Sets one field, as in `machine.nodes=16` or `level.pfs.bandwidth=10 GB/s`. The value is TOML,
    /// or else a text, so that quotes can be left out. Within a list of sections, a section is
    /// meant by its field `name` or by its number, the first being 0.
    ///
    /// # Errors
    /// When this is no assignment, or leads through something that is no section.
    pub fn set(&mut self, assignment: &str) -> Result<(), Problem> {
        let refuse = |why: &str| {
            Problem::new(format!("--set '{assignment}': {why}"))
                .with_help("write it like machine.nodes=1024 or machine.reboot='5 min'")
        };
        let (path, text) = assignment.split_once('=').ok_or_else(|| refuse("no '='"))?;
        let path = path.trim();
        let source = format!("--set {path}");
        let (parents, name) = path.rsplit_once('.').unwrap_or(("", path));
        if name.is_empty() {
            return Err(refuse("no field before '='"));
        }
        let mut table = &mut self.root;
        let mut parts = parents.split('.').filter(|_| !parents.is_empty()).peekable();
        while let Some(part) = parts.next() {
            let within = parts.next_if(|_| table.is_list(part));
            table = step(table, part, within, &source).map_err(|why| refuse(&why))?;
        }
        let at = Place::whole(&source);
        let item = value_of(&source, text.trim())?;
        let entry = Entry { name: name.to_owned(), name_at: at.clone(), item, item_at: at };
        table.put(entry);
        Ok(())
    }

    /// The value of a field, before anything was checked; `path` is dotted.
    #[must_use]
    pub fn peek(&self, path: &str) -> Option<&Value> {
        let (parents, name) = path.rsplit_once('.').unwrap_or(("", path));
        let mut table = &self.root;
        for part in parents.split('.').filter(|_| !parents.is_empty()) {
            match &table.get(part)?.item {
                Item::Table(inner) => table = inner,
                _ => return None,
            }
        }
        match &table.get(name)?.item {
            Item::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Takes a field of the document's top out, so that a reader need not know it.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        let value = self.peek(name)?.clone();
        self.root.entries.retain(|entry| entry.name != name);
        Some(value)
    }

    /// Reads the document. Beside the result stands the effective scenario: every field that was
    /// asked for, with its value or default.
    ///
    /// # Errors
    /// What `read` refuses, and a field that it did not ask for.
    pub fn read<T>(
        &self,
        read: impl FnOnce(&mut Section<'_>) -> Result<T, Problem>,
    ) -> Result<(T, toml::Table), Problem> {
        let mut root = Section::new("", &self.at, Some(&self.root));
        let result = read(&mut root)?;
        Ok((result, root.finish()?))
    }
}

/// The section `part` of `table`, made when it is missing; of a list, the section `within`.
fn step<'t>(
    table: &'t mut Table,
    part: &str,
    within: Option<&str>,
    source: &str,
) -> Result<&'t mut Table, String> {
    if table.get(part).is_none() {
        let at = Place::whole(source);
        table.put(Entry {
            name: part.to_owned(),
            name_at: at.clone(),
            item: Item::Table(Table::default()),
            item_at: at,
        });
    }
    let parent = table.get_mut(part).ok_or_else(|| format!("'{part}' is missing"))?;
    match &mut parent.item {
        Item::Table(inner) => Ok(inner),
        Item::Tables(tables) => {
            let within = within.ok_or(format!("'{part}' is a list: say which, as in {part}.0"))?;
            one_of(tables, within).ok_or(format!("'{part}' has no section '{within}'"))
        }
        Item::Value(value) => Err(format!("'{part}' is {}, not a section", value.kind())),
    }
}

/// The section that is meant by its number or by its field `name`.
fn one_of<'t>(tables: &'t mut [(Place, Table)], word: &str) -> Option<&'t mut Table> {
    let is_named = |table: &Table| match table.get("name").map(|entry| &entry.item) {
        Some(Item::Value(Value::Text(name))) => name == word,
        _ => false,
    };
    let index = word.parse().ok().or_else(|| tables.iter().position(|(_, t)| is_named(t)))?;
    tables.get_mut(index).map(|(_, table)| table)
}

/// The item that `text` stands for: TOML, or else a text.
fn value_of(source: &str, text: &str) -> Result<Item, Problem> {
    let as_toml = format!("x = {text}");
    let parsed = Converter::new(source, &as_toml).document();
    let item = parsed.ok().and_then(|table| match table.entries.into_iter().next() {
        Some(entry) if entry.name == "x" => Some(entry.item),
        _ => None,
    });
    match item {
        Some(Item::Value(value)) => Ok(Item::Value(value)),
        Some(other) => Err(Problem::new(format!("{source}: {} cannot be set here", other.kind()))
            .with_help("set its fields one by one")),
        None => Ok(Item::Value(Value::Text(text.to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn document(text: &str) -> Document {
        Document::parse("a.toml", text).unwrap()
    }

    #[test]
    fn later_layers_win_field_by_field() {
        let mut below = document("[a]\nx = 1\ny = 2\n[[l]]\nz = 1\n[[l]]\nz = 2");
        below.overlay(document("[a]\ny = 3\n[[l]]\nz = 4"));
        assert_eq!(below.peek("a.x"), Some(&Value::Integer(1)));
        assert_eq!(below.peek("a.y"), Some(&Value::Integer(3)));
        assert!(matches!(&below.root.get("l").unwrap().item, Item::Tables(l) if l.len() == 1));
    }

    #[test]
    fn assignments_take_toml_or_plain_text() {
        let mut d = document("");
        for assignment in ["m.nodes=16", "m.time = 5 years", "m.f=true", "q='a b'", "e="] {
            d.set(assignment).unwrap();
        }
        assert_eq!(d.peek("m.nodes"), Some(&Value::Integer(16)));
        assert_eq!(d.peek("m.time"), Some(&Value::Text("5 years".into())));
        assert_eq!(d.peek("m.f"), Some(&Value::Flag(true)));
        assert_eq!(d.peek("q"), Some(&Value::Text("a b".into())));
        assert_eq!(d.peek("e"), Some(&Value::Text(String::new())));
    }

    #[test]
    fn assignments_reach_into_lists_of_sections() {
        let mut d = document("[[level]]\nname = \"ram\"\nn = 1\n[[level]]\nname = \"pfs\"\nn = 2");
        d.set("level.pfs.n=3").unwrap();
        d.set("level.0.n=4").unwrap();
        let (numbers, _) = d
            .read(|root| {
                root.sections("level", |l| {
                    l.text("name").required()?;
                    l.integer("n").required()
                })
            })
            .unwrap();
        assert_eq!(numbers, [4, 3]);
        assert!(d.set("level.ssd.n=1").unwrap_err().message.contains("'ssd'"));
        assert!(d.set("level.n=1").is_err());
        assert!(d.set("nodes").unwrap_err().message.contains("no '='"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z=\\[\\]\"{}\\n#., 0-9ü]{0,60}", set in "\\PC{0,20}") {
            if let Ok(mut document) = Document::parse("t", &text) {
                let _ = document.set(&set);
                let _ = document.read(|root| root.section("a", |a| a.integer("b").or(1)));
            }
        }
    }
}
