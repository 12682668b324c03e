//! `up --advice`: what `advise --json` recommends, as far as a store can be brought up so.

use std::collections::BTreeMap;
use std::path::Path;

use intarsia_types::{Rule, TierClass};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::fleet::Hosts;
use crate::cli::{SettingFlags, Up};
use crate::exit::{Failure, Outcome};
use crate::output;

/// What is read of an advice.
#[derive(Deserialize)]
struct Advice {
    kind: String,
    basis: Value,
    /// What is recommended; where no utility was asked for, and in older advices, the fastest.
    best: Option<usize>,
    fastest: usize,
    points: Vec<Point>,
    /// By which a store knows the files that have hints; older advices have none.
    #[serde(default)]
    rules: Vec<NamedRule>,
}

/// A rule for the files of a pattern.
#[derive(Deserialize)]
struct NamedRule {
    rule: String,
    pattern: String,
    files: usize,
}

#[derive(Deserialize)]
struct Point {
    configuration: Map<String, Value>,
}

/// A recommendation, and what became of it, in words.
pub(super) struct Advised {
    source: String,
    basis: String,
    wanted: Wanted,
    rules: Vec<NamedRule>,
    applied: Vec<String>,
    left: Vec<String>,
}

/// The part of a configuration that a store can follow, or has to say that it cannot.
#[derive(Deserialize)]
struct Wanted {
    hosts: usize,
    storage_hosts: Option<usize>,
    managers: usize,
    managers_apart: bool,
    placement: String,
    chunk_bytes: u64,
    stripe_width: u32,
    copies: u32,
    scheduler: String,
    copy_order: Option<String>,
    write_waits_for: Option<String>,
    tier: Option<TierClass>,
    /// Hints by the pattern of files.
    #[serde(default)]
    patterns: BTreeMap<String, BTreeMap<String, String>>,
    /// What a later model chooses besides.
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// Which of the model's choices are no choice of a store.
const OF_THE_MODEL: [&str; 1] = ["follows_hints"];

impl Advised {
    pub(super) fn read(path: &Path) -> Outcome<Self> {
        let source = path.display().to_string();
        let text = std::fs::read(path).map_err(|e| Failure::io(&source, &e))?;
        Self::parse(source, &text)
    }

    fn parse(source: String, text: &[u8]) -> Outcome<Self> {
        let refuse = |what: String| {
            Failure::usage(format!("{source}: {what}")).with_help(
                "an advice is what 'intarsia advise WORKLOAD --profile PROFILE --json' prints",
            )
        };
        let advice: Advice =
            serde_json::from_slice(text).map_err(|e| refuse(format!("is no advice: {e}")))?;
        if advice.kind != "advice" {
            return Err(refuse(format!("field 'kind' is '{}', not 'advice'", advice.kind)));
        }
        let place = advice.best.unwrap_or(advice.fastest);
        let point = advice.points.into_iter().nth(place);
        let point = point.ok_or_else(|| refuse(format!("field 'points' has no entry {place}")))?;
        let wanted: Wanted = serde_json::from_value(Value::Object(point.configuration))
            .map_err(|e| refuse(format!("field 'points[{place}].configuration': {e}")))?;
        if wanted.hosts == 0 {
            return Err(refuse(format!("field 'points[{place}].configuration.hosts' is 0")));
        }
        for (at, one) in advice.rules.iter().enumerate() {
            one.rule
                .parse::<Rule>()
                .map_err(|error| refuse(format!("field 'rules[{at}].rule': {error}")))?;
        }
        let (basis, rules) = (in_words(&advice.basis), advice.rules);
        Ok(Self { source, basis, wanted, rules, applied: Vec::new(), left: Vec::new() })
    }

    /// Takes as many of the hosts as are advised.
    pub(super) fn choose_hosts(&mut self, hosts: Option<&mut Hosts>) -> Outcome {
        let wanted = self.wanted.hosts;
        let found = hosts.as_ref().map_or(1, |hosts| hosts.count());
        if found < wanted {
            return Err(Failure::usage(format!(
                "{}: the advice is for {}, and {found} {} given",
                self.source,
                output::count(wanted, "host"),
                if found == 1 { "is" } else { "are" }
            ))
            .with_help("name so many with --hosts, or ask for an advice for fewer: 'intarsia advise --hosts N'"));
        }
        let mut said = output::count(wanted, "host");
        if let Some(hosts) = hosts
            && found > wanted
        {
            let rest = hosts.keep_first(wanted);
            said.push_str(&format!("; {} not used", rest.join(", ")));
        }
        self.applied.push(said);
        Ok(())
    }

