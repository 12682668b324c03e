//! The kernel's pages of files whose bytes are at another host: kept while nobody writes, and never old.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use intarsia_lab_tests::{Cluster, is_unmet};
use intarsia_posix_tests::{pattern, wait_for};

const PATIENCE: Duration = Duration::from_secs(20);
const MIB: usize = 1 << 20;
/// As FITS files are read.
const RECORD: usize = 2880;

/// Kernel requests that the node of a host has answered.
fn requests(cluster: &Cluster, host: usize) -> u64 {
    cluster.status(host).unwrap()["requests"].as_u64().unwrap()
}

/// Reads a file to its end in small pieces.
fn read_in_records(path: &Path) -> Vec<u8> {
    let (mut file, mut all, mut record) = (File::open(path).unwrap(), Vec::new(), [0; RECORD]);
    loop {
        match file.read(&mut record).unwrap() {
            0 => return all,
            n => all.extend_from_slice(&record[..n]),
        }
    }
}

/// Reads from an open file at a place.
fn read_at(file: &File, at: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0; len];
    let n = file.read_at(&mut buffer, at).unwrap();
    buffer.truncate(n);
    buffer
}

/// Waits until what `file` shows is `expected`, and nothing but that or `before` until then.
fn wait_for_content(file: &File, at: u64, before: &[u8], expected: &[u8]) {
    wait_for("an open reader sees what was written elsewhere", PATIENCE, || {
        let seen = read_at(file, at, expected.len());
        assert!(seen == expected || before.starts_with(&seen), "neither old nor new");
        (seen == expected).then_some(())
    });
}

#[test]
fn small_reads_are_few_requests_and_a_second_pass_none() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(2);
    let [there, here] = [1, 2].map(|n| cluster.mount(n).join("f"));
    let content = pattern(1, 8 * MIB);
    fs::write(&there, &content).unwrap();
    let before = requests(&cluster, 2);
    assert!(read_in_records(&here) == content);
    let first = requests(&cluster, 2) - before;
    assert!(first < 400, "{first} requests for {} reads", content.len() / RECORD);
    // At once, while the file has not settled, and so that no copy of it can have been made here.
    let before = requests(&cluster, 2);
    assert!(read_in_records(&here) == content);
    let second = requests(&cluster, 2) - before;
    assert!(second < 30, "{second} requests for pages that are here");
    // What was changed elsewhere is read anew, however little that is.
    let mut changed = content;
    changed[5 * MIB] ^= 1;
    let writer = OpenOptions::new().write(true).open(&there).unwrap();
    writer.write_all_at(&changed[5 * MIB..=5 * MIB], 5 * MIB as u64).unwrap();
    drop(writer);
    assert!(read_in_records(&here) == changed);
    assert!(read_in_records(&there) == changed);
}

#[test]
fn every_opening_sees_what_was_closed_elsewhere() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    let [first, second, third] = [1, 2, 3].map(|n| cluster.mount(n).join("f"));
    for round in 0..30_u64 {
        let content = pattern(round, 300_000 + 50_000 * (round as usize % 5));
        let (writer, readers) = match round % 3 {
            0 => (&first, [&second, &third]),
            1 => (&second, [&third, &first]),
            _ => (&third, [&first, &second]),
        };
        match round % 4 {
            // A new file in the place of the old one.
            0 => {
                let new = writer.with_file_name("new");
                fs::write(&new, &content).unwrap();
                fs::rename(&new, writer).unwrap();
            }
            1 | 2 => fs::write(writer, &content).unwrap(),
            // In place, and cut to its length.
            _ => {
                let file = OpenOptions::new().write(true).open(writer).unwrap();
                file.write_all_at(&content, 0).unwrap();
                file.set_len(content.len() as u64).unwrap();
            }
        }
        for reader in readers.into_iter().cycle().take(4) {
            assert!(read_in_records(reader) == content, "round {round}, {}", reader.display());
        }
        if round % 5 == 4 {
            // Long enough for the file to be vouched for again.
            std::thread::sleep(Duration::from_millis(300));
            assert!(read_in_records(readers[0]) == content);
        }
    }
}

