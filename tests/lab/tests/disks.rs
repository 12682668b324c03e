//! Disks that are not there when a store of several hosts comes up, are there again, or have moved.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use intarsia_lab_tests::{Cluster, ended, is_unmet, kill};
use intarsia_posix_tests::{intarsia, skip, wait_for};

const REFUSED: i32 = 2;
const HOSTS: usize = 3;
/// Too large for the record of a file.
const BYTES: usize = 300_000;

const PLACE: &str = "/var/tmp";

/// Whether there is no disk for the tiers, said as a skip.
fn lies_in_memory() -> bool {
    let kind = Command::new("stat").args(["-f", "-c", "%T", PLACE]).output().unwrap();
    let is_memory = String::from_utf8_lossy(&kind.stdout).trim() == "tmpfs";
    if is_memory {
        skip(&format!("{PLACE} lies in memory"));
    }
    is_memory
}

/// A store whose tiers lie outside of the directories of its hosts, on a disk: tiers in memory are made anew without a question.
struct Disks {
    cluster: Cluster,
    dir: tempfile::TempDir,
}

impl Disks {
    fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("intarsia-disks-").tempdir_in(PLACE).unwrap();
        let tier = dir.path().join("{host}").to_string_lossy().into_owned();
        let cluster = Cluster::start_with(HOSTS, &["--tier", &tier]);
        Self { cluster, dir }
    }

    fn tier(&self, n: usize) -> PathBuf {
        self.dir.path().join(format!("n{n}"))
    }

    /// Takes the disk of a host away, or brings it back: its name while it is away.
    fn away(&self, n: usize) -> PathBuf {
        self.dir.path().join(format!("away-n{n}"))
    }

    fn file(&self, n: usize, name: &str) -> PathBuf {
        self.cluster.mount(n).join(name)
    }

    fn up(&self, more: &[&str]) -> (Option<i32>, String) {
        self.up_at("{host}", more)
    }

    fn up_at(&self, tier: &str, more: &[&str]) -> (Option<i32>, String) {
        let mut up = self.cluster.command("up");
        up.args(["--wait", "60s", "--tier"]).arg(self.dir.path().join(tier));
        ended(up.args(more))
    }

    fn down(&self) {
        let (code, said) = ended(&mut self.cluster.command("down"));
        assert_eq!(code, Some(0), "{said}");
    }

    fn write_on_all(&self, name: &str) {
        for n in 1..=HOSTS {
            fs::write(self.file(n, &format!("{name}{n}")), content(n)).unwrap();
        }
    }

    /// Files of which each holds its name.
    fn write_meanwhile(&self) -> Vec<String> {
        let names: Vec<String> = (0..200).map(|n| format!("meanwhile{n}")).collect();
        names.iter().for_each(|name| fs::write(self.file(1, name), name).unwrap());
        names
    }

    fn assert_all_read(&self, name: &str) {
        for (n, from) in (1..=HOSTS).flat_map(|n| (1..=HOSTS).map(move |from| (n, from))) {
            let read = fs::read(self.file(from, &format!("{name}{n}")));
            assert!(read.unwrap() == content(n), "{name}{n} from n{from}");
        }
    }

    /// What `lost` says.
    fn lost(&self) -> String {
        let mut lost = Command::new(intarsia());
        let output = lost.arg("lost").arg(self.cluster.mount(1)).output().unwrap();
        [output.stdout, output.stderr].map(|s| String::from_utf8_lossy(&s).into_owned()).concat()
    }
}

fn content(n: usize) -> Vec<u8> {
    vec![u8::try_from(n).unwrap(); BYTES]
}

