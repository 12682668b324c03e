//! What makes no sense is refused before anything is started, with the field and what to write instead.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod common;

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::process::{Command, Stdio};

use common::{Answer, Place, has_fuse, is_root};

/// Some user who is not root.
const USER: u32 = 4321;

#[test]
fn settings_out_of_range_are_refused() {
    let place = Place::new();
    for (flag, value, message) in [
        ("--inline-limit", "1TiB", "--inline-limit: '1TiB' is more than 1MiB"),
        ("--tier", "/x,capacity=0", "--tier: a tier of 0B holds nothing; give it 1MiB or more"),
        ("--tier", "/x,capacity=1KiB", "--tier: a tier of 1KiB holds nothing"),
        ("--wait", "0s", "--wait: '0s' is not between 1s and 1h"),
        ("--port", "0", "0 is not in 1..=65527"),
        ("--port", "65530", "65530 is not in 1..=65527"),
    ] {
        place.run(&["up", &place.text("mnt"), flag, value]).code(2).says(message);
    }
}

#[test]
fn a_lower_file_system_around_the_store_is_refused() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("inputs/deep")).unwrap();
    let (mount, inputs) = (place.text("mnt"), place.text("inputs"));
    let store = place.text("inputs/store");
    for (lower, dir) in [(&inputs, &store), (&place.text("inputs/deep"), &inputs)] {
        place
            .run(&["up", &mount, "--dir", dir, "--lower", lower])
            .code(2)
            .says("--lower: ")
            .says("lie in each other")
            .says("another --dir");
    }
    let (dir, tier) = (place.text("store"), place.text("inputs/tier"));
    place
        .run(&["up", &mount, "--dir", &dir, "--tier", &tier, "--lower", &inputs])
        .code(2)
        .says("--lower: the tier");
    assert!(!place.path("inputs/store").exists() && !place.path("store").exists());
}

#[test]
fn a_tier_with_foreign_files_is_refused_and_left_as_it_is() {
    let place = Place::new();
    std::fs::create_dir(place.path("tier")).unwrap();
    std::fs::write(place.path("tier/precious"), "x").unwrap();
    place
        .up(&["--tier", &place.text("tier")])
        .code(2)
        .says("holds other data ('precious') and is no tier")
        .says("nothing was changed");
    assert_eq!(std::fs::read_dir(place.path("tier")).unwrap().count(), 1);
    assert!(!place.path("store").exists());
}

#[test]
fn flags_of_one_host_are_refused_for_several() {
    let place = Place::new();
    let up = |more: &[&str]| {
        let hosts = ["up", "/nowhere/mnt-{host}", "--dir", "/nowhere/{host}", "--hosts"];
        place.run(&[&hosts[..], &["127.0.0.[1-3]"], more].concat())
    };
    up(&["--name", "n1"]).code(2).says("--name: it is the name of one host");
    up(&["--replicas", "6"])
        .code(2)
        .says("--replicas: 6 copies need as many hosts, and there are 3");
    up(&["--ssh", "ssh", "--lab", "demo"]).code(2).says("cannot be used with");
    up(&["--meta", "localhost:6379"]).code(2).says("begins with neither redis:// nor rediss://");
    up(&["--meta", "redis://me:secret@h:port"]).code(2).says("--meta: 'h:port' is no host");
}

#[test]
fn hosts_that_share_files_need_places_of_their_own() {
    let place = Place::new();
    for verb in ["up", "down"] {
        let words = [verb, "/nowhere/mnt", "--dir", "/nowhere/{host}", "--hosts", "127.0.0.[1-2]"];
        place
            .run(&words)
            .code(2)
            .says("127.0.0.1 and 127.0.0.2 would both use /nowhere/mnt; put {host} into");
    }
}