    /// Sets what the user did not.
    pub(super) fn choose_settings(&mut self, given: &Up) -> (SettingFlags, Option<usize>) {
        let mut settings = given.settings.clone();
        let is_striped = self.wanted.placement == "round-robin" && self.wanted.hosts > 1;
        self.choose_copies(&mut settings, is_striped);
        let own = std::mem::take(&mut settings.rules);
        self.choose_placement(&mut settings, is_striped);
        self.choose_tier(&mut settings);
        self.choose_hints(&mut settings);
        // A later rule wins: those of the user come last.
        settings.rules.extend(own);
        let meta_hosts = self.choose_metadata(given);
        self.tell_of_the_rest();
        (settings, meta_hosts)
    }

    fn choose_copies(&mut self, settings: &mut SettingFlags, is_striped: bool) {
        let copies = self.wanted.copies;
        if let Some(given) = &settings.replicas {
            self.left.push(format!("{copies} copies: --replicas {given} is given"));
        } else if copies > 1 && is_striped {
            self.left.push(format!("{copies} copies: a file that is striped has none"));
        } else if copies > 1 {
            settings.replicas = Some(copies.to_string());
            self.applied.push(format!("{copies} copies of each file (--replicas {copies})"));
        }
    }

    fn choose_placement(&mut self, settings: &mut SettingFlags, is_striped: bool) {
        let Wanted { placement, stripe_width, chunk_bytes, hosts, .. } = &self.wanted;
        match placement.as_str() {
            "local" => self.applied.push("files on the host that writes them, as always".into()),
            "round-robin" if is_striped => {
                let width = usize::try_from(*stripe_width).unwrap_or(usize::MAX).min(*hosts);
                let rule = format!("* place=stripe:{width} chunk={chunk_bytes}");
                self.applied.push(format!("files in stripes (--rule '{rule}')"));
                settings.rules.push(rule);
            }
            "round-robin" => self.applied.push("files here, the only host".into()),
            "collocate" => self.left.push(
                "files that are read together beside each other: which those are only the workflow says; \
                 'intarsia run --advice' hints each"
                    .into(),
            ),
            other => self.left.push(format!("placement '{other}', which this version does not know")),
        }
    }

    fn choose_tier(&mut self, settings: &mut SettingFlags) {
        if let Some(tier) = self.wanted.tier {
            let rule = format!("* tier={tier}");
            self.applied.push(format!("files in tiers of class {tier} (--rule '{rule}')"));
            settings.rules.push(rule);
        }
    }

    /// Hints for patterns become rules as far as names tell the files.
    fn choose_hints(&mut self, settings: &mut SettingFlags) {
        for (pattern, hints) in &self.wanted.patterns {
            let of_pattern = || self.rules.iter().filter(|one| one.pattern == *pattern);
            if of_pattern().next().is_none() {
                let hints: Vec<String> =
                    hints.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let hints = hints.join(" ");
                self.left.push(format!(
                    "{hints} for {pattern} files: which those are only the workflow says, not their names"
                ));
            }
            for NamedRule { rule, files, .. } in of_pattern() {
                let files = output::count(*files, &format!("{pattern} file"));
                self.applied.push(format!("hints for {files} (--rule '{rule}')"));
                settings.rules.push(rule.clone());
            }
        }
    }

    fn choose_metadata(&mut self, given: &Up) -> Option<usize> {
        let Wanted { managers, managers_apart, .. } = self.wanted;
        if managers_apart {
            self.left.push(format!(
                "{} only for metadata: a host that serves metadata stores files as well",
                output::count(managers, "host")
            ));
        }
        if managers > 1 && self.wanted.hosts > 1 && given.meta.is_none() {
            match given.meta_hosts {
                Some(n) => {
                    self.left.push(format!("{managers} metadata hosts: --meta-hosts {n} is given"));
                }
                None => {
                    self.applied
                        .push(format!("{managers} metadata hosts (--meta-hosts {managers})"));
                    return Some(managers);
                }
            }
        }
        given.meta_hosts
    }

