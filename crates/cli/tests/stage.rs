//! Staging with real mounts: in and out, verified, interrupted and taken up again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]

mod common;

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use common::{Place, has_fuse, is_root, wait_until};

/// Everything that staging keeps, of a whole tree.
fn fingerprint(root: &Path) -> String {
    let script = "find . -type f -printf '%p %s %m %U %G %T@ %n\\n' -o -type l -printf '%p -> %l\\n' \
                  -o -printf '%p %m %T@\\n' | sort; find . -type f -exec cksum {} + | sort; \
                  getfattr -dR -m '^user' . 2>/dev/null | sort";
    let output = Command::new("sh").args(["-c", script]).current_dir(root).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// A tree with a bit of everything.
fn fill(root: &Path) {
    std::fs::create_dir_all(root.join("deep/er")).unwrap();
    std::fs::write(root.join("deep/er/leaf"), "leaf").unwrap();
    std::fs::write(root.join("empty"), "").unwrap();
    std::fs::write(root.join("name\nwith\u{e4}"), "odd").unwrap();
    for n in 0..40_u8 {
        std::fs::write(root.join(format!("deep/{n}")), vec![n; usize::from(n) * 1000]).unwrap();
    }
    let large = std::fs::File::create(root.join("large")).unwrap();
    large.set_len(9 << 20).unwrap();
    large.write_all_at(&[3; 3 << 20], 5 << 20).unwrap();
    std::fs::set_permissions(root.join("large"), std::fs::Permissions::from_mode(0o640)).unwrap();
    rustix::fs::setxattr(root.join("large"), "user.a", b"1", rustix::fs::XattrFlags::empty())
        .unwrap();
    symlink("deep/er/leaf", root.join("link")).unwrap();
    std::fs::hard_link(root.join("deep/1"), root.join("twin")).unwrap();
    let past = SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000, 123_456_789);
    for name in ["large", "deep", "."] {
        std::fs::File::open(root.join(name)).unwrap().set_modified(past).unwrap();
    }
}

fn sources(place: &Place) -> PathBuf {
    let source = place.path("source");
    std::fs::create_dir(&source).unwrap();
    fill(&source);
    source
}

#[test]
fn a_tree_comes_in_and_goes_out_as_it_was() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    let source = sources(&place);
    place.up(&[]).code(0);
    let (from, mount) = (place.text("source"), place.text("mnt"));
    let (out, manifest) = (place.text("out"), place.text("manifest"));
    place.run(&["stage", "in", "--dry-run", &from, &mount]).code(0).prints("would copy 44 files");
    assert!(!place.path("mnt/source").exists());
    let staged = place.run(&["stage", "in", "--json", &from, &mount]).code(0).json();
    assert_eq!((&staged["files"], &staged["copied"]), (&44.into(), &44.into()));
    assert_eq!((&staged["links"], &staged["is_whole"]), (&2.into(), &true.into()));
    let expected = fingerprint(&source);
    assert_eq!(fingerprint(&place.path("mnt/source")), expected);
    let back = ["stage", "out", &place.text("mnt/source"), &out, "--manifest", &manifest];
    place.run(&back).code(0).says("44 files in").says("44 copied, 0 there already; all verified");
    assert_eq!(fingerprint(&place.path("out/source")), expected);
    assert!(std::fs::metadata(place.path("out/source/large")).unwrap().blocks() < (8 << 20) / 512);
    // Once more only verifies; with and without the manifest.
    place.run(&back).code(0).says("0 copied, 44 there already");
    place.run(&back[..4]).code(0).says("0 copied, 44 there already");
    place.run(&["stage", "status", &manifest]).code(0).prints("44 files, 2 links");
    place.run(&["stage", "status", "--verify", &manifest]).code(0).prints("as recorded");

    // What differs is found and mended, also with the same length and time.
    let victim = place.path("out/source/deep/7");
    let modified = victim.metadata().unwrap().modified().unwrap();
    std::fs::write(&victim, vec![8; 7000]).unwrap();
    std::fs::File::open(&victim).unwrap().set_modified(modified).unwrap();
    std::fs::remove_file(place.path("out/source/deep/8")).unwrap();
    place
        .run(&["stage", "status", "--verify", &manifest])
        .code(3)
        .says("deep/7: differs from the manifest")
        .says("deep/8: No such file");
    place.run(&back).code(0).says("2 copied, 42 there already");
    assert_eq!(fingerprint(&place.path("out/source")), expected);
    place.run(&["stage", "status", "--verify", &manifest]).code(0);
}

#[test]
fn what_fails_is_named_and_the_rest_is_done() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    let source = sources(&place);
    place.up(&[]).code(0);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        source.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    std::fs::create_dir_all(place.path("mnt/source/deep/3")).unwrap();
    let mut unreadable = 0;
    if !is_root() {
        std::fs::set_permissions(source.join("deep/5"), std::fs::Permissions::from_mode(0o000))
            .unwrap();
        unreadable = 1;
    }
    let (from, mount) = (place.text("source"), place.text("mnt"));
    let answer = place.run(&["stage", "in", "--json", &from, &mount]).code(1);
    let answer = answer.says("source/fifo: a FIFO").says("deep/3: a directory is in its place");
    let staged = answer.json();
    assert_eq!(staged["failed"].as_array().unwrap().len(), 2 + unreadable);
    assert_eq!(staged["files"], 43 - unreadable);
    assert_eq!(staged["is_whole"], false);

    let (mount, out) = (place.text("mnt"), place.text("out"));
    place.run(&["stage", "in", &from, &from, &mount]).code(2).says("two of the sources");
    place.run(&["stage", "in", &from, &place.text("home")]).code(5).says("is in no store");
    place.run(&["stage", "out", &from, &out]).code(5).says("is in no store");
    place.run(&["stage", "out", &mount, &place.text("mnt/in")]).code(2).says("into itself");
    place.run(&["stage", "out", &place.text("mnt/nothing"), &out]).code(1).says("No such file");
    place.run(&["stage", "status", &place.text("source/large")]).code(2).says("no manifest");
    place.run(&["stage", "--help"]).code(0).prints("Examples:");
}

