use super::*;
use crate::scale::PRESETS;
use crate::scenario::Layers;

fn read(text: &str) -> Result<ScaleStudy, Problem> {
    study(&Document::parse("s.toml", text).unwrap())
}

const SMALL: &str =
    "[nodes]\ncount = 8\n[system]\nkind = \"local-first\"\ndevice_write = \"1 GB/s\"
device_read = \"1 GB/s\"\n[system.metadata]\ncreate = \"1 ms\"\n[network]\nkind = \"ideal\"
link_rate = \"1 GB/s\"\n[workload]\nkind = \"ior\"\n";

#[test]
fn every_preset_is_read_and_its_effective_scenario_again() {
    for preset in PRESETS {
        let layers = Layers { preset: Some(preset.name), ..Layers::default() };
        let document = layers.document("scale", PRESETS).unwrap();
        let first = study(&document).unwrap_or_else(|e| panic!("{}: {e}", preset.name));
        let text = toml::to_string(&first.scenario).unwrap();
        assert_eq!(read(&text).unwrap().scenario, first.scenario, "{}", preset.name);
        assert!(!preset.summary().is_empty());
    }
}

#[test]
fn a_missing_service_time_is_that_of_a_creation() {
    let study = read(SMALL).unwrap();
    assert_eq!(study.system.metadata.remove_seconds, 1e-3);
}

#[test]
fn refusals_name_place_field_and_fix() {
    for (from, to, place, help) in [
        ("count = 8", "count = 0", "s.toml:2:9: nodes.count: 0 must be at least 1", ""),
        ("1 GB/s\"\ndevice_read", "1 GB\"\ndevice_read", "system.device_write", "GB/s"),
        ("local-first", "central-first", "s.toml:4:8: system.kind", "choices"),
        ("\"ideal\"", "\"torus\"\nsize = [1, 2, 3]", "room for 6 endpoints", "leave it out"),
        ("\"ideal\"", "\"forwarding\"", "network", "system.kind"),
        (
            "\"ideal\"",
            "\"dragonfly\"\nnodes_per_router = 1\nrouters_per_group = 1",
            "network.global_links_per_router: 8 nodes make 8 groups",
            "leave all three",
        ),
        ("\"ior\"", "\"ior\"\nfiles = 2", "workload.files: unknown field", ""),
        ("\"ior\"", "\"custom\"", "workload.step: there is none", "[[workload.step]]"),
        (
            "\"ior\"",
            "\"custom\"\n[[workload.step]]\noperation = \"stat\"\nleader_only = true\ncollective = true",
            "leader_only",
            "barrier",
        ),
        ("\"1 ms\"", "\"1 ms\"\nvariation = 20.0", "system.metadata.variation", ""),
    ] {
        let text = SMALL.replacen(from, to, 1);
        assert_ne!(text, SMALL, "{from}");
        let problem = read(&text).expect_err(to);
        assert!(problem.message.contains(place), "{}", problem.message);
        assert!(problem.to_string().contains(help), "{problem}");
    }
}

#[test]
fn node_counts_are_one_or_several() {
    let counts = |text: &str| node_counts(&Document::parse("s.toml", text).unwrap());
    assert_eq!(counts("[nodes]\ncount = 4").unwrap(), [4]);
    assert_eq!(counts("[nodes]\ncount = [1, 64]").unwrap(), [1, 64]);
    for text in ["", "[nodes]\ncount = []", "[nodes]\ncount = [0]", "[nodes]\ncount = \"many\""] {
        assert!(counts(text).is_err(), "{text}");
    }
}
