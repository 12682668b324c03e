//! Scenarios that come with the program, and how a run's scenario is put together.

use super::Problem;
use super::advice::advice;
use super::document::Document;
use super::value::Value;

/// A scenario that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// The TOML text. Its first line, a comment, says what it is.
    pub text: &'static str,
}

impl Preset {
    /// What it is, in a line.
    #[must_use]
    pub fn summary(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches('#').trim()
    }

    /// The one of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn find<'p>(presets: &'p [Self], name: &str) -> Result<&'p Self, Problem> {
        presets.iter().find(|p| p.name == name).ok_or_else(|| {
            Problem::new(format!("there is no preset '{name}'")).with_help(advice(
                name,
                "presets",
                &names(presets),
            ))
        })
    }

    fn document(&self) -> Result<Document, Problem> {
        Document::parse(&format!("preset {}", self.name), self.text)
    }
}

/// What a run's scenario is made from, weakest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layers<'a> {
    /// A preset by name; it wins over the field `preset` of the file.
    pub preset: Option<&'a str>,
    /// Name and text of a scenario file.
    pub file: Option<(&'a str, &'a str)>,
    /// Assignments, as in `machine.nodes=16`.
    pub assignments: &'a [String],
}

impl Layers<'_> {
    /// The document for a simulator of this `kind` with these `presets`. The fields `kind` and
    /// `preset` at the top of a file are used up by this.
    ///
    /// # Errors
    /// For an unknown preset, a file for another simulator, and what is no TOML.
    pub fn document(&self, kind: &str, presets: &[Preset]) -> Result<Document, Problem> {
        let mut file = self.file.map(|(source, text)| Document::parse(source, text)).transpose()?;
        let named = match &mut file {
            Some(file) => {
                check_kind(file, kind)?;
                named_preset(file)?
            }
            None => None,
        };
        let mut document = match (self.preset.or(named.as_deref()), &file) {
            (Some(name), _) => Preset::find(presets, name)?.document()?,
            (None, Some(_)) => Document::parse("scenario", "")?,
            (None, None) => {
                return Err(Problem::new("neither a scenario file nor a preset is given")
                    .with_help(format!("the presets are {}", names(presets).join(", "))));
            }
        };
        if let Some(file) = file {
            document.overlay(file);
        }
        for assignment in self.assignments {
            document.set(assignment)?;
        }
        Ok(document)
    }
}

fn check_kind(file: &mut Document, kind: &str) -> Result<(), Problem> {
    match file.take("kind") {
        None => Ok(()),
        Some(Value::Text(text)) if text == kind => Ok(()),
        Some(other) => Err(Problem::new(format!("the scenario's kind is {other}, not {kind}"))
            .with_help(format!("run it with 'intarsia simulate {other}'"))),
    }
}

fn named_preset(file: &mut Document) -> Result<Option<String>, Problem> {
    match file.take("preset") {
        None => Ok(None),
        Some(Value::Text(name)) => Ok(Some(name)),
        Some(other) => Err(Problem::new(format!("preset: {} instead of a name", other.kind()))
            .with_help("write preset = \"name\"")),
    }
}

fn names(presets: &[Preset]) -> Vec<&'static str> {
    presets.iter().map(|preset| preset.name).collect()
}
