//! The `[failures]` table: what fails, how often, and where those figures come from.

use intarsia_des::InvalidParameter;

use super::{Bursts, Replay, TimeDistribution};
use crate::scenario::{Files, Problem, Section, Value};

/// How the nodes of a machine fail and how long they are away.
///
/// ```toml
/// scope = "system"            # or "node": every node fails by itself
/// nodes = 512                 # whose failures `lifetime` describes; needed with scope "system"
/// first = "equilibrium"       # or "ordinary": all nodes are new at the start
/// lifetime = { model = "weibull", shape = 0.65, scale = "9.6 h" }
/// repair = { model = "log-normal", median = "1.3 h", sigma = 1.1 }
/// bursts = { window = "60 s", sizes = [[1, 2310], [2, 67]] }
/// shares = { process = 0.2, reboot = "50 %", machine = 0.01 }
/// # or, instead of a lifetime, failures as they were recorded:
/// replay = "failures.csv"
/// fit = { source = "…", method = "maximum likelihood", n = 2400 }
/// ```
#[derive(Clone, Debug)]
pub struct FailureModel {
    /// What the times between failures belong to.
    pub scope: Scope,
    /// The nodes of the system whose failures `lifetime` describes; of no effect with
    /// [`Scope::Node`].
    pub nodes: u32,
    /// When the first failure comes.
    pub first: FirstFailure,
    /// Times between failures of a node, or of the described system, from start to start. Of a
    /// replay, exponential with the mean of the records: what formulas go by.
    pub lifetime: TimeDistribution,
    /// The failures themselves, when they were recorded.
    pub replay: Option<Replay>,
    /// How long a repair takes, if not no time.
    pub repair: Option<TimeDistribution>,
    /// How many nodes fail together, if not one.
    pub bursts: Option<Bursts>,
    /// Which part of the failures damages what.
    pub shares: Shares,
    /// Where the parameters come from, when they were fitted.
    pub fit: Option<Fit>,
}

/// What the times between failures belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Each node: the machine's failures are the superposition of all.
    #[default]
    Node,
    /// The machine as a whole: one process, and any node is hit.
    System,
}

/// When the first failure comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstFailure {
    /// The machine has run for long before the simulation starts.
    #[default]
    Equilibrium,
    /// A life begins at the start: with a Weibull shape below 1, a wave of early failures.
    Ordinary,
}

/// Which part of the failures damages what. The rest loses the nodes and all they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// Only the processes end: memory file systems and disks of the nodes survive.
    pub process: f64,
    /// The nodes reboot and come back with their disks.
    pub reboot: f64,
    /// All nodes of the machine are lost at once.
    pub machine: f64,
}

