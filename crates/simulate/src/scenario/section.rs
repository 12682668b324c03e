//! A section that is being read: it remembers what was asked for.

use super::Problem;
use super::advice::advice;
use super::field::Field;
use super::quantity::{self, Dimension};
use super::value::{Entry, Item, Place, Table, Value, join};

/// A section of a scenario, and what was read from it so far.
pub struct Section<'d> {
    path: String,
    at: &'d Place,
    table: Option<&'d Table>,
    known: Vec<&'static str>,
    effective: toml::Table,
}

impl<'d> Section<'d> {
    pub(super) fn new(path: impl Into<String>, at: &'d Place, table: Option<&'d Table>) -> Self {
        let effective = toml::Table::new();
        Self { path: path.into(), at, table, known: Vec::new(), effective }
    }

    /// Whether something is given under `name`; this does not count as asking for it.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// Whether a section is given under `name`; this does not count as asking for it.
    #[must_use]
    pub fn is_section(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|entry| matches!(entry.item, Item::Table(_)))
    }

    /// Accepts fields that have no meaning beside others, which a lower layer may have given.
    pub fn ignore(&mut self, names: &[&'static str]) {
        self.known.extend(names);
    }

    /// A text.
    pub fn text(&mut self, name: &'static str) -> Field<'_, 'd, String> {
        self.field(name, |value| match value {
            Value::Text(text) => Ok(text.clone()),
            other => Err(Problem::new(format!("{} instead of a text", other.kind()))
                .with_help("write it in quotes")),
        })
    }

    /// A whole number, not negative.
    pub fn integer(&mut self, name: &'static str) -> Field<'_, 'd, u64> {
        self.field(name, |value| match value {
            Value::Integer(number) => {
                u64::try_from(*number).map_err(|_| Problem::new(format!("{number} is negative")))
            }
            other => Err(Problem::new(format!("{} instead of a whole number", other.kind()))
                .with_help("write digits without quotes, such as 1_048_576")),
        })
    }

    /// A number without a unit; a share may be written as a text, `"70 %"`.
    pub fn number(&mut self, name: &'static str) -> Field<'_, 'd, f64> {
        self.field(name, |value| {
            let refuse = |why: String| Problem::new(why).with_help("write a number, such as 0.7");
            let number = match value {
                #[expect(clippy::cast_precision_loss, reason = "a factor, not a count")]
                Value::Integer(number) => *number as f64,
                Value::Number(number) => *number,
                Value::Text(text) => text
                    .strip_suffix('%')
                    .and_then(|percent| percent.trim().parse::<f64>().ok())
                    .map(|percent| percent / 100.0)
                    .ok_or_else(|| refuse(format!("'{text}' is not a number")))?,
                other => return Err(refuse(format!("{} instead of a number", other.kind()))),
            };
            if number.is_finite() {
                Ok(number)
            } else {
                Err(refuse(format!("{number} is not finite")))
            }
        })
    }

    /// True or false.
    pub fn flag(&mut self, name: &'static str) -> Field<'_, 'd, bool> {
        self.field(name, |value| match value {
            Value::Flag(flag) => Ok(*flag),
            other => Err(Problem::new(format!("{} instead of true or false", other.kind()))
                .with_help("write true or false without quotes")),
        })
    }

    /// One of `choices`.
    pub fn choice<T: Copy + 'static>(
        &mut self,
        name: &'static str,
        choices: &'static [(&'static str, T)],
    ) -> Field<'_, 'd, T> {
        self.field(name, move |value| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let Value::Text(text) = value else {
                return Err(Problem::new(format!("{} instead of a name", value.kind()))
                    .with_help(format!("the choices are {}", names.join(", "))));
            };
            choices.iter().find(|(name, _)| name == text).map(|(_, choice)| *choice).ok_or_else(
                || {
                    Problem::new(format!("'{text}' is none of the choices"))
                        .with_help(advice(text, "choices", &names))
                },
            )
        })
    }

    /// A number with its unit, in the base unit of `dimension`.
    pub fn quantity(
        &mut self,
        name: &'static str,
        dimension: &'static Dimension,
    ) -> Field<'_, 'd, f64> {
        self.field(name, |value| dimension.read(value))
    }

    /// A length of time, in seconds.
    pub fn seconds(&mut self, name: &'static str) -> Field<'_, 'd, f64> {
        self.quantity(name, &quantity::TIME)
    }

    /// An amount of data, in bytes.
    pub fn bytes(&mut self, name: &'static str) -> Field<'_, 'd, f64> {
        self.quantity(name, &quantity::BYTES)
    }

    /// A bandwidth, in bytes per second.
    pub fn bytes_per_second(&mut self, name: &'static str) -> Field<'_, 'd, f64> {
        self.quantity(name, &quantity::BANDWIDTH)
    }

    /// A power, in watts.
    pub fn watts(&mut self, name: &'static str) -> Field<'_, 'd, f64> {
        self.quantity(name, &quantity::POWER)
    }

    /// A list whose elements `read` turns into values; a single value is a list of one.
    pub fn list<T: 'd>(
        &mut self,
        name: &'static str,
        read: impl Fn(&Value) -> Result<T, Problem> + 'd,
    ) -> Field<'_, 'd, Vec<T>> {
        self.field(name, move |value| match value {
            Value::List(values) => values.iter().map(&read).collect(),
            single => Ok(vec![read(single)?]),
        })
    }

    /// A field that `read` turns into a value. The problem that it returns says only what is wrong
    /// with the value; place and name are put in front of it.
    pub fn field<T: 'd>(
        &mut self,
        name: &'static str,
        read: impl Fn(&Value) -> Result<T, Problem> + 'd,
    ) -> Field<'_, 'd, T> {
        Field::new(self, name, Box::new(read))
    }

    /// The section `name` within this one; a missing one is read as an empty one.
    ///
    /// # Errors
    /// What `read` refuses, a field that it did not ask for, and something that is no section.
    pub fn section<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.known.push(name);
        let (at, table) = match self.entry(name) {
            None => (self.at, None),
            Some(Entry { item: Item::Table(table), item_at, .. }) => (item_at, Some(table)),
            Some(entry) => {
                let why = format!("{} instead of a section", entry.item.kind());
                return Err(self.refuse(name, &why).with_help(format!("write [{name}]")));
            }
        };
        let mut inner = Section::new(join(&self.path, name), at, table);
        let result = read(&mut inner)?;
        let effective = inner.finish()?;
        if !effective.is_empty() {
            self.effective.insert(name.to_owned(), toml::Value::Table(effective));
        }
        Ok(result)
    }

    /// The same for a section that may be missing.
    ///
    /// # Errors
    /// As [`Section::section`].
    pub fn optional_section<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        self.known.push(name);
        if self.has(name) { self.section(name, read).map(Some) } else { Ok(None) }
    }

    /// The sections `[[name]]` in their order, none when there are none.
    ///
    /// # Errors
    /// As [`Section::section`].
    pub fn sections<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(&mut Section<'_>) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        self.known.push(name);
        let tables = match self.entry(name).map(|entry| &entry.item) {
            None => return Ok(Vec::new()),
            Some(Item::Value(Value::List(values))) if values.is_empty() => return Ok(Vec::new()),
            Some(Item::Tables(tables)) => tables,
            Some(other) => {
                let why = format!("{} instead of a list of sections", other.kind());
                return Err(self.refuse(name, &why).with_help(format!("write [[{name}]]")));
            }
        };
        let mut results = Vec::new();
        let mut effective = Vec::new();
        for (index, (at, table)) in tables.iter().enumerate() {
            let path = join(&self.path, &format!("{name}[{index}]"));
            let mut inner = Section::new(path, at, Some(table));
            results.push(read(&mut inner)?);
            effective.push(toml::Value::Table(inner.finish()?));
        }
        self.effective.insert(name.to_owned(), toml::Value::Array(effective));
        Ok(results)
    }

    /// A problem with the field `name` of this section, or with the section when it is missing.
    #[must_use]
    pub fn refuse(&self, name: &str, why: &str) -> Problem {
        let at = self.entry(name).map_or(self.at, |entry| &entry.item_at);
        Problem::new(format!("{at}: {}: {why}", join(&self.path, name)))
    }

    pub(super) fn entry(&self, name: &str) -> Option<&'d Entry> {
        self.table.and_then(|table| table.get(name))
    }

    pub(super) fn ask(&mut self, name: &'static str) {
        self.known.push(name);
    }

    pub(super) fn record(&mut self, name: &str, value: &Value) {
        self.effective.insert(name.to_owned(), value.to_toml());
    }

    /// The effective section.
    pub(super) fn finish(self) -> Result<toml::Table, Problem> {
        let entries = self.table.map_or(&[][..], |table| &table.entries);
        match entries.iter().find(|entry| !self.known.contains(&entry.name.as_str())) {
            None => Ok(self.effective),
            Some(unknown) => {
                let (at, name) = (&unknown.name_at, join(&self.path, &unknown.name));
                Err(Problem::new(format!("{at}: {name}: unknown field")).with_help(advice(
                    &unknown.name,
                    "fields",
                    &self.known,
                )))
            }
        }
    }
}
