//! Constants fitted to measured points, and how far the model is from each of them.

use serde::Serialize;

use super::read::study;
use crate::checkpoint::interval::maximise;
use crate::progress::Progress;
use crate::scenario::{BANDWIDTH, Document, Problem, Section, TIME, Value};

/// What measurements of a system showed: a rate at each of several numbers of nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// The estimate of a report that the rates are values of, such as `job.write_throughput`.
    pub estimate: String,
    /// The fields of the scenario that are fitted, such as `system.device_write`.
    pub fit: Vec<String>,
    /// The points.
    pub points: Vec<Point>,
}

/// A measured rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Compute nodes.
    pub nodes: u32,
    /// The rate, in bytes per second or operations per second.
    pub rate: f64,
    /// What it was, and where it is written.
    pub source: String,
}

/// A fitted model beside what it was fitted to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// The estimate that was compared.
    pub estimate: String,
    /// The fitted fields, as assignments.
    pub fitted: Vec<String>,
    /// The points.
    pub points: Vec<Compared>,
    /// Mean over the points of the size of the error.
    pub mean_error: f64,
    /// Runs of the model that the fit took.
    pub runs: u32,
}

/// A measured rate and the model's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Compute nodes.
    pub nodes: u32,
    /// What was measured, in bytes or operations per second.
    pub measured: f64,
    /// What the model says.
    pub simulated: f64,
    /// `simulated / measured - 1`.
    pub error: f64,
    /// What was measured.
    pub source: String,
}

/// The published write rates of the file system that `fusionsim-bgp` models.
pub const PUBLISHED: &str = include_str!("presets/published-writes.toml");

/// A fitted field is sought between its value divided and multiplied by this.
const REACH: f64 = 4.0;
/// With several fields, how often each is fitted with the others held.
const ROUNDS: u32 = 3;

impl Measurements {
    /// Reads measurements from TOML: `estimate`, `fit`, and for each point `nodes`, `rate`, `source`.
    ///
    /// # Errors
    /// What is refused, with its place and the fix.
    pub fn parse(source: &str, text: &str) -> Result<Self, Problem> {
        let document = Document::parse(source, text)?;
        let (measurements, _) = document.read(|root| {
            let estimate = root.text("estimate").or("job.write_throughput")?;
            let field = |value: &Value| match value {
                Value::Text(name) => Ok(name.clone()),
                other => Err(Problem::new(format!("{other} is no name of a field"))
                    .with_help("write fit = [\"system.device_write\"]")),
            };
            let fit = root.list("fit", field).optional()?.unwrap_or_default();
            let points = root.sections("point", point)?;
            if points.is_empty() {
                return Err(root.refuse("point", "there is none").with_help("write [[point]]"));
            }
            Ok(Self { estimate, fit, points })
        })?;
        Ok(measurements)
    }

    /// Fits the fields and compares; without fields it only compares. The sum of the squared
    /// logarithms of simulated over measured is made smallest, so that a rate twice too high
    /// weighs as much as one half of what it should be.
    ///
    /// # Errors
    /// When a field that is to be fitted is no bandwidth or time of the scenario, or the scenario
    /// is refused.
    pub fn calibrate(&self, document: &Document) -> Result<Calibration, Problem> {
        let mut document = document.clone();
        let mut runs = 0;
        let fields: Vec<Quantity> =
            self.fit.iter().map(|name| Quantity::of(&document, name)).collect::<Result<_, _>>()?;
        let mut values: Vec<f64> = fields.iter().map(|field| field.value).collect();
        let rounds = if fields.len() > 1 { ROUNDS } else { 1 };
        for _ in 0..rounds {
            for (index, field) in fields.iter().enumerate() {
                let (low, high) = (values[index] / REACH, values[index] * REACH);
                // What is refused here is refused again, and reported, when the points are compared.
                let best = maximise((low, high), |value| {
                    let mut changed = document.clone();
                    runs += 1;
                    let compared =
                        changed.set(&field.assignment(value)).and_then(|()| self.compare(&changed));
                    let distance = |c: &Compared| (c.simulated / c.measured).ln().powi(2);
                    compared.map_or(f64::NEG_INFINITY, |all| -all.iter().map(distance).sum::<f64>())
                });
                values[index] = best.at;
                document.set(&field.assignment(best.at))?;
            }
        }
        let points = self.compare(&document)?;
        let mean_error = points.iter().map(|p| p.error.abs()).sum::<f64>() / points.len() as f64;
        let fitted = fields.iter().zip(&values).map(|(field, value)| field.assignment(*value));
        let estimate = self.estimate.clone();
        Ok(Calibration { estimate, fitted: fitted.collect(), points, mean_error, runs })
    }

    fn compare(&self, document: &Document) -> Result<Vec<Compared>, Problem> {
        let compare = |point: &Point| {
            let mut document = document.clone();
            document.set(&format!("nodes.count={}", point.nodes))?;
            let report = study(&document)?.findings(1, &Progress::default()).report;
            let Some(estimate) = report.estimate(&self.estimate) else {
                let names: Vec<&str> = report.estimates.iter().map(|(n, _)| n.as_str()).collect();
                return Err(Problem::new(format!("no estimate is called '{}'", self.estimate))
                    .with_help(format!("there are {}", names.join(", "))));
            };
            Ok(Compared {
                nodes: point.nodes,
                measured: point.rate,
                simulated: estimate.mean,
                error: estimate.mean / point.rate - 1.0,
                source: point.source.clone(),
            })
        };
        self.points.iter().map(compare).collect()
    }
}

