//! Reading JSON field by field, with errors that name the file, the field and the fix.

use serde_json::{Map, Value};

use crate::Problem;
use crate::advice::advice;

/// The largest whole number that every JSON program reads exactly.
const MAX_WHOLE: u64 = 1 << 53;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    file: &'a str,
    path: String,
    value: &'a Value,
}

/// Parses the text of a file.
pub(crate) fn parse(file: &str, text: &str) -> Result<Value, Problem> {
    serde_json::from_str(text).map_err(|error| {
        let help = if error.is_eof() { "the file ends too early: is it whole?" } else { "" };
        let problem = Problem::new(format!("{file}: no JSON: {error}"));
        if help.is_empty() { problem } else { problem.with_help(help) }
    })
}

impl<'a> Node<'a> {
    pub(crate) fn root(file: &'a str, value: &'a Value) -> Self {
        Self { file, path: String::new(), value }
    }

    /// A problem with this value.
    pub(crate) fn refuse(&self, why: impl std::fmt::Display) -> Problem {
        let Self { file, path, .. } = self;
        if path.is_empty() {
            Problem::new(format!("{file}: {why}"))
        } else {
            Problem::new(format!("{file}: {path}: {why}"))
        }
    }

    fn child(&self, name: &str, value: &'a Value) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { file: self.file, path: format!("{}{dot}{name}", self.path), value }
    }

    fn object(&self) -> Result<&'a Map<String, Value>, Problem> {
        self.value.as_object().ok_or_else(|| self.wrong("an object"))
    }

    fn wrong(&self, expected: &str) -> Problem {
        self.refuse(format!("{} instead of {expected}", kind(self.value)))
    }

    /// Refuses fields that are none of these.
    pub(crate) fn only(&self, fields: &[&str]) -> Result<(), Problem> {
        let unknown = self.object()?.keys().find(|key| !fields.contains(&key.as_str()));
        match unknown {
            Some(key) => {
                Err(self.refuse(format!("unknown field '{key}'")).with_help(advice(key, fields)))
            }
            None => Ok(()),
        }
    }

    /// The field, which must be there.
    pub(crate) fn field(&self, name: &str) -> Result<Self, Problem> {
        self.optional(name)?.ok_or_else(|| self.refuse(format!("'{name}' is missing")))
    }

    /// The field, if it is there and not null.
    pub(crate) fn optional(&self, name: &str) -> Result<Option<Self>, Problem> {
        let value = self.object()?.get(name).filter(|value| !value.is_null());
        Ok(value.map(|value| self.child(name, value)))
    }

    /// All fields with their names.
    pub(crate) fn fields(&self) -> Result<impl Iterator<Item = (&'a str, Self)>, Problem> {
        let fields = self.object()?.iter();
        Ok(fields.map(|(name, value)| (name.as_str(), self.child(name, value))))
    }

    /// The elements of an array.
    pub(crate) fn items(&self) -> Result<impl Iterator<Item = Self>, Problem> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("an array"))?;
        Ok(items.iter().enumerate().map(|(index, value)| Self {
            file: self.file,
            path: format!("{}[{index}]", self.path),
            value,
        }))
    }

    /// The elements of an array that may be left out.
    pub(crate) fn items_of(&self, name: &str) -> Result<Vec<Self>, Problem> {
        match self.optional(name)? {
            Some(array) => Ok(array.items()?.collect()),
            None => Ok(Vec::new()),
        }
    }

    pub(crate) fn is_object(&self) -> bool {
        self.value.is_object()
    }

    pub(crate) fn text(&self) -> Result<&'a str, Problem> {
        self.value.as_str().ok_or_else(|| self.wrong("a text"))
    }

    pub(crate) fn boolean(&self) -> Result<bool, Problem> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// A number that is not negative.
    pub(crate) fn number(&self) -> Result<f64, Problem> {
        let number = self.value.as_f64().ok_or_else(|| self.wrong("a number"))?;
        if number < 0.0 {
            return Err(self.refuse(format!("{number} is negative")));
        }
        Ok(number)
    }

    /// A number above zero.
    pub(crate) fn positive(&self) -> Result<f64, Problem> {
        let number = self.number()?;
        if number == 0.0 {
            return Err(self.refuse("0 must be more than zero"));
        }
        Ok(number)
    }

    /// A whole number that is not negative.
    pub(crate) fn whole(&self) -> Result<u64, Problem> {
        if let Some(whole) = self.value.as_u64().filter(|whole| *whole <= MAX_WHOLE) {
            return Ok(whole);
        }
        let number = self.number()?;
        Err(self.refuse(format!("{number} is no whole number up to {MAX_WHOLE}")))
    }

    /// A whole number within these limits.
    pub(crate) fn count(&self, least: u32, most: u32) -> Result<u32, Problem> {
        let whole = self.whole()?;
        u32::try_from(whole)
            .ok()
            .filter(|count| (least..=most).contains(count))
            .ok_or_else(|| self.refuse(format!("{whole} must lie between {least} and {most}")))
    }

    /// One of these words.
    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Problem> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.refuse(format!("'{text}' is unknown")).with_help(advice(text, &known))
        })
    }

    /// Checks `format` and `version` of our own files.
    pub(crate) fn is_format(&self, format: &str) -> Result<(), Problem> {
        let found = self.field("format")?;
        if found.text()? != format {
            return Err(found.refuse(format!("'{}' is not '{format}'", found.text()?)));
        }
        let version = self.field("version")?;
        if version.whole()? != 1 {
            let why = format!("version {} is unknown; this program reads version 1", version.value);
            return Err(version.refuse(why));
        }
        Ok(())
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "true or false".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text '{}'", text.chars().take(40).collect::<String>()),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