/// Where the parameters of a fit come from: what a reader needs to judge or repeat it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The records: publication, system, what was left out.
    pub source: String,
    /// The method, such as "maximum likelihood".
    pub method: String,
    /// How many times between failures were fitted.
    pub n: u64,
    /// The confidence level of `intervals`.
    pub confidence: Option<f64>,
    /// Parameters of `lifetime` and their confidence intervals, low and high; times in seconds.
    pub intervals: Vec<(&'static str, [f64; 2])>,
    /// Statistics of the goodness of fit.
    pub goodness: Vec<(&'static str, f64)>,
}

const PARAMETERS: [&str; 5] = ["mean_seconds", "shape", "scale_seconds", "median_seconds", "sigma"];
/// Akaike's criterion; Kolmogorov–Smirnov and Anderson–Darling with their p-values by so many
/// resamples.
const STATISTICS: [&str; 6] = ["aic", "ks", "ks_p", "ad", "ad_p", "resamples"];

static SCOPES: [(&str, Scope); 2] = [("node", Scope::Node), ("system", Scope::System)];
static FIRSTS: [(&str, FirstFailure); 2] =
    [("equilibrium", FirstFailure::Equilibrium), ("ordinary", FirstFailure::Ordinary)];

impl FailureModel {
    /// Nodes that fail independently of each other after a time drawn from `lifetime`; each failure
    /// loses one node for no time. With exponential lifetimes, the assumption of most of the
    /// literature.
    pub fn of_nodes(lifetime: TimeDistribution) -> Self {
        Self {
            scope: Scope::Node,
            nodes: 1,
            first: FirstFailure::default(),
            lifetime,
            replay: None,
            repair: None,
            bursts: None,
            shares: Shares::default(),
            fit: None,
        }
    }

    /// Reads the table; `files` gives the text of a file that it names.
    ///
    /// # Errors
    /// When a field is missing or refused.
    pub fn read(section: &mut Section<'_>, files: &Files<'_>) -> Result<Self, Problem> {
        if section.has("replay") {
            return Self::read_replay(section, files);
        }
        let scope = section.choice("scope", &SCOPES).or("node")?;
        let nodes = section.integer("nodes").at_least(1).at_most(u64::from(u32::MAX));
        let nodes = match scope {
            Scope::System => nodes.required()?,
            Scope::Node => nodes.optional()?.unwrap_or(1),
        };
        let time = |section: &mut Section<'_>| TimeDistribution::read(section, files);
        Ok(Self {
            scope,
            nodes: u32::try_from(nodes).unwrap_or(u32::MAX),
            first: section.choice("first", &FIRSTS).or("equilibrium")?,
            lifetime: section.section("lifetime", time)?,
            replay: None,
            repair: section.optional_section("repair", time)?,
            bursts: section.optional_section("bursts", Bursts::read)?,
            shares: section.section("shares", Shares::read)?,
            fit: section.optional_section("fit", Fit::read)?,
        })
    }

    /// Failures of a file; what it leaves open is drawn.
    fn read_replay(section: &mut Section<'_>, files: &Files<'_>) -> Result<Self, Problem> {
        // A preset's distributions give way to the records.
        section.ignore(&["scope", "nodes", "first", "lifetime", "bursts"]);
        let name = section.text("replay").required()?;
        let text = files(&name).map_err(|why| {
            section
                .refuse("replay", &why)
                .with_help("the path is relative to the scenario's directory")
        })?;
        let replay = Replay::parse(&name, &text)?;
        let lifetime = TimeDistribution::exponential(replay.mean_seconds())
            .map_err(|wrong| section.refuse("replay", &wrong.to_string()))?;
        Ok(Self {
            scope: Scope::System,
            nodes: replay.last_node().saturating_add(1),
            repair: section.optional_section("repair", |s| TimeDistribution::read(s, files))?,
            shares: section.section("shares", Shares::read)?,
            fit: section.optional_section("fit", Fit::read)?,
            replay: Some(replay),
            ..Self::of_nodes(lifetime)
        })
    }

    /// The same on a machine of `nodes`: recorded failures are those of the whole machine, however
    /// many of its nodes ever failed.
    #[must_use]
    pub fn on_machine(self, nodes: u32) -> Self {
        let nodes = if self.replay.is_some() { nodes } else { self.nodes };
        Self { nodes, ..self }
    }

    /// Mean time between failures of a job or machine of `nodes`, in seconds, bursts counting once.
    ///
    /// A model of a whole system is scaled in proportion: failures per node and second stay.
    pub fn mtbf_seconds(&self, nodes: u32) -> f64 {
        let described = match self.scope {
            Scope::Node => 1.0,
            Scope::System => f64::from(self.nodes.max(1)),
        };
        self.lifetime.mean_seconds() * described / f64::from(nodes.max(1))
    }

    /// Times between failures of a whole machine of `nodes`, where one distribution describes them:
    /// with scope "system", or when the nodes fail exponentially. `None` for superposed nodes.
    ///
    /// # Errors
    /// When the times leave the range of a distribution.
    pub fn system_gaps(&self, nodes: u32) -> Result<Option<TimeDistribution>, InvalidParameter> {
        if self.scope == Scope::Node && !self.lifetime.is_exponential() {
            return Ok(None);
        }
        let factor = self.mtbf_seconds(nodes) / self.lifetime.mean_seconds();
        self.lifetime.stretched(factor).map(Some)
    }
}

impl Shares {
    fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        let shares = Self {
            process: section.number("process").share().or(0.0)?,
            reboot: section.number("reboot").share().or(0.0)?,
            machine: section.number("machine").share().or(0.0)?,
        };
        let total = shares.process + shares.reboot + shares.machine;
        if total > 1.0 + 1e-12 {
            let why = format!("the shares add up to {total}, which is more than 1");
            return Err(section.refuse("process", &why));
        }
        Ok(shares)
    }
}

impl Fit {
    fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        Ok(Self {
            source: section.text("source").required()?,
            method: section.text("method").required()?,
            n: section.integer("n").required()?,
            confidence: section.number("confidence").share().optional()?,
            intervals: section.section("intervals", |table| {
                let read = |name| {
                    let bounds = table.list(name, number);
                    let is_range = |bounds: &[f64]| matches!(bounds, [low, high] if low <= high);
                    bounds.must("be low and high", move |list| is_range(list.as_slice())).optional()
                };
                present(PARAMETERS, read, |bounds| [bounds[0], bounds[1]])
            })?,
            goodness: section.section("goodness", |table| {
                present(STATISTICS, |name| table.number(name).optional(), |value| value)
            })?,
        })
    }
}