#[test]
fn a_program_that_has_the_file_open_follows_a_writer_elsewhere() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    let [there, here, third] = [1, 2, 3].map(|n| cluster.mount(n).join("f"));
    let old = pattern(1, MIB);
    fs::write(&there, &old).unwrap();
    let mut file = File::open(&here).unwrap();
    assert!(read_at(&file, 0, MIB) == old);
    // Overwritten in the middle, and neither synced nor closed.
    let new = pattern(2, 10_000);
    let writer = OpenOptions::new().write(true).open(&there).unwrap();
    writer.write_all_at(&new, 500_000).unwrap();
    wait_for_content(&file, 500_000, &old[500_000..510_000], &new);
    drop(writer);
    // By a third host, through the home.
    let newer = pattern(3, 10_000);
    let writer = OpenOptions::new().write(true).open(&third).unwrap();
    writer.write_all_at(&newer, 500_000).unwrap();
    wait_for_content(&file, 500_000, &new, &newer);
    drop(writer);
    // Appended to, and read as `tail -f` does it: by length, then to the end.
    file.read_to_end(&mut Vec::new()).unwrap();
    for n in 0..10_u8 {
        let more = vec![n + 1; 3000];
        let mut writer = OpenOptions::new().append(true).open(&there).unwrap();
        writer.write_all(&more).unwrap();
        drop(writer);
        assert_eq!(file.metadata().unwrap().len(), (MIB + 3000 * (usize::from(n) + 1)) as u64);
        let mut seen = Vec::new();
        file.read_to_end(&mut seen).unwrap();
        assert!(seen == more, "{} bytes", seen.len());
    }
    // Cut: the reader finds the end where it is, and what was before.
    OpenOptions::new().write(true).open(&there).unwrap().set_len(600_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 600_000);
    assert_eq!(read_at(&file, 599_000, 5000).len(), 1000);
    // By a third host, through the home: also to who reads there.
    let at_home = File::open(&there).unwrap();
    assert_eq!(read_at(&at_home, 0, MIB).len(), 600_000);
    OpenOptions::new().write(true).open(&third).unwrap().set_len(550_000).unwrap();
    for reader in [&file, &at_home] {
        assert_eq!(reader.metadata().unwrap().len(), 550_000);
        assert_eq!(read_at(reader, 549_000, 5000).len(), 1000);
    }
    // Replaced: who has it open keeps the old file, who opens it gets the new one.
    let new = there.with_file_name("new");
    fs::write(&new, pattern(4, MIB)).unwrap();
    fs::rename(&new, &there).unwrap();
    assert!(read_at(&file, 500_000, 10_000) == newer);
    assert!(read_in_records(&here) == pattern(4, MIB));
}

