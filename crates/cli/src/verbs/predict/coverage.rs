//! How far an answer lies within what was measured: the profile says which runs its numbers were held against.

use intarsia_predict::configuration::Configuration;
use intarsia_predict::workload::Workload;
use serde::Deserialize;
use serde_json::Value;

/// What `intarsia refine` notes in a profile of the runs that it was held against.
#[derive(Default, Deserialize)]
struct Covers {
    runs: u64,
    hosts: [u32; 2],
    tasks: [u64; 2],
    moved_bytes: [u64; 2],
    placements: Vec<String>,
}

/// In what a workload on a configuration lies outside of all runs that a profile was held against, in words.
pub(super) fn outside(
    profile: &str,
    workload: &Workload,
    configuration: &Configuration,
) -> Vec<String> {
    let whole: Value = serde_json::from_str(profile).unwrap_or_default();
    let Some(covers) = whole.pointer("/measured/refinement/covers") else {
        return vec![
            "no run was ever held against this profile; 'intarsia refine' does that".into(),
        ];
    };
    let Ok(covers) = serde_json::from_value::<Covers>(covers.clone()) else {
        return vec!["field 'measured.refinement.covers' of the profile cannot be read".into()];
    };
    let placement = configuration.placement.to_string();
    let counts = [
        ("hosts", u64::from(configuration.hosts), covers.hosts.map(u64::from)),
        ("tasks", workload.tasks.len() as u64, covers.tasks),
        ("bytes read and written", workload.moved_bytes(), covers.moved_bytes),
    ];
    let runs = covers.runs;
    let beyond =
        counts.into_iter().filter(|(_, value, [least, most])| value < least || value > most);
    let mut said: Vec<String> = beyond
        .map(|(what, value, [least, most])| {
            format!(
                "{value} {what}, where runs that were measured had {least} to {most} ({runs} runs)"
            )
        })
        .collect();
    if !covers.placements.contains(&placement) {
        let known = covers.placements.join(", ");
        said.push(format!("placement {placement}, where runs that were measured had {known}"));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOAD: &str = r#"{"format": "intarsia-workload", "version": 1,
        "files": [{"name": "a", "size_bytes": 1000}], "tasks": [{"name": "t", "reads": ["a"]}]}"#;

    fn said(covers: &str, hosts: u32) -> Vec<String> {
        let profile = format!(r#"{{"measured": {{"refinement": {{"covers": {covers}}}}}}}"#);
        let workload = Workload::parse("w", WORKLOAD).unwrap();
        outside(&profile, &workload, &Configuration::new(hosts))
    }

    #[test]
    fn what_was_never_measured_is_said() {
        let covers = r#"{"runs": 3, "hosts": [2, 4], "tasks": [1, 9], "moved_bytes": [1, 5000], "placements": ["local"]}"#;
        assert!(said(covers, 4).is_empty());
        assert_eq!(said(covers, 8), ["8 hosts, where runs that were measured had 2 to 4 (3 runs)"]);
        let other = covers.replace("local", "round-robin").replace("[1, 9]", "[5, 9]");
        assert_eq!(said(&other, 2).len(), 2);
        assert!(said("[]", 2)[0].contains("cannot be read"));
    }

    #[test]
    fn a_profile_that_no_run_was_held_against_says_so() {
        let workload = Workload::parse("w", WORKLOAD).unwrap();
        let said = outside("{}", &workload, &Configuration::new(1));
        assert!(said[0].contains("no run was ever held"), "{said:?}");
    }
}