/// Those of the fields `names` that are there, with their values.
fn present<const N: usize, T, U>(
    names: [&'static str; N],
    mut read: impl FnMut(&'static str) -> Result<Option<T>, Problem>,
    finish: impl Fn(T) -> U,
) -> Result<Vec<(&'static str, U)>, Problem> {
    let mut found = Vec::new();
    for name in names {
        if let Some(value) = read(name)? {
            found.push((name, finish(value)));
        }
    }
    Ok(found)
}

fn number(value: &Value) -> Result<f64, Problem> {
    match value {
        Value::Integer(number) => Ok(*number as f64),
        Value::Number(number) => Ok(*number),
        other => Err(Problem::new(format!("{other} is no number"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Document;

    const LANL_20: &str = r#"
scope = "system"
nodes = 512
lifetime = { model = "weibull", shape = 0.65, scale = "9.6 h" }
repair = { model = "log-normal", median = "1.3 h", sigma = 1.1 }
bursts = { window = "60 s", sizes = [[1, 2310], [2, 67]] }
shares = { process = 0.2, reboot = "50 %" }

[fit]
source = "LANL LA-UR-05-7318, system 20"
method = "maximum likelihood"
n = 2400
confidence = 0.95
intervals = { shape = [0.63, 0.67], scale_seconds = [32400, 36720.5] }
goodness = { ks = 0.03, aic = 17_000 }
"#;

    fn read(text: &str) -> Result<(FailureModel, toml::Table), Problem> {
        let no_files = |_: &str| Err("no files here".to_owned());
        Document::parse("f.toml", text)?.read(|root| FailureModel::read(root, &no_files))
    }

    #[test]
    fn reads_a_fit_and_scales_it_to_another_machine() {
        let (model, effective) = read(LANL_20).unwrap();
        assert!((model.mtbf_seconds(512) / 3600.0 - 13.1).abs() < 0.1);
        assert!((model.mtbf_seconds(1024) / model.mtbf_seconds(512) - 0.5).abs() < 1e-12);
        let gaps = model.system_gaps(1024).unwrap().unwrap();
        assert!((gaps.mean_seconds() / model.mtbf_seconds(1024) - 1.0).abs() < 1e-12);
        let fit = model.fit.unwrap();
        assert_eq!(
            fit.intervals,
            [("shape", [0.63, 0.67]), ("scale_seconds", [32_400.0, 36_720.5])]
        );
        assert_eq!(fit.goodness, [("aic", 17_000.0), ("ks", 0.03)]);
        assert_eq!(effective["first"].as_str(), Some("equilibrium"), "defaults are shown");
    }

    #[test]
    fn the_effective_table_reads_the_same() {
        let (_, effective) = read(LANL_20).unwrap();
        let (_, again) = read(&toml::to_string(&effective).unwrap()).unwrap();
        assert_eq!(effective, again);
    }

    #[test]
    fn superposed_nodes_have_no_single_distribution_unless_exponential() {
        let of = |lifetime| FailureModel::of_nodes(lifetime).system_gaps(10).unwrap();
        assert!(of(TimeDistribution::weibull_with_mean(0.7, 1e6).unwrap()).is_none());
        let exponential = of(TimeDistribution::exponential(1e6).unwrap()).unwrap();
        assert!((exponential.mean_seconds() - 1e5).abs() < 1e-6);
    }

    #[test]
    fn complaints_name_place_and_field() {
        let life = "lifetime = { model = 'exponential', mean = '10 h' }\n";
        for (text, complaint) in [
            (format!("{life}scope = 'system'"), "nodes: missing"),
            (format!("{life}nodes = 0"), "f.toml:2:9: nodes: 0 must be at least 1"),
            (format!("{life}shares = {{ process = 1.5 }}"), "shares.process: 1.5 must lie"),
            (format!("{life}shares = {{ process = 0.8, reboot = 0.3 }}"), "add up to 1.1"),
            (format!("{life}repairs = 3"), "f.toml:2:1: repairs: unknown field"),
            (String::new(), "lifetime.model: missing"),
            (
                format!(
                    "{life}fit = {{ source = 'x', method = 'y', n = 3, intervals = {{ shape = [2, 1] }} }}"
                ),
                "fit.intervals.shape",
            ),
        ] {
            let problem = read(&text).unwrap_err();
            assert!(problem.message.contains(complaint), "{text}: {problem}");
        }
    }
}
