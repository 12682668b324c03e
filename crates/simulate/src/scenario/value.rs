//! A value of a scenario and where it was written.

use std::fmt;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Problem;

/// Where something was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    source: Arc<str>,
    /// Line and column, counted from 1; none for what is not in a file.
    position: Option<(usize, usize)>,
}

impl Place {
    pub(super) fn whole(source: &str) -> Self {
        Self { source: source.into(), position: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, column)) => write!(f, "{}:{line}:{column}", self.source),
            None => f.write_str(&self.source),
        }
    }
}

/// A value of a scenario, without its place.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text: a name, or a number with its unit.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// True or false.
    Flag(bool),
    /// Several values.
    List(Vec<Value>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl Value {
    /// What it is called in a message, with its article.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) => "a whole number",
            Self::Number(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::List(_) => "a list",
        }
    }

    pub(super) fn to_toml(&self) -> toml::Value {
        match self {
            Self::Text(text) => toml::Value::String(text.clone()),
            Self::Integer(number) => toml::Value::Integer(*number),
            Self::Number(number) => toml::Value::Float(*number),
            Self::Flag(flag) => toml::Value::Boolean(*flag),
            Self::List(values) => toml::Value::Array(values.iter().map(Self::to_toml).collect()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            other => write!(f, "{}", other.to_toml()),
        }
    }
}

/// What stands under a name: a value, a section, or a list of sections.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Value(Value),
    Table(Table),
    Tables(Vec<(Place, Table)>),
}

impl Item {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Value(value) => value.kind(),
            Self::Table(_) => "a section",
            Self::Tables(_) => "a list of sections",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) name_at: Place,
    pub(super) item: Item,
    pub(super) item_at: Place,
}

/// The entries of a section in the order of writing.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) entries: Vec<Entry>,
}

impl Table {
    pub(super) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|e| e.name == name)
    }

    /// Whether a list of sections stands under `name`.
    pub(super) fn is_list(&self, name: &str) -> bool {
        self.get(name).is_some_and(|entry| matches!(entry.item, Item::Tables(_)))
    }

    pub(super) fn put(&mut self, entry: Entry) {
        match self.get_mut(&entry.name) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    /// Lays `other` over this: sections merge, anything else is replaced.
    pub(super) fn overlay(&mut self, other: Self) {
        for entry in other.entries {
            match (self.get_mut(&entry.name), entry.item) {
                (Some(Entry { item: Item::Table(below), item_at, .. }), Item::Table(above)) => {
                    below.overlay(above);
                    *item_at = entry.item_at;
                }
                (_, item) => self.put(Entry { item, ..entry }),
            }
        }
    }
}

/// Turns parsed TOML into a [`Table`] with places.
pub(super) struct Converter<'t> {
    source: Arc<str>,
    text: &'t str,
}

impl<'t> Converter<'t> {
    pub(super) fn new(source: &str, text: &'t str) -> Self {
        Self { source: source.into(), text }
    }

    pub(super) fn document(&self) -> Result<Table, Problem> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let at = self.place(error.span().map_or(0, |span| span.start));
            let why = error.message().replace('\n', " ");
            Problem::new(format!("{at}: not valid TOML: {why}"))
                .with_help("a field is written name = \"value\", a section [name]")
        })?;
        self.table("", table.get_ref())
    }

    /// The place of a byte of the text.
    fn place(&self, byte: usize) -> Place {
        let before = self.text.get(..byte).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        Place { source: Arc::clone(&self.source), position: Some((line, column)) }
    }

    fn table(&self, path: &str, table: &DeTable<'_>) -> Result<Table, Problem> {
        let mut entries: Vec<(usize, Entry)> = Vec::new();
        for (name, value) in table {
            let path = join(path, name.get_ref());
            let entry = Entry {
                name: name.get_ref().to_string(),
                name_at: self.place(name.span().start),
                item: self.item(&path, value)?,
                item_at: self.place(value.span().start),
            };
            entries.push((name.span().start, entry));
        }
        entries.sort_by_key(|(start, _)| *start);
        Ok(Table { entries: entries.into_iter().map(|(_, entry)| entry).collect() })
    }

    fn item(&self, path: &str, value: &Spanned<DeValue<'_>>) -> Result<Item, Problem> {
        match value.get_ref() {
            DeValue::Table(table) => self.table(path, table).map(Item::Table),
            DeValue::Array(items)
                if items.iter().any(|i| matches!(i.get_ref(), DeValue::Table(_))) =>
            {
                let tables = items.iter().enumerate().map(|(index, item)| match item.get_ref() {
                    DeValue::Table(table) => {
                        let table = self.table(&format!("{path}[{index}]"), table)?;
                        Ok((self.place(item.span().start), table))
                    }
                    _ => Err(self.refuse(path, item, "sections and values in one list")),
                });
                tables.collect::<Result<_, _>>().map(Item::Tables)
            }
            _ => self.value(path, value).map(Item::Value),
        }
    }

    fn value(&self, path: &str, value: &Spanned<DeValue<'_>>) -> Result<Value, Problem> {
        match value.get_ref() {
            DeValue::String(text) => Ok(Value::Text(text.to_string())),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map(Value::Integer)
                .map_err(|_| self.refuse(path, value, "the number is too large")),
            DeValue::Float(number) => number
                .as_str()
                .parse()
                .map(Value::Number)
                .map_err(|_| self.refuse(path, value, "not a number")),
            DeValue::Boolean(flag) => Ok(Value::Flag(*flag)),
            DeValue::Array(items) => {
                items.iter().map(|i| self.value(path, i)).collect::<Result<_, _>>().map(Value::List)
            }
            DeValue::Datetime(_) => Err(self
                .refuse(path, value, "a date has no meaning here")
                .with_help("write a length of time as a text, such as \"30 min\"")),
            DeValue::Table(_) => Err(self.refuse(path, value, "a section within a list of lists")),
        }
    }

    fn refuse(&self, path: &str, value: &Spanned<DeValue<'_>>, why: &str) -> Problem {
        Problem::new(format!("{}: {path}: {why}", self.place(value.span().start)))
    }
}

/// The name of a field within a section, dotted.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