#[test]
fn a_store_is_not_brought_up_without_a_disk_unless_that_is_accepted_and_has_its_files_again_with_it()
 {
    if is_unmet() || lies_in_memory() {
        return;
    }
    let disks = Disks::start();
    disks.write_on_all("f");
    disks.down();
    fs::rename(disks.tier(2), disks.away(2)).unwrap();

    let (code, said) = disks.up(&[]);
    assert_eq!(code, Some(REFUSED), "{said}");
    let tier = disks.tier(2);
    assert!(said.contains(&format!("{} on n2", tier.display())), "{said}");
    assert!(said.contains("is its disk mounted?") && said.contains("--accept-loss"), "{said}");
    assert!(!tier.exists(), "a refusal makes nothing");

    let (code, said) = disks.up(&["--accept-loss"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("warning") && said.contains("counts as lost"), "{said}");
    assert!(disks.lost().contains("/f2"), "{}", disks.lost());
    assert!(fs::read(disks.file(1, "f2")).is_err());
    disks.write_on_all("without");
    disks.down();

    fs::rename(disks.tier(2), disks.dir.path().join("hidden")).unwrap();
    fs::rename(disks.away(2), disks.tier(2)).unwrap();
    let (code, said) = disks.up(&[]);
    assert_eq!(code, Some(0), "{said}");
    disks.assert_all_read("f");
    let lost = disks.lost();
    assert!(lost.contains("/without2") && !lost.contains("/f2"), "{lost}");
    disks.write_on_all("again");
    disks.down();

    // The other way round, and once more.
    for (there, not_there) in [("without", "f"), ("f", "without")] {
        fs::rename(disks.tier(2), disks.away(2)).unwrap();
        fs::rename(disks.dir.path().join("hidden"), disks.tier(2)).unwrap();
        fs::rename(disks.away(2), disks.dir.path().join("hidden")).unwrap();
        let (code, said) = disks.up(&[]);
        assert_eq!(code, Some(0), "{said}");
        disks.assert_all_read(there);
        assert!(fs::read(disks.file(3, &format!("{not_there}2"))).is_err());
        disks.down();
    }
}

#[test]
fn a_host_that_starts_alone_with_its_disk_again_has_its_files_read_by_the_others() {
    if is_unmet() || lies_in_memory() {
        return;
    }
    let disks = Disks::start();
    disks.write_on_all("f");
    disks.down();
    fs::rename(disks.tier(2), disks.away(2)).unwrap();
    assert_eq!(disks.up(&["--accept-loss"]).0, Some(0));
    assert!(fs::read(disks.file(1, "f2")).is_err());
    disks.cluster.kill_node(2);
    fs::remove_dir_all(disks.tier(2)).unwrap();
    fs::rename(disks.away(2), disks.tier(2)).unwrap();
    let (code, said) = disks.up(&[]);
    assert_eq!(code, Some(0), "{said}");
    wait_for("the others to know of it", Duration::from_secs(20), || {
        [1, 3].iter().all(|n| fs::read(disks.file(*n, "f2")).is_ok()).then_some(())
    });
    disks.assert_all_read("f");
}

/// Takes everything that a host has away, and puts aside what is in its place then.
struct Swap<'a> {
    disks: &'a Disks,
    host: usize,
}

impl Swap<'_> {
    /// The directories of the host, with where they are while they are away.
    fn places(&self) -> [(PathBuf, PathBuf); 2] {
        let aside = |name: &str| self.disks.dir.path().join(name);
        [
            (self.disks.cluster.store(self.host), aside("dir-away")),
            (self.disks.tier(self.host), aside("tier-away")),
        ]
    }

    fn take_away(&self) {
        for (place, away) in self.places() {
            copy(&place, &away);
            fs::remove_dir_all(place).unwrap();
        }
    }

    fn bring_back(&self) {
        for (place, away) in self.places() {
            fs::remove_dir_all(&place).unwrap();
            copy(&away, &place);
        }
    }
}

