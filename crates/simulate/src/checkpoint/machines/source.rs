//! The `[[source]]` entries of a scenario: where a figure comes from.

use crate::scenario::{Problem, Section};

/// Where one figure of a scenario comes from.
///
/// ```toml
/// [[source]]
/// figure = "machine.nodes"
/// basis = "published"                # or "derived", "measured", "assumed"
/// text = "OLCF, Frontier User Guide: 77 cabinets of 128 nodes"
/// low = "2 h"                        # with "assumed": how wrong it may be
/// high = "24 h"
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The field, such as `machine.nodes`.
    pub figure: String,
    /// How firm it is.
    pub basis: Basis,
    /// Document and date, or the reasoning.
    pub text: String,
    /// The range of an assumption, as written.
    pub range: Option<(String, String)>,
}

/// How firm a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Printed in the source.
    Published,
    /// Computed from what the source prints.
    Derived,
    /// Measured here.
    Measured,
    /// Nobody has published it; a range says how wrong it may be.
    Assumed,
}

static BASES: [(&str, Basis); 4] = [
    ("published", Basis::Published),
    ("derived", Basis::Derived),
    ("measured", Basis::Measured),
    ("assumed", Basis::Assumed),
];

impl Source {
    /// Reads one entry.
    ///
    /// # Errors
    /// When a field is missing or refused, or an assumption has no range.
    pub fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        let figure = section.text("figure").required()?;
        let basis = section.choice("basis", &BASES).required()?;
        let text = section.text("text").required()?;
        let range = match basis {
            Basis::Assumed => {
                Some((section.text("low").required()?, section.text("high").required()?))
            }
            Basis::Published | Basis::Derived | Basis::Measured => None,
        };
        Ok(Self { figure, basis, text, range })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::PRESETS;
    use crate::scenario::{BANDWIDTH, BYTES, Dimension, Document, POWER, Preset, TIME, Value};

    /// Presets of real machines, and the figures that must have a source where they are there.
    const MACHINES: [&str; 5] = ["frontier", "el-capitan", "aurora", "llama-3", "measured-store"];
    const FIGURES: [&str; 19] = [
        "machine.nodes",
        "machine.memory_per_node",
        "machine.reboot",
        "failures.lifetime.mean",
        "failures.shares.process",
        "failures.shares.reboot",
        "failures.shares.machine",
        "silent.node_mtbe",
        "storage.memory.write",
        "storage.memory.read",
        "storage.local.write",
        "storage.local.read",
        "storage.lower.write",
        "storage.lower.read",
        "storage.network",
        "storage.partner_copy",
        "storage.xor",
        "storage.reed_solomon",
        "power.compute",
    ];

    fn sources(preset: &Preset) -> (Document, Vec<Source>) {
        let document = Document::parse(preset.name, preset.text).unwrap();
        // Other sections are of no concern here, and the reader would refuse them.
        let text: String = preset.text.split_inclusive("[[source]]").skip(1).collect();
        let only = Document::parse(preset.name, &format!("[[source]]{text}")).unwrap();
        let sources = only.read(|root| root.sections("source", Source::read)).unwrap().0;
        (document, sources)
    }

    #[test]
    fn every_figure_of_a_machine_has_one_source() {
        for name in MACHINES {
            let (document, sources) = sources(Preset::find(PRESETS, name).unwrap());
            for figure in FIGURES.into_iter().filter(|figure| document.peek(figure).is_some()) {
                let count = sources.iter().filter(|source| source.figure == figure).count();
                assert_eq!(count, 1, "{name}: {figure}");
            }
            for source in &sources {
                assert!(FIGURES.contains(&source.figure.as_str()), "{name}: {source:?}");
                assert!(document.peek(&source.figure).is_some(), "{name}: no {}", source.figure);
                assert!(source.text.len() > 20, "{name}: {source:?}");
            }
        }
    }

    #[test]
    fn every_assumption_lies_within_its_range() {
        for name in MACHINES {
            let (document, sources) = sources(Preset::find(PRESETS, name).unwrap());
            for source in sources {
                let Some((low, high)) = source.range else { continue };
                let value = number(document.peek(&source.figure).unwrap());
                let [low, high] = [low, high].map(|bound| number(&Value::Text(bound)));
                assert!(low <= value && value <= high, "{name}: {}", source.figure);
            }
        }
    }

    fn number(value: &Value) -> f64 {
        let dimensions: [&Dimension; 4] = [&TIME, &BYTES, &BANDWIDTH, &POWER];
        let quantity = dimensions.iter().find_map(|dimension| dimension.read(value).ok());
        match value {
            Value::Integer(number) => *number as f64,
            Value::Number(number) => *number,
            Value::Text(text) => quantity.unwrap_or_else(|| text.parse().unwrap()),
            other => panic!("{other} is no number"),
        }
    }

    #[test]
    fn an_assumption_needs_a_range() {
        let text = "figure = 'machine.nodes'\nbasis = 'assumed'\ntext = 'a guess'";
        let document = Document::parse("s.toml", text).unwrap();
        let problem = document.read(Source::read).unwrap_err();
        assert!(problem.message.contains("low: missing"), "{problem}");
    }
}
