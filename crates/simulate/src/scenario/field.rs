//! A field that is being read: its conditions, and what holds when it is missing.

use std::fmt::Display;

use super::Problem;
use super::section::Section;
use super::value::{Item, Value};

type Read<'d, T> = Box<dyn Fn(&Value) -> Result<T, Problem> + 'd>;

/// A field of a section; [`Field::required`], [`Field::or`] or [`Field::optional`] reads it.
#[must_use]
pub struct Field<'s, 'd, T> {
    section: &'s mut Section<'d>,
    name: &'static str,
    read: Read<'d, T>,
}

impl<'s, 'd, T: 'd> Field<'s, 'd, T> {
    pub(super) fn new(section: &'s mut Section<'d>, name: &'static str, read: Read<'d, T>) -> Self {
        Self { section, name, read }
    }

    /// Refuses a value that `holds` does not accept; `condition` completes "must …".
    pub fn must(self, condition: impl Display + 'd, holds: impl Fn(&T) -> bool + 'd) -> Self {
        let inner = self.read;
        let read = move |value: &Value| {
            inner(value).and_then(|read| {
                let why = || Problem::new(format!("{value} must {condition}"));
                if holds(&read) { Ok(read) } else { Err(why()) }
            })
        };
        Self { read: Box::new(read), ..self }
    }

    /// The value, or `default` when none is given. The default is read like a given value.
    ///
    /// # Errors
    /// When the value is refused.
    pub fn or(self, default: impl Into<Value>) -> Result<T, Problem> {
        let default = default.into();
        self.value_or(Some(&default)).and_then(|(value, missing)| value.ok_or(missing))
    }

    /// The value, which must be given.
    ///
    /// # Errors
    /// When it is missing or refused.
    pub fn required(self) -> Result<T, Problem> {
        self.value_or(None).and_then(|(value, missing)| value.ok_or(missing))
    }

    /// The value, if one is given.
    ///
    /// # Errors
    /// When the value is refused.
    pub fn optional(self) -> Result<Option<T>, Problem> {
        self.value_or(None).map(|(value, _)| value)
    }

    /// The value, and the problem that there is when it must not be missing.
    fn value_or(self, default: Option<&Value>) -> Result<(Option<T>, Problem), Problem> {
        let Self { section, name, read } = self;
        section.ask(name);
        let missing = section.refuse(name, "missing").with_help(format!("write {name} = …"));
        let value = match section.entry(name).map(|entry| &entry.item) {
            Some(Item::Value(value)) => Some(value),
            Some(other) => {
                return Err(section.refuse(name, &format!("{} instead of a value", other.kind())));
            }
            None => default,
        };
        let Some(value) = value else { return Ok((None, missing)) };
        let result = read(value).map_err(|problem| Problem {
            message: section.refuse(name, &problem.message).message,
            help: problem.help,
        })?;
        section.record(name, value);
        Ok((Some(result), missing))
    }
}

impl<'d> Field<'_, 'd, f64> {
    /// Refuses zero and negative values.
    pub fn positive(self) -> Self {
        self.must("be more than zero", |number| *number > 0.0)
    }

    /// Refuses negative values.
    pub fn not_negative(self) -> Self {
        self.must("not be negative", |number| *number >= 0.0)
    }

    /// Refuses what is no share of a whole.
    pub fn share(self) -> Self {
        self.must("lie between 0 and 1 (or \"0 %\" and \"100 %\")", |number| {
            (0.0..=1.0).contains(number)
        })
    }
}

impl Field<'_, '_, u64> {
    /// Refuses smaller values.
    pub fn at_least(self, least: u64) -> Self {
        self.must(format!("be at least {least}"), move |number| *number >= least)
    }

    /// Refuses larger values.
    pub fn at_most(self, most: u64) -> Self {
        self.must(format!("be at most {most}"), move |number| *number <= most)
    }
}
