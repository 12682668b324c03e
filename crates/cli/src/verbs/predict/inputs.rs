//! The files that a prediction is made from.

use std::path::Path;

use intarsia_predict::configuration::Configuration;
use intarsia_predict::profile::{Failures, Machine, Profile};
use intarsia_predict::workload::Workload;
use serde_json::{Value, json};

use crate::cli::PredictInputs;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::verbs::given::{self, refused};
use crate::verbs::simulate::table::number;

/// What was read.
pub(super) struct Inputs {
    pub(super) workload: Workload,
    pub(super) profile: Profile,
    /// The profile as it was read, and its name: for changes of it.
    pub(super) profile_file: (String, Value),
    /// That of the file, or what a store is by default on all hosts of the profile.
    pub(super) configuration: Configuration,
    pub(super) threads: usize,
    /// Where workload and profile were read.
    sources: [Source; 2],
    profile_text: String,
    /// Why the profile may not hold here.
    elsewhere: Option<String>,
}

/// A file that an answer rests on.
struct Source {
    name: String,
    blake3: String,
}

impl Source {
    fn of(path: &Path, text: &str) -> Self {
        let name = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let name = name.display().to_string();
        Self { name, blake3: blake3::hash(text.as_bytes()).to_hex().to_string() }
    }
}

pub(super) fn read(arguments: &PredictInputs) -> Outcome<Inputs> {
    let (name, text) = named(&arguments.workload)?;
    let workload = Workload::parse(&name, &text).map_err(refused)?;
    let of_workload = Source::of(&arguments.workload, &text);
    for warning in &workload.warnings {
        output::warn(&format!("{name}: {warning}"));
    }
    let (name, text) = named(&arguments.profile)?;
    let mut profile = Profile::parse(&name, &text).map_err(refused)?;
    let sources = [of_workload, Source::of(&arguments.profile, &text)];
    let elsewhere = profile.machine.as_ref().and_then(|machine| machine.unlike(&here()));
    if let Some(why) = &elsewhere {
        let seed = "'intarsia seed' on a host of the store makes a profile of it";
        output::warn(&format!("{name}: provenance: {why}; {seed}"));
    }
    let profile_file = (name, serde_json::from_str(&text).unwrap_or_default());
    mishaps(&mut profile, arguments);
    let profile_text = text;
    let mut configuration = Configuration::of(&profile);
    if let Some(path) = &arguments.configuration {
        let (name, text) = named(path)?;
        configuration = Configuration::parse(&name, &text, &configuration).map_err(refused)?;
    }
    if let Some(servers) = arguments.metadata_hosts {
        (configuration.managers, configuration.managers_apart) = (servers, servers > 0);
        configuration.managers = servers.max(1);
    }
    if let Some(copies) = arguments.metadata_copies {
        configuration.manager_copies = copies;
    }
    configuration.follows_hints &= !arguments.ignore_hints;
    configuration.second_run_percent = arguments.second_runs.or(configuration.second_run_percent);
    let threads = given::threads(arguments.threads);
    Ok(Inputs {
        workload,
        profile,
        profile_file,
        configuration,
        threads,
        sources,
        profile_text,
        elsewhere,
    })
}

/// The machine that this program runs on.
fn here() -> Machine {
    let uname = rustix::system::uname();
    Machine {
        host: uname.nodename().to_string_lossy().into_owned(),
        kernel: uname.release().to_string_lossy().into_owned(),
    }
}

/// What goes wrong by the flags, instead of by the profile.
pub(super) fn mishaps(profile: &mut Profile, arguments: &PredictInputs) {
    if let Some(mean) = arguments.host_failures {
        profile.failures = Some(Failures {
            mean_seconds: mean.as_secs_f64(),
            shape: 1.0,
            repair_seconds: arguments.repair.as_secs_f64(),
            loses_disks: arguments.lose_disks,
        });
    }
    profile.stragglers = arguments.stragglers.or(profile.stragglers);
}

pub(super) fn named(path: &Path) -> Outcome<(String, String)> {
    let name = given::name(path);
    let text = given::text(path).map_err(|error| {
        Failure::usage(format!("{name}: {error}"))
            .with_help("name a readable JSON file, or - for standard input")
    })?;
    Ok((name, text))
}

impl Inputs {
    /// What the answer rests on, for programs.
    pub(super) fn basis(&self) -> Value {
        let Profile { name, provenance, .. } = &self.profile;
        let [workload, profile] = &self.sources;
        json!({
            "workload": { "name": self.workload.name, "tasks": self.workload.tasks.len(),
                          "files": self.workload.files.len(), "warnings": self.workload.warnings,
                          "path": workload.name, "blake3": workload.blake3 },
            "profile": { "name": name, "source": provenance.source.as_str(), "note": provenance.note,
                         "warnings": self.elsewhere.iter().collect::<Vec<_>>(),
                         "path": profile.name, "blake3": profile.blake3 },
            "power": self.profile.host.power.as_ref().map(|power| json!({
                "source": power.provenance.source.as_str(), "note": power.provenance.note,
            })),
            "engine": self.profile.engine.as_ref().map(|engine| json!({
                "source": engine.provenance.source.as_str(), "note": engine.provenance.note,
                "task_seconds": engine.task_seconds, "start_seconds": engine.start_seconds,
            })),
            "currency": self.profile.prices.as_ref().map(|prices| prices.currency.clone()),
            "version": env!("CARGO_PKG_VERSION"),
        })
    }

    /// In what a configuration lies outside of what was ever measured, in words.
    pub(super) fn outside(&self, configuration: &Configuration) -> Vec<String> {
        super::coverage::outside(&self.profile_text, &self.workload, configuration)
    }

    /// The same for people.
    pub(super) fn basis_text(&self) -> String {
        let Profile { name, provenance, .. } = &self.profile;
        let text = format!(
            "{}: {}, {}, on '{name}' ({}: {})\n",
            self.workload.name,
            output::count(self.workload.tasks.len(), "task"),
            output::count(self.workload.files.len(), "file"),
            provenance.source.as_str(),
            provenance.note
        );
        text + &self.engine_text()
    }

    /// What of the engine's time is in the answer.
    fn engine_text(&self) -> String {
        match &self.profile.engine {
            Some(engine) => {
                let (task_seconds, start_seconds) = match self.profile.shared_processors {
                    Some(_) => engine.alone_seconds(),
                    None => (engine.task_seconds, engine.start_seconds),
                };
                format!(
                    "engine: {} a task one after the other, {} to start it ({}: {})\n",
                    number(task_seconds, "s"),
                    number(start_seconds, "s"),
                    engine.provenance.source.as_str(),
                    engine.provenance.note
                )
            }
            None => {
                "engine: not measured; what a workflow engine takes for each task is not in this \
                     ('intarsia refine' finds it by a run)\n"
                    .to_owned()
            }
        }
    }
}
