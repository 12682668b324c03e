//! Everything of the command that needs no FUSE: help, pages, configuration, refusals.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]

mod common;

use common::{Place, is_root};

#[test]
fn every_verb_teaches_by_example() {
    let place = Place::new();
    for verb in ["up", "down", "status", "node", "doctor", "hint", "locate", "check", "man"] {
        let answer = place.run(&[verb, "--help"]).code(0).prints("Examples:");
        assert!(answer.out.contains(&format!("intarsia {verb}")), "{verb}: {}", answer.out);
    }
    place.run(&["--help"]).code(0).prints("Exit codes:").prints("5  no store runs there");
    place.run(&["--version"]).code(0).prints(env!("CARGO_PKG_VERSION"));
    place.run(&["fly"]).code(2).says("unrecognized subcommand");
    place.run(&[]).code(2);
}

#[test]
fn completions_and_manual_pages_are_made() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        place.run(&["completions", shell]).code(0).prints("durability");
    }
    place.run(&["man"]).code(0).prints(".TH intarsia");
    let dir = place.text("man1");
    place.run(&["man", &dir]).code(0);
    for page in ["intarsia.1", "intarsia-up.1", "intarsia-hint-set.1"] {
        let text = std::fs::read_to_string(place.path("man1").join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn a_flag_wins_over_the_environment_that_over_the_file() {
    let place = Place::new();
    let file = place.path("config/intarsia/config.toml");
    std::fs::write(
        &file,
        "durability = \"sync\"\ninterval = \"3s\"\ncache = \"1GiB\"\ntiers = [\"fast,class=ssd\"]\n",
    )
    .unwrap();
    let answer = place
        .command(&["config", "show", "--json", "--cache", "2GiB", "--mount", "/somewhere"])
        .env("INTARSIA_INTERVAL", "2s")
        .env("INTARSIA_CACHE", "3GiB")
        .output()
        .unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(shown["file"], file.to_str().unwrap());
    let setting = |name: &str| {
        let all = shown["settings"].as_array().unwrap();
        all.iter().find(|s| s["key"] == name).unwrap().clone()
    };
    assert_eq!(
        (&setting("cache")["value"], &setting("cache")["source"]),
        (&"2GiB".into(), &"flag".into())
    );
    assert_eq!(setting("interval")["value"], "2s");
    assert_eq!(setting("interval")["source"], "environment");
    assert_eq!(setting("durability")["value"], "sync");
    assert_eq!(setting("durability")["source"], format!("{}:1", file.display()));
    assert_eq!(setting("passthrough")["source"], "default");
    assert_eq!(setting("mount")["value"], "/somewhere");
    // A relative path in a file starts where the file is.
    let tier = file.with_file_name("fast,class=ssd");
    assert_eq!(setting("tiers")["value"][0], tier.to_str().unwrap());
}

#[test]
fn the_shown_configuration_is_a_usable_file() {
    let place = Place::new();
    let shown = place.run(&["config", "show", "--rule", "*.tmp tier=memory"]).code(0).out;
    let file = place.path("shown.toml");
    std::fs::write(&file, &shown).unwrap();
    let again = place.run(&["--config", file.to_str().unwrap(), "config", "show"]).code(0).out;
    let values = |text: &str| {
        let lines = text.lines().filter(|l| !l.starts_with('#'));
        lines.map(|l| l.rsplit_once('#').unwrap().0.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(values(&shown), values(&again));
    assert_eq!(values(&shown).len(), 22);
}

#[test]
fn mistakes_in_a_file_are_named_with_place_and_fix() {
    let place = Place::new();
    let file = place.path("config/intarsia/config.toml");
    for (text, message, help) in [
        (
            "dir = \"/x\"\ndurabilty = \"sync\"\n",
            ":2:1: unknown key 'durabilty'",
            "did you mean 'durability'?",
        ),
        ("interval = \"soon\"\n", ":1:12: interval: 'soon' is not a time", ""),
        ("mount = \"/a\"\ncache = [\n", ":2:", ""),
        ("tiers = [{ class = \"ssd\" }]\n", ":1:10: tiers: a tier needs dir", ""),
        ("wait = 1.5\n", ":1:8: wait: a float does not fit here", "write wait = \"…\""),
    ] {
        std::fs::write(&file, text).unwrap();
        let answer = place.run(&["config", "show"]).code(2).says(message).says(help);
        assert!(answer.err.contains(file.to_str().unwrap()), "{}", answer.err);
        assert!(answer.out.is_empty());
        place.run(&["up", "--dry-run"]).code(2).says(message);
    }
    place.run(&["--config", "missing.toml", "config", "show"]).code(2).says("missing.toml");
}

#[test]
fn mistakes_in_flags_and_environment_are_named() {
    let place = Place::new();
    place.run(&["up", "--interval", "5"]).code(2).says("--interval: '5' is not a time");
    place.run(&["up", "--cache", "lots"]).code(2).says("64KiB, 4MiB or 1.5GiB");
    place.run(&["up", "--tier", "/x,class=tape"]).code(2).says("use memory, ssd or disk");
    place.run(&["up", "--rule", "*.tmp tier=tape"]).code(2).says("expected memory, ssd or disk");
    place.run(&["up", "/a", "--mount", "/b"]).code(2);
    let mut command = place.command(&["config", "show"]);
    command.env("INTARSIA_DURABILITY", "never");
    common::Answer::of(&mut command).code(2).says("INTARSIA_DURABILITY: 'never' is no durability");
    let mut command = place.command(&["config", "show"]);
    command.env("INTARSIA_DURABILTY", "sync");
    common::Answer::of(&mut command).code(0).says("did you mean INTARSIA_DURABILITY?");
}

#[test]
fn unusable_places_are_refused_and_nothing_is_made() {
    let place = Place::new();
    let (mount, dir) = (place.text("mnt"), place.text("store"));
    let up = |more: &[&str]| {
        let mut arguments = vec!["up"];
        arguments.extend(more);
        place.run(&arguments)
    };
    std::fs::create_dir(place.path("full")).unwrap();
    std::fs::write(place.path("full/precious"), "x").unwrap();
    up(&[&place.text("full"), "--dir", &dir])
        .code(2)
        .says("is not empty: it holds 'precious'")
        .says("--nonempty");
    up(&[&mount, "--dir", &place.text("full")])
        .code(2)
        .says("holds other data ('precious') and is no store");
    up(&[&mount, "--dir", &place.text("mnt/store")]).code(2).says("lie in each other");
    up(&[&mount, "--dir", &dir, "--tier", &mount]).code(2).says("lie in each other");
    let tier = place.text("tier");
    up(&[&mount, "--dir", &dir, "--tier", &tier, "--tier", &format!("{tier}/sub")])
        .code(2)
        .says("overlaps another tier");
    up(&[&place.text("full/precious"), "--dir", &dir]).code(2).says("is not a directory");
    up(&[&mount, "--dir", &place.text("full/precious")]).code(2).says("is not a directory");
    up(&["/proc", "--dir", &dir]).code(4).says("already a mount of type proc");
    assert!(!place.path("mnt").exists() && !place.path("store").exists());
    assert_eq!(std::fs::read(place.path("full/precious")).unwrap(), b"x");
}

#[test]
fn a_missing_fuse_device_is_explained() {
    let place = Place::new();
    let device = place.text("no-fuse");
    let (mount, dir) = (place.text("mnt"), place.text("store"));
    place
        .run(&["up", &mount, "--dir", &dir, "--fuse-device", &device])
        .code(1)
        .says("does not exist")
        .says("help:");
    assert!(!place.path("mnt").exists() && !place.path("store").exists());
    let doctor = place.run(&["doctor", "--fuse-device", &device, "--json"]).code(1);
    assert!(doctor.out.contains("this kernel offers no FUSE here"), "{}", doctor.out);
}

#[test]
fn nothing_running_is_said_plainly() {
    let place = Place::new();
    place.run(&["status"]).code(5).says("no store is up");
    assert_eq!(place.run(&["status", "--json"]).code(5).json(), serde_json::json!([]));
    place.run(&["status", "/nowhere"]).code(5).says("no store is up at /nowhere");
    place.run(&["down"]).code(0).says("nothing to do");
    place.run(&["down", &place.text("home")]).code(0).says("nothing to do");
    place.run(&["down", "/proc"]).code(5).says("none of ours");
    place.run(&["locate", &place.text("home")]).code(5).says("is in no store");
    place.run(&["hint", "set", "tier=ssd", &place.text("home")]).code(5).says("is in no store");
    place.run(&["hint", "rule", "list"]).code(5);
    place.run(&["check"]).code(5);
    place.run(&["down", "--timeout", "soon"]).code(2).says("--timeout");
}

#[test]
fn hints_are_explained_and_checked() {
    let place = Place::new();
    let list = place.run(&["hint", "list", "--json"]).code(0).json();
    let tier = list.as_array().unwrap().iter().find(|h| h["name"] == "tier").unwrap();
    assert_eq!(
        (&tier["values"], &tier["acted_upon_here"]),
        (&"memory, ssd or disk".into(), &true.into())
    );
    place.run(&["hint", "list"]).code(0).prints("not acted upon here");
    let home = place.text("home");
    place.run(&["hint", "set", "teir=ssd", &home]).code(2).says("did you mean 'tier'?");
    place.run(&["hint", "set", "tier=tape", &home]).code(2).says("expected memory, ssd or disk");
    place
        .run(&["hint", "set", &home, "tier=ssd"])
        .code(2)
        .says("no hint was given before the files");
    place.run(&["hint", "rule", "check", "*.tmp"]).code(2).says("sets nothing");
    place
        .run(&["hint", "rule", "check", "/a/** tier=disk", "--path", "/a/b", "--path", "/c"])
        .code(0)
        .prints("/a/b: tier=disk")
        .prints("/c: no hints");
}

#[test]
fn a_dry_run_says_what_would_be_done() {
    if !common::has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&["--dry-run"]).code(0).prints("make the mount point").prints("make a new store in");
    let plan = place.up(&["--dry-run", "--json"]).code(0).json();
    assert_eq!(plan["plan"]["make_mount_point"], true);
    assert_eq!(plan["settings"]["mount"], place.text("mnt"));
    assert!(!place.path("mnt").exists() && !place.path("store").exists());
}

#[test]
fn doctor_prints_what_a_report_needs() {
    let place = Place::new();
    std::fs::write(place.path("config/intarsia/config.toml"), "cache = \"1GiB\"\n").unwrap();
    let answer = place.run(&["doctor", "--json"]);
    let sections = answer.json();
    let names: Vec<_> =
        sections.as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "Program",
            "Host",
            "FUSE",
            "Passthrough",
            "Limits",
            "Configuration",
            "Directories",
            "Stores",
            "Logs"
        ]
    );
    assert!(answer.out.contains("config.toml:1"), "{}", answer.out);
    std::fs::write(place.path("config/intarsia/config.toml"), "cash = 1\n").unwrap();
    place.run(&["doctor"]).code(1).prints("unknown key 'cash'");
}

#[test]
fn no_colours_where_nobody_sees_them() {
    let place = Place::new();
    for verb in ["doctor", "status"] {
        let answer = place.run(&[verb]);
        assert!(!answer.out.contains('\x1b') && !answer.err.contains('\x1b'));
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let place = Place::new();
    let locked = place.path("locked");
    std::fs::create_dir(&locked).unwrap();
    let mut permissions = std::fs::metadata(&locked).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&locked, permissions).unwrap();
    if is_root() {
        eprintln!("SKIPPED: root may write everywhere");
        return;
    }
    let dir = place.text("locked/store");
    place.run(&["up", &place.text("mnt"), "--dir", &dir]).code(1).says("cannot be written by you");
}
