//! A mounted store over a lower file system, in both I/O modes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]

mod common;

use std::io::Read;
use std::path::Path;
use std::process::Command;

use common::{Place, has_fuse};

fn shell(dir: &Path, script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).current_dir(dir).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

fn over_lower(more: &[&str]) {
    let place = Place::new();
    let lower = place.path("lower");
    shell(&place.path("home"), "mkdir -p ../lower/in/deep; echo one >../lower/in/one");
    shell(&lower, "seq 100000 >in/numbers; ln -s one in/link; echo leaf >in/deep/leaf");
    let before = shell(&lower, "find . -printf '%p %s %m %T@\\n' | sort; cat in/numbers | cksum");
    let (mount, dir) = (place.path("mnt"), place.text("lower"));
    let mut arguments = vec!["--lower", dir.as_str()];
    arguments.extend(more);
    place.up(&arguments).code(0);

    assert_eq!(
        shell(&mount, "cat in/link in/deep/leaf; ls in"),
        "one\nleaf\ndeep\nlink\nnumbers\none\n"
    );
    shell(&mount, "cmp in/numbers ../lower/in/numbers");
    // A reader that has it open sees the writer, who works on a copy.
    let mut reader = std::fs::File::open(mount.join("in/one")).unwrap();
    shell(&mount, "echo two >>in/one; echo new >in/new; sed -i s/5/five/ in/numbers");
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "one\ntwo\n");
    drop(reader);
    shell(
        &mount,
        "test $(head -5 in/numbers | tail -1) = five; rm -r in/deep; mv in input; ! test -e in",
    );
    assert_eq!(shell(&mount, "ls input"), "link\nnew\nnumbers\none\n");
    shell(&lower, "echo outside >in/late");
    assert_eq!(
        shell(&mount, "ls input; cat input/late"),
        "late\nlink\nnew\nnumbers\none\noutside\n"
    );
    shell(&lower, "echo changed outside >in/late");
    assert_eq!(shell(&mount, "stat -c %s input/late; cat input/late"), "16\nchanged outside\n");
    assert_eq!(place.run(&["status", "--json"]).code(0).json()[0]["lower"], dir.as_str());
    place.run(&["check"]).code(0).prints("whole");
    place.run(&["down"]).code(0);
    shell(&lower, "rm in/late; touch -d @$(stat -c %Y in/one) in");
    let after = shell(&lower, "find . -printf '%p %s %m %T@\\n' | sort; cat in/numbers | cksum");
    let unchanged = |text: &str| {
        // The directory was touched by this test itself.
        text.lines().filter(|l| !l.starts_with("./in ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(unchanged(&after), unchanged(&before));

    // Without a word the store knows where the rest of its files is.
    place.up(more).code(0);
    assert_eq!(shell(&mount, "cat input/one; ls"), "one\ntwo\ninput\n");
    place.run(&["down"]).code(0);
}

#[test]
fn a_lower_file_system_shows_and_stays_as_it_is() {
    if has_fuse() {
        over_lower(&[]);
    }
}

#[test]
fn so_it_does_through_the_process() {
    if has_fuse() {
        over_lower(&["--no-passthrough"]);
    }
}

#[test]
fn a_lower_file_that_grows_is_followed_by_who_has_it_open() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    let dir = place.text("lower");
    shell(&place.path("home"), "mkdir ../lower; echo first >../lower/log");
    place.up(&["--lower", dir.as_str()]).code(0);
    let mut reader = std::fs::File::open(place.path("mnt").join("log")).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    for line in ["second", "third"] {
        shell(&place.path("lower"), &format!("echo {line} >>log"));
        // As `tail -f` does.
        assert_eq!(reader.metadata().unwrap().len(), (text.len() + line.len() + 1) as u64);
        reader.read_to_string(&mut text).unwrap();
    }
    assert_eq!(text, "first\nsecond\nthird\n");
    drop(reader);
    place.run(&["down"]).code(0);
}

#[test]
fn a_wrong_lower_file_system_is_refused_with_the_remedy() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&["--lower", &place.text("nowhere")]).code(1).says("nowhere").says("--lower");
    place.up(&["--lower", &place.text("")]).code(2).says("lie in each other");
    for name in ["a", "b"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    place.up(&["--lower", &place.text("a")]).code(0);
    place.run(&["down"]).code(0);
    place.up(&["--lower", &place.text("b")]).code(2).says("/a, not ").says("--lower");
}