#[test]
fn a_program_that_reads_on_while_the_file_is_cut_elsewhere_never_sees_what_nobody_wrote() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(2);
    let [there, here] = [1, 2].map(|n| cluster.mount(n).join("f"));
    let content: Vec<u8> = (0..600_000).map(|i| u8::try_from(i % 251).unwrap() + 1).collect();
    for round in 0..12 {
        fs::write(&there, &content[..400_000]).unwrap();
        // Until the file is vouched for, which it is not just after it was rewritten under its readers.
        std::thread::sleep(Duration::from_millis(250));
        let is_done = AtomicBool::new(false);
        let file = File::open(&here).unwrap();
        std::thread::scope(|scope| {
            for reader in 0..3 {
                let (is_done, file, content) = (&is_done, &file, &content);
                scope.spawn(move || {
                    let mut buffer = vec![0; [4096, 65_536, 200_000][reader]];
                    while !is_done.load(Ordering::Relaxed) {
                        let mut at = 0;
                        while let n @ 1.. = file.read_at(&mut buffer, at as u64).unwrap() {
                            let wrong = (0..n).find(|i| buffer[*i] != content[at + i]);
                            assert_eq!(wrong, None, "of {n} bytes at {at}, round {round}");
                            at += n;
                        }
                        assert!(file.metadata().unwrap().len() <= content.len() as u64);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(50));
            for len in [100, 600_000, 60_000, 250_000] {
                let mut writer = File::create(&there).unwrap();
                for part in content[..len].chunks(50_000) {
                    writer.write_all(part).unwrap();
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
        assert!(read_in_records(&here) == content[..250_000]);
    }
}

#[test]
fn mapped_pages_follow_too() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(2);
    let [there, here] = [1, 2].map(|n| cluster.mount(n).join("f"));
    fs::write(&there, vec![b'a'; 100_000]).unwrap();
    // Python is there for the tests anyway, and maps files without `unsafe`.
    let script = "import mmap, sys, time\n\
        f = open(sys.argv[1], 'rb')\n\
        m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n\
        print(chr(m[50000]), flush=True)\n\
        end = time.time() + 20\n\
        while m[50000] != ord('b') and time.time() < end: time.sleep(0.01)\n\
        print(chr(m[50000]), flush=True)\n";
    let mut reader = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(&here)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = reader.stdout.take().unwrap();
    let mut line = [0; 2];
    said.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"a\n");
    // Not cut, which a mapping does not survive anywhere.
    OpenOptions::new().write(true).open(&there).unwrap().write_all(&vec![b'b'; 100_000]).unwrap();
    said.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"b\n");
    assert!(reader.wait().unwrap().success());
}

#[test]
fn a_reader_that_does_not_answer_holds_a_writer_up_for_a_moment_and_then_sees_the_present() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    let [there, here] = [1, 2].map(|n| cluster.mount(n).join("f"));
    let (old, new) = (pattern(1, 200_000), pattern(2, 200_000));
    fs::write(&there, &old).unwrap();
    let file = File::open(&here).unwrap();
    assert!(read_at(&file, 0, old.len()) == old);
    let stop = |signal| {
        let node = rustix::process::Pid::from_raw(cluster.processes(2)[0]).unwrap();
        rustix::process::kill_process(node, signal).unwrap();
    };
    stop(rustix::process::Signal::STOP);
    let begun = Instant::now();
    fs::write(&there, &new).unwrap();
    let took = begun.elapsed();
    stop(rustix::process::Signal::CONT);
    assert!(took < Duration::from_secs(9), "{took:?}");
    assert!(fs::read(&there).unwrap() == new);
    wait_for("the reader answers again", PATIENCE, || File::open(&here).ok());
    assert!(read_in_records(&here) == new);
    wait_for("an open reader sees the present", PATIENCE, || {
        (read_at(&file, 0, new.len()) == new).then_some(())
    });
}

#[test]
fn what_a_killed_writer_left_is_seen_when_its_host_is_back() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    let [there, here] = [1, 2].map(|n| cluster.mount(n).join("f"));
    let old = pattern(1, 400_000);
    fs::write(&there, &old).unwrap();
    let file = File::open(&here).unwrap();
    assert!(read_at(&file, 0, old.len()) == old);
    let new = pattern(2, 100_000);
    let writer = OpenOptions::new().write(true).open(&there).unwrap();
    writer.write_all_at(&new, 0).unwrap();
    cluster.kill_node(1);
    drop(writer);
    cluster.restart_node(1);
    let mut expected = old;
    expected[..new.len()].copy_from_slice(&new);
    wait_for("the home is back", PATIENCE, || fs::read(&here).ok());
    wait_for("what was written shows", PATIENCE, || {
        (read_in_records(&here) == expected).then_some(())
    });
    wait_for("also to who had it open", PATIENCE, || {
        let mut seen = vec![0; expected.len()];
        let n = file.read_at(&mut seen, 0).ok()?;
        (n == seen.len() && seen == expected).then_some(())
    });
}