fn point(section: &mut Section<'_>) -> Result<Point, Problem> {
    let nodes = section.integer("nodes").at_least(1).at_most(super::MOST_NODES).required()?;
    let nodes = u32::try_from(nodes).map_err(|_| section.refuse("nodes", "too many"))?;
    let rate = section.field("rate", |value| match value {
        Value::Text(_) => BANDWIDTH.read(value),
        #[expect(clippy::cast_precision_loss, reason = "a measured rate")]
        Value::Integer(rate) => Ok(*rate as f64),
        Value::Number(rate) => Ok(*rate),
        other => Err(Problem::new(format!("{other} is no rate"))
            .with_help("write \"113 GB/s\", or a number of operations per second")),
    });
    Ok(Point { nodes, rate: rate.positive().required()?, source: section.text("source").or("")? })
}

/// A field of a scenario that can be fitted.
struct Quantity {
    name: String,
    /// In bytes a second, or seconds.
    value: f64,
    unit: &'static str,
    /// One of the unit, in bytes a second or seconds.
    unit_value: f64,
}

impl Quantity {
    fn of(document: &Document, name: &str) -> Result<Self, Problem> {
        let refuse = |why: &str| {
            Problem::new(format!("fit: {name}: {why}")).with_help(
                "name bandwidths or times that the scenario gives, such as system.device_write",
            )
        };
        let value = document.peek(name).ok_or_else(|| refuse("the scenario does not give it"))?;
        let read = [(&BANDWIDTH, "MB/s", 1e6), (&TIME, "us", 1e-6)].into_iter().find_map(
            |(dimension, unit, unit_value)| {
                dimension.read(value).ok().map(|value| (value, unit, unit_value))
            },
        );
        match read {
            Some((value, unit, unit_value)) if value > 0.0 => {
                Ok(Self { name: name.to_owned(), value, unit, unit_value })
            }
            _ => Err(refuse(&format!("{value} is no bandwidth or time above zero"))),
        }
    }

    /// The field with another value, to seven digits.
    fn assignment(&self, value: f64) -> String {
        let number = value / self.unit_value;
        let rounded = format!("{number:.6e}").parse().unwrap_or(number);
        format!("{}='{rounded} {}'", self.name, self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::PRESETS;
    use crate::scenario::Layers;

    fn document(nodes: u32) -> Document {
        let assignments = [format!("nodes.count={nodes}"), "workload.transfers=2".to_owned()];
        let layers = Layers {
            preset: Some("fusionsim-bgp"),
            assignments: &assignments,
            ..Layers::default()
        };
        layers.document("scale", PRESETS).unwrap()
    }

    #[test]
    fn a_fit_recovers_the_constant_behind_the_points() {
        let mut truth = document(64);
        truth.set("system.device_write='100 MB/s'").unwrap();
        let points = [16, 64].map(|nodes| {
            truth.set(&format!("nodes.count={nodes}")).unwrap();
            let report = study(&truth).unwrap().findings(1, &Progress::default()).report;
            let rate = report.estimate("write.throughput").unwrap().mean;
            Point { nodes, rate, source: String::new() }
        });
        let measurements = Measurements {
            estimate: "write.throughput".into(),
            fit: vec!["system.device_write".into()],
            points: points.into(),
        };
        let calibration = measurements.calibrate(&document(64)).unwrap();
        assert!(calibration.mean_error < 1e-4, "{calibration:?}");
        let mut fitted = document(64);
        fitted.set(&calibration.fitted[0]).unwrap();
        let rate = Quantity::of(&fitted, "system.device_write").unwrap().value;
        assert!((rate / 1e8 - 1.0).abs() < 1e-6, "{calibration:?}");
    }

    #[test]
    fn the_published_points_are_read() {
        let published = Measurements::parse("published", PUBLISHED).unwrap();
        assert!(published.points.iter().all(|p| p.rate > 1e11 && !p.source.is_empty()));
    }

    #[test]
    fn refuses_what_cannot_be_fitted_or_compared() {
        let point = "[[point]]\nnodes = 4\nrate = \"1 GB/s\"\n";
        for (text, why) in [
            (format!("fit = \"system.kind\"\n{point}"), "system.kind"),
            (format!("fit = \"system.nothing\"\n{point}"), "does not give it"),
            (format!("estimate = \"speed\"\n{point}"), "no estimate is called 'speed'"),
        ] {
            let measurements = Measurements::parse("m.toml", &text).unwrap();
            let problem = measurements.calibrate(&document(4)).unwrap_err();
            assert!(problem.message.contains(why), "{problem}");
        }
        for text in ["", "[[point]]\nnodes = 4\nrate = \"1 GB\"", "[[point]]\nnodes = 4\nrate = -1"]
        {
            assert!(Measurements::parse("m.toml", text).is_err(), "{text}");
        }
    }
}