/// A directory of another user, and a link of one, are in that user's hands.
#[test]
fn root_keeps_no_data_in_the_hands_of_another_user() {
    if !is_root() {
        eprintln!("SKIPPED: root is needed");
        return;
    }
    let place = Place::new();
    std::fs::create_dir_all(place.path("theirs/store")).unwrap();
    std::fs::create_dir(place.path("precious")).unwrap();
    symlink(place.path("precious"), place.path("link")).unwrap();
    std::os::unix::fs::lchown(place.path("link"), Some(USER), None).unwrap();
    chown(place.path("theirs/store"), Some(USER), None).unwrap();
    let mount = place.text("mnt");
    for flag in ["--dir", "--tier"] {
        for (link, message) in [
            ("link", "is a symbolic link of user 4321"),
            ("link/store", "is a symbolic link of user 4321"),
            ("theirs/store", "belongs to user 4321"),
        ] {
            let mut arguments = vec!["up", mount.as_str(), flag];
            let (path, dir) = (place.text("").clone() + link, place.text("store"));
            arguments.push(&path);
            if flag == "--tier" {
                arguments.extend(["--dir", &dir]);
            }
            place.run(&arguments).code(2).says(message);
        }
    }
    assert_eq!(std::fs::read_dir(place.path("precious")).unwrap().count(), 0);
    // Whatever a user calls a store, root does not delete what it names.
    std::fs::write(place.path("theirs/store/store.json"), r#"{"store":"s","tiers":[]}"#).unwrap();
    place
        .run(&["down", "--purge", &place.text("theirs/store")])
        .code(2)
        .says("belongs to user 4321");
    assert!(place.path("theirs/store/store.json").exists());
}

#[test]
fn missing_directories_are_made_as_mkdir_does_and_those_of_a_failure_go() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    let (mount, dir, tier) =
        (place.text("a/b/mnt"), place.text("c/d/store"), place.text("e/f/tier"));
    place.run(&["up", &mount, "--dir", &dir, "--tier", &tier]).code(0);
    let mode =
        |path: &str| std::fs::metadata(place.path(path)).unwrap().permissions().mode() & 0o777;
    let usual = mode("home");
    assert_eq!((mode("a"), mode("c/d"), mode("e/f")), (usual, usual, usual));
    assert_eq!(mode("c/d/store"), 0o700);
    place.run(&["down", &mount, "--purge"]).code(0);
    assert!(!place.path("a/b/mnt").exists() && !place.path("c/d/store").exists());
    assert!(place.path("a/b").exists() && place.path("c/d").exists());

    // A store that never was leaves no directories with a log in them.
    let failing = place.text("g/h/store");
    let arguments = ["up", &mount, "--dir", &failing, "--read-only", "--deployment", "/nowhere"];
    place.run(&arguments).code(1);
    assert!(!place.path("g").exists());
}

#[test]
fn a_hint_that_comes_too_late_for_a_file_says_so() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    std::fs::write(place.path("mnt/file"), "x").unwrap();
    std::fs::create_dir(place.path("mnt/dir")).unwrap();
    let hint =
        |word: &str, path: &str| place.run(&["hint", "set", word, &place.text(path)]).code(0);
    for word in ["place=local", "tier=memory"] {
        hint(word, "mnt/file").says(&format!("{word} has no effect on"));
        assert!(!hint(word, "mnt/dir").err.contains("no effect"));
    }
    assert!(!hint("close=safe", "mnt/file").err.contains("no effect"));
}

/// Runs the command as another user.
fn as_user(place: &Place, arguments: &[&str]) -> Answer {
    use std::os::unix::process::CommandExt;
    let mut command: Command = place.command(arguments);
    // Its own registry; the one of this place is root's.
    command.env("INTARSIA_RUNTIME_DIR", "/nowhere").env("HOME", "/").current_dir("/");
    Answer::of(command.uid(USER).gid(USER))
}

#[test]
fn another_users_store_is_named_as_theirs() {
    if !has_fuse() || !is_root() {
        return;
    }
    let place = Place::new();
    std::fs::set_permissions(place.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    place.up(&[]).code(0);
    let mount = place.text("mnt");
    for verb in ["status", "down"] {
        as_user(&place, &[verb, &mount])
            .code(1)
            .says(&format!("the store at {mount} is root's, and you are user {USER}"));
    }
    assert!(std::fs::read_dir(place.path("mnt")).is_ok());
}

#[test]
fn by_force_nobody_goes_past_another_verb_that_cannot_be_ended() {
    let place = Place::new();
    let store = place.path("store");
    std::fs::create_dir(&store).unwrap();
    std::fs::write(store.join("store.json"), r#"{"store":"s","tiers":[]}"#).unwrap();
    let lock = store.join("verb.lock");
    // Of whom nobody knows which process it is.
    let mut flock = Command::new("flock");
    let mut other = flock.arg("--no-fork").arg(&lock).args(["sleep", "600"]).spawn().unwrap();
    let is_held =
        || !Command::new("flock").arg("-n").arg(&lock).arg("true").status().unwrap().success();
    common::wait_until("the lock", is_held);

    let second = serde_json::json!({ "secs": 1, "nanos": 0 });
    let manner = serde_json::json!({ "force": true, "purge": true, "keep_servers": true,
        "patience": second, "closing": second });
    let orders = serde_json::json!({ "host": "n1", "mount": place.path("mnt"), "dir": store,
        "manner": manner });
    let mut agent = place.command(&["agent", "down"]);
    let mut agent = agent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut told = agent.stdin.take().unwrap();
    writeln!(told, "{orders}\n\"finish\"\n\"stop\"").unwrap();
    let said = agent.wait_with_output().unwrap().stdout;
    drop(told);
    let command = place.run(&["down", "--force", "--purge", store.to_str().unwrap()]);
    other.kill().unwrap();
    other.wait().unwrap();
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("failed") && said.contains("another process holds"), "{said}");
    command.code(4).says("another process holds");
    assert!(store.join("store.json").exists());
}