    fn tell_of_the_rest(&mut self) {
        let Wanted { storage_hosts, scheduler, copy_order, write_waits_for, more, .. } =
            &self.wanted;
        if let Some(hosts) = storage_hosts {
            self.left.push(format!(
                "{} that only store: where tasks run is not the store's to say; 'intarsia run --advice' keeps them free",
                output::count(*hosts, "host")
            ));
        }
        self.left.push(format!("the scheduler '{scheduler}': 'intarsia run --advice' takes it"));
        if copy_order.as_deref() == Some("parallel") && self.wanted.copies > 1 {
            self.left.push("copies sent in parallel: the store chooses how".into());
        }
        if write_waits_for.as_deref() == Some("first") && self.wanted.copies > 1 {
            self.left.push(
                "writes that wait for the first copy only: set it by file, close=fast".into(),
            );
        }
        for (name, value) in more.iter().filter(|(name, _)| !OF_THE_MODEL.contains(&name.as_str()))
        {
            if !value.is_null() {
                self.left.push(format!("{name} {value}, which no setting of a store is for"));
            }
        }
    }

    /// Says what it rests on, what was applied and what was not.
    pub(super) fn tell(&self) {
        output::message(&format!("Following the advice of {} ({}):", self.source, self.basis));
        for said in &self.applied {
            output::message(&format!("  applied      {said}"));
        }
        for said in &self.left {
            output::message(&format!("  not applied  {said}"));
        }
    }
}

/// What an advice rests on.
fn in_words(basis: &Value) -> String {
    let text = |path: &str| basis.pointer(path).and_then(Value::as_str).unwrap_or("?").to_owned();
    let tasks = basis.pointer("/workload/tasks").and_then(Value::as_u64).unwrap_or_default();
    format!(
        "for '{}', {}, on profile '{}', {}",
        text("/workload/name"),
        output::count(usize::try_from(tasks).unwrap_or(usize::MAX), "task"),
        text("/profile/name"),
        text("/profile/source")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        up: Up,
    }

    fn advice(configuration: &Value) -> String {
        let usual = serde_json::json!({
            "hosts": 1, "storage_hosts": null, "managers": 1, "managers_apart": false, "placement": "local",
            "chunk_bytes": 1_048_576, "stripe_width": 4, "copies": 1, "copy_order": "chain",
            "write_waits_for": "all", "scheduler": "location", "follows_hints": true,
        });
        let mut whole = usual.as_object().unwrap().clone();
        whole.extend(configuration.as_object().unwrap().clone());
        serde_json::json!({
            "kind": "advice", "fastest": 0, "points": [{ "configuration": whole }],
            "basis": { "workload": { "name": "w", "tasks": 2 },
                       "profile": { "name": "p", "source": "assumed" } },
        })
        .to_string()
    }

    fn chosen(configuration: &Value, flags: &[&str]) -> (SettingFlags, Option<usize>, Advised) {
        let mut advised =
            Advised::parse("a.json".into(), advice(configuration).as_bytes()).unwrap();
        let line = Line::parse_from(["up"].iter().chain(flags));
        let (settings, meta_hosts) = advised.choose_settings(&line.up);
        (settings, meta_hosts, advised)
    }

    #[test]
    fn stripes_become_a_rule_that_those_of_the_user_come_after() {
        let wanted =
            serde_json::json!({ "hosts": 3, "placement": "round-robin", "stripe_width": 8 });
        let (settings, _, advised) = chosen(&wanted, &["--rule", "*.tmp place=local"]);
        assert_eq!(settings.rules, ["* place=stripe:3 chunk=1048576", "*.tmp place=local"]);
        settings.rules[0].parse::<intarsia_types::Rule>().unwrap();
        assert_eq!(advised.applied.len(), 1);
    }

    #[test]
    fn tiers_and_hints_of_patterns_become_rules_where_names_tell_the_files() {
        let mut text: Value = serde_json::from_str(&advice(&serde_json::json!({
            "hosts": 3, "placement": "round-robin", "stripe_width": 3, "tier": "ssd",
            "patterns": { "broadcast": { "pattern": "broadcast", "place": "local" },
                          "reduce": { "place": "collocate:{reader}" } },
        })))
        .unwrap();
        let rule = "*.idx pattern=broadcast place=local";
        text["rules"] = serde_json::json!([{ "rule": rule, "pattern": "broadcast", "files": 2 }]);
        let mut advised = Advised::parse("a.json".into(), text.to_string().as_bytes()).unwrap();
        let line = Line::parse_from(["up", "--rule", "*.tmp place=local"]);
        let (settings, _) = advised.choose_settings(&line.up);
        let expected = ["* place=stripe:3 chunk=1048576", "* tier=ssd", rule, "*.tmp place=local"];
        assert_eq!(settings.rules, expected);
        let said = advised.applied.join("\n");
        assert!(said.contains("hints for 2 broadcast files (--rule '*.idx"), "{said}");
        let left = advised.left.join("\n");
        assert!(left.contains("place=collocate:{reader} for reduce files"), "{left}");
        assert!(!left.contains("tier") && !left.contains("patterns"), "{left}");

        text["rules"][0]["rule"] = "*.idx pattern=broadcats".into();
        let failure = Advised::parse("a.json".into(), text.to_string().as_bytes()).err().unwrap();
        assert!(failure.message.contains("field 'rules[0].rule'"), "{}", failure.message);
    }

    #[test]
    fn copies_and_metadata_hosts_are_settings_unless_they_are_given() {
        let wanted = serde_json::json!({ "hosts": 5, "copies": 2, "managers": 3 });
        let (settings, meta_hosts, _) = chosen(&wanted, &[]);
        assert_eq!((settings.replicas.as_deref(), meta_hosts), (Some("2"), Some(3)));
        let (settings, meta_hosts, advised) =
            chosen(&wanted, &["--replicas", "4", "--meta-hosts", "5"]);
        assert_eq!((settings.replicas.as_deref(), meta_hosts), (Some("4"), Some(5)));
        assert!(advised.left.iter().any(|left| left.contains("--replicas 4 is given")));
    }

    #[test]
    fn what_a_store_cannot_do_is_said() {
        let wanted = serde_json::json!({
            "hosts": 4, "storage_hosts": 2, "managers_apart": true, "placement": "collocate",
            "copies": 2, "write_waits_for": "first", "frequency_mhz": 1800,
        });
        let (_, _, advised) = chosen(&wanted, &[]);
        let all = advised.left.join("\n");
        let expected = [
            "only store",
            "only for metadata",
            "beside each other",
            "first copy",
            "frequency_mhz 1800",
        ];
        expected.iter().for_each(|part| assert!(all.contains(part), "{part}: {all}"));
    }

    #[test]
    fn what_suits_the_weights_is_followed_rather_than_the_fastest() {
        let mut two: Value =
            serde_json::from_str(&advice(&serde_json::json!({ "hosts": 4 }))).unwrap();
        let mut second = two["points"][0].clone();
        second["configuration"]["hosts"] = 1.into();
        two["points"].as_array_mut().unwrap().push(second);
        let hosts = |text: &Value| {
            Advised::parse("a.json".into(), text.to_string().as_bytes()).unwrap().wanted.hosts
        };
        assert_eq!(hosts(&two), 4, "an advice that does not say so recommends the fastest");
        two["best"] = 1.into();
        assert_eq!(hosts(&two), 1);
    }

    #[test]
    fn fewer_hosts_than_advised_are_refused() {
        let wanted = serde_json::json!({ "hosts": 4 });
        let text = advice(&wanted);
        let mut advised = Advised::parse("a.json".into(), text.as_bytes()).unwrap();
        let failure = advised.choose_hosts(None).unwrap_err();
        assert!(failure.message.contains("is for 4 hosts, and 1 is given"), "{}", failure.message);
    }

    #[test]
    fn what_is_no_advice_is_refused_with_the_field() {
        for (text, expected) in [
            ("", "a.json: is no advice"),
            ("{}", "a.json: is no advice: missing field `kind`"),
            (
                &advice(&serde_json::json!({})).replace("\"advice\"", "\"prediction\""),
                "field 'kind'",
            ),
            (
                &advice(&serde_json::json!({})).replace("\"fastest\":0", "\"fastest\":7"),
                "no entry 7",
            ),
            (&advice(&serde_json::json!({ "copies": -1 })), "field 'points[0].configuration'"),
            (&advice(&serde_json::json!({ "hosts": 0 })), "configuration.hosts' is 0"),
        ] {
            let failure = Advised::parse("a.json".into(), text.as_bytes()).err().unwrap();
            assert!(failure.message.contains(expected), "{expected}: {}", failure.message);
        }
    }
}