/// Also to another file system.
fn copy(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    assert!(copy.arg("-a").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn a_host_that_comes_without_its_disks_is_whole_again_with_them_and_nothing_done_meanwhile_is_lost()
{
    if is_unmet() || lies_in_memory() {
        return;
    }
    let disks = Disks::start();
    disks.write_on_all("f");
    disks.down();
    let swap = Swap { disks: &disks, host: 2 };
    swap.take_away();
    let (code, said) = disks.up(&[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("in the directory of n2"), "{said}");
    assert!(disks.lost().contains("/f2"), "{}", disks.lost());
    // Of what the returning servers have, others have newer copies by then.
    let names = disks.write_meanwhile();
    disks.down();

    swap.bring_back();
    let (code, said) = disks.up(&[]);
    assert_eq!(code, Some(0), "{said}");
    disks.assert_all_read("f");
    for name in &names {
        assert_eq!(fs::read_to_string(disks.file(3, name)).unwrap(), *name);
    }
    let (code, said) = ended(Command::new(intarsia()).arg("check").arg(disks.cluster.mount(1)));
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_host_that_comes_back_with_older_disks_while_the_others_are_up_takes_nothing_from_them() {
    if is_unmet() || lies_in_memory() {
        return;
    }
    let disks = Disks::start();
    disks.write_on_all("f");
    disks.down();
    let swap = Swap { disks: &disks, host: 2 };
    swap.take_away();
    assert_eq!(disks.up(&[]).0, Some(0));
    let names = disks.write_meanwhile();
    // A power failure of the host, after which it has its older disks.
    disks.cluster.processes(2).into_iter().for_each(kill);
    swap.bring_back();
    let (code, said) = disks.up(&[]);
    assert_eq!(code, Some(0), "{said}");
    wait_for("all names and files", Duration::from_secs(30), || {
        let is_read = |n: usize| {
            names
                .iter()
                .all(|name| fs::read_to_string(disks.file(n, name)).ok().as_ref() == Some(name))
                && (1..=HOSTS).all(|f| fs::read(disks.file(n, &format!("f{f}"))).is_ok())
        };
        (1..=HOSTS).all(is_read).then_some(())
    });
    disks.assert_all_read("f");
}

#[test]
fn tiers_that_were_moved_are_found_where_they_are_and_copies_are_refused() {
    if is_unmet() || lies_in_memory() {
        return;
    }
    let disks = Disks::start();
    disks.write_on_all("f");
    disks.down();
    for n in 1..=HOSTS {
        fs::rename(disks.tier(n), disks.dir.path().join(format!("moved-n{n}"))).unwrap();
    }
    let (code, said) = disks.up_at("moved-{host}", &[]);
    assert_eq!(code, Some(0), "{said}");
    disks.assert_all_read("f");
    assert!(disks.lost().contains("No host is lost"), "{}", disks.lost());
    disks.down();

    for n in 1..=HOSTS {
        let (from, to) = (format!("moved-n{n}"), format!("copy-n{n}"));
        let [from, to] = [from, to].map(|name| disks.dir.path().join(name));
        copy(&from, &to);
    }
    let (code, said) = disks.up_at("copy-{host}", &[]);
    assert_ne!(code, Some(0), "{said}");
    assert!(said.contains("which is not named") || said.contains("is a copy of tier"), "{said}");
    let (code, said) = disks.up_at("moved-{host}", &[]);
    assert_eq!(code, Some(0), "{said}");
    disks.assert_all_read("f");
    disks.down();

    // Two hosts have each other's disks.
    let moved = |n: usize| disks.dir.path().join(format!("moved-n{n}"));
    let exchange = || {
        fs::rename(moved(2), disks.away(2)).unwrap();
        fs::rename(moved(3), moved(2)).unwrap();
        fs::rename(disks.away(2), moved(3)).unwrap();
    };
    exchange();
    let (code, said) = disks.up_at("moved-{host}", &[]);
    assert_ne!(code, Some(0), "{said}");
    assert!(said.contains("which is one of host n"), "{said}");
    exchange();
    let (code, said) = disks.up_at("moved-{host}", &[]);
    assert_eq!(code, Some(0), "{said}");
    disks.assert_all_read("f");
}