/// A command that is killed when the test ends early.
struct Running(Child);

impl Running {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.command(arguments);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_copy_shows_nothing_half_and_is_taken_up_again() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let results = place.path("mnt/results");
    std::fs::create_dir(&results).unwrap();
    for n in 0..60_u8 {
        let len = if n % 10 == 0 { 6 << 20 } else { 200_000 };
        std::fs::write(results.join(n.to_string()), vec![n; len]).unwrap();
    }
    let (from, out, manifest) =
        (place.text("mnt/results"), place.text("out"), place.text("manifest"));
    let arguments = ["stage", "out", "--jobs", "2", "--manifest", &manifest, &from, &out];
    let mut most = 0;
    for round in 0..12_u64 {
        let mut copy = Running::start(&place, &arguments);
        // Sooner or later after the start, wherever it then is.
        std::thread::sleep(Duration::from_millis(20 + 35 * round));
        copy.signal("-9");
        let _ = copy.0.wait();
        let visible: Vec<_> = std::fs::read_dir(place.path("out/results"))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|e| !e.file_name().to_string_lossy().starts_with(".intarsia-stage-"))
            .collect();
        for entry in &visible {
            let there = std::fs::read(entry.path()).unwrap();
            let here = std::fs::read(results.join(entry.file_name())).unwrap();
            assert!(there == here, "{} is half", entry.path().display());
        }
        assert!(visible.len() >= most, "what was done is lost");
        most = visible.len();
    }
    place.run(&arguments).code(0).says("60 files").says("all verified");
    assert_eq!(fingerprint(&place.path("out/results")), fingerprint(&results));
    place.run(&["stage", "status", "--verify", &manifest]).code(0).prints("60 files");
}

#[test]
fn results_drain_while_the_run_goes_on() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let results = place.path("mnt/results");
    std::fs::create_dir(&results).unwrap();
    let open = std::fs::File::create(results.join("open")).unwrap();
    open.write_all_at(b"not yet", 0).unwrap();
    std::fs::write(results.join("first"), vec![1; 100_000]).unwrap();
    let (from, out, manifest) =
        (place.text("mnt/results"), place.text("out"), place.text("manifest"));
    let copy = ["stage", "out", "--manifest", &manifest, &from, &out];
    let mut arguments = copy.to_vec();
    arguments.extend(["--follow", "--every", "50ms"]);
    let mut drain = Running::start(&place, &arguments);
    let is_out = |name: &str, content: &[u8]| {
        let path = place.path("out/results").join(name);
        wait_until(name, || std::fs::read(&path).is_ok_and(|bytes| bytes == content));
    };
    is_out("first", &[1; 100_000]);
    std::fs::create_dir(results.join("sub")).unwrap();
    std::fs::write(results.join("sub/second"), "2").unwrap();
    is_out("sub/second", b"2");
    // A rewritten file comes again.
    std::fs::write(results.join("first"), vec![9; 50_000]).unwrap();
    is_out("first", &[9; 50_000]);
    assert!(!place.path("out/results/open").exists(), "it is still being written");
    drop(open);
    is_out("open", b"not yet");
    std::fs::remove_file(results.join("sub/second")).unwrap();
    std::fs::write(results.join("last"), "last").unwrap();
    drain.signal("-TERM");
    assert!(drain.0.wait().unwrap().success());
    place.run(&copy).code(0).says("3 files").says("all verified");
    place.run(&copy).code(0).says("0 copied, 3 there already");
}

#[test]
fn a_full_destination_is_told_and_left_clean() {
    if !has_fuse() || !is_root() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let results = place.path("mnt/results");
    std::fs::create_dir(&results).unwrap();
    for n in 0..8_u8 {
        std::fs::write(results.join(n.to_string()), vec![n; 1 << 20]).unwrap();
    }
    let small = Small::new(place.path("small"));
    let (from, to) = (place.text("mnt/results"), place.text("small"));
    let full = place
        .run(&["stage", "out", "--jobs", "1", "--json", &from, &to])
        .code(1)
        .says("No space left")
        .says("not tried, because the destination is full");
    let entries = std::fs::read_dir(place.path("small/results")).unwrap();
    let left: Vec<u64> = entries.map(|e| e.unwrap().metadata().unwrap().len()).collect();
    assert!((2..8).contains(&left.len()), "{left:?}");
    assert!(left.iter().all(|len| *len == 1 << 20), "{left:?}");
    assert_eq!(full.json()["files"], left.len());
    small.grow();
    let again = place.run(&["stage", "out", &from, &to]).code(0).says("8 files in");
    again.says(&format!("{} there already", left.len()));
}

/// A small file system, unmounted at the end.
struct Small(PathBuf);

impl Small {
    fn new(path: PathBuf) -> Self {
        std::fs::create_dir(&path).unwrap();
        let small = Self(path);
        small.mount("size=4m");
        small
    }

    fn grow(&self) {
        self.mount("remount,size=64m");
    }

    fn mount(&self, options: &str) {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&self.0);
        assert!(command.status().unwrap().success(), "{command:?}");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
