//! What the kernel may keep of another host's file: as long as nobody writes to it, whatever else becomes of it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, content_of, no_kernel, overwrite, pattern, put, wait_until,
};
use intarsia_node::{AttrChange, Node, Opened, Pages, Reading};
use intarsia_types::InodeId;

/// Gives a node a kernel that counts how often it is to drop pages.
fn with_pages(node: &Arc<Node>) -> Arc<AtomicU32> {
    let drops = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&drops);
    node.set_page_dropper(Box::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }));
    drops
}

/// Opens a file to read, as the mount does.
fn open(node: &Node, ino: InodeId) -> Opened {
    let opened = node.open_file(ROOT_CALLER, ino, false, false, &no_kernel).unwrap();
    assert!(matches!(opened.pages, Pages::Vouched | Pages::Bypassed));
    opened
}

fn is_paged(opened: &Opened) -> bool {
    opened.pages == Pages::Vouched
}

/// Whether the pages are kept that are there when a file is opened; it is closed again.
fn keeps(node: &Node, drops: &AtomicU32, ino: InodeId) -> bool {
    let before = drops.load(Ordering::SeqCst);
    let opened = open(node, ino);
    let are_dropped = drops.load(Ordering::SeqCst) > before;
    node.release(ino, false);
    is_paged(&opened) && !are_dropped
}

/// Waits until a file is vouched for after it was rewritten under its readers.
fn wait_until_paged(node: &Node, ino: InodeId) {
    wait_until("the file is vouched for again", || {
        let opened = open(node, ino);
        node.release(ino, false);
        is_paged(&opened)
    });
}

/// What the kernel gets for its pages.
fn page_read(node: &Node, ino: InodeId, at: usize, len: usize) -> Vec<u8> {
    let mut buffer = vec![0; len];
    match node.begin_page_read(ino, at as u64, &mut buffer).unwrap() {
        Reading::Done(n) => buffer[..n].to_vec(),
        Reading::Elsewhere(read) => {
            read.finish(&mut Vec::new(), |bytes| bytes.map(<[u8]>::to_vec)).unwrap()
        }
    }
}

#[test]
fn pages_are_kept_for_as_long_as_the_content_is_the_same() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let drops = with_pages(&b);
    let ino = put(&a, "f", &pattern(MIB, 1));
    assert!(!keeps(&b, &drops, ino), "nothing can be there yet");
    assert!(keeps(&b, &drops, ino));
    // The record changes, and the content does not.
    let change = AttrChange { perm: Some(0o600), ..AttrChange::default() };
    a.set_attributes(ROOT_CALLER, ino, &change).unwrap();
    assert!(keeps(&b, &drops, ino));
    assert!(a.wait_until_settled(Instant::now() + Duration::from_secs(60)));
    assert!(keeps(&b, &drops, ino), "it has settled and was summed");
    // Nobody has it open at b, so b is told nothing, and finds out.
    overwrite(&a, ino, 10, b"other", false).unwrap();
    assert!(!keeps(&b, &drops, ino));
    // At once, but if a did not know yet that b had closed it.
    wait_until("pages are kept again", || keeps(&b, &drops, ino));
    a.set_attributes(ROOT_CALLER, ino, &AttrChange { size_bytes: Some(MIB as u64 / 2), ..change })
        .unwrap();
    assert!(!keeps(&b, &drops, ino), "it was cut without being opened");
    // Written by b, which becomes its home, and by a again.
    overwrite(&b, ino, 10, b"more", false).unwrap();
    overwrite(&a, ino, 10, b"else", false).unwrap();
    assert!(!keeps(&b, &drops, ino));
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_writer_waits_until_the_pages_that_others_have_open_are_dropped() {
    let deployment = Deployment::new();
    let [a, b, c] = deployment.start_all(["a", "b", "c"]);
    let drops = with_pages(&b);
    let ino = put(&a, "f", &pattern(MIB, 1));
    let drops_so_far = || drops.load(Ordering::SeqCst);
    for (round, writer) in [&a, &c, &b].into_iter().enumerate() {
        wait_until_paged(&b, ino);
        assert!(is_paged(&open(&b, ino)));
        let before = drops_so_far();
        writer.open_file(ROOT_CALLER, ino, true, false, &no_kernel).unwrap();
        assert!(drops_so_far() > before, "round {round}");
        if !Arc::ptr_eq(writer, &b) {
            assert!(!is_paged(&open(&b, ino)), "it is being written elsewhere");
            b.release(ino, false);
        }
        writer.write(ino, 77, b"new", false, false).unwrap();
        let before = drops_so_far();
        assert_eq!(page_read(&b, ino, 77, 3), b"new");
        wait_until("what was read meanwhile is dropped again", || drops_so_far() > before);
        writer.flush(ino).unwrap();
        writer.release(ino, true);
        b.release(ino, false);
    }
    [a, b, c].into_iter().for_each(|node| node.close().unwrap());
}

#[test]
fn a_file_that_is_cut_goes_on_whole_for_the_pages_of_those_who_have_it_open() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    with_pages(&b);
    let old = pattern(300_000, 1);
    let ino = put(&a, "f", &old);
    for (round, truncate) in [true, false].into_iter().enumerate() {
        wait_until_paged(&b, ino);
        let old = content_of(&b, ino).unwrap();
        assert!(is_paged(&open(&b, ino)));
        let new = pattern(20_000, 2 + u8::try_from(round).unwrap());
        if truncate {
            overwrite(&a, ino, 0, &new, true).unwrap();
        } else {
            let cut = AttrChange { size_bytes: Some(10_000), ..AttrChange::default() };
            a.set_attributes(ROOT_CALLER, ino, &cut).unwrap();
        }
        // The kernel believes the old length still.
        let at = old.len() - 5000;
        assert!(page_read(&b, ino, at, 4096) == old[at..at + 4096], "round {round}");
        let seen = content_of(&b, ino).unwrap();
        assert!(seen == if truncate { &new[..] } else { &old[..10_000] });
        assert!(page_read(&b, ino, at, 4096) == old[at..at + 4096], "round {round}");
        assert_eq!(b.attributes(ino).unwrap().0.size_bytes, seen.len() as u64);
        b.release(ino, false);
    }
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn whoever_asks_for_the_length_of_a_file_that_was_cut_has_the_kernel_take_it() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    let drops = with_pages(&b);
    let ino = put(&a, "f", &pattern(300_000, 1));
    wait_until_paged(&b, ino);
    assert!(is_paged(&open(&b, ino)));
    let length = || b.attributes(ino).unwrap().0.size_bytes;
    // Told as `drop_old_pages` is called by the mount: what is dropped then keeps the kernel from taking the length.
    let is_taken = || !b.drop_old_pages(ino);
    for len in [200_000, 20_000, 5000] {
        let cut = AttrChange { size_bytes: Some(len), ..AttrChange::default() };
        a.set_attributes(ROOT_CALLER, ino, &cut).unwrap();
        let before = drops.load(Ordering::SeqCst);
        assert_eq!(length(), len);
        assert!(is_taken(), "cut to {len}");
        wait_until("what it has before the end goes too", || drops.load(Ordering::SeqCst) > before);
    }
    // What stands behind the old end goes before the kernel shows it as the file's.
    overwrite(&a, ino, 5000, &pattern(5000, 2), false).unwrap();
    assert_eq!(length(), 10_000);
    assert!(!is_taken());
    assert_eq!(length(), 10_000);
    assert!(is_taken());
    let cut = AttrChange { size_bytes: Some(10), ..AttrChange::default() };
    a.set_attributes(ROOT_CALLER, ino, &cut).unwrap();
    assert_eq!(length(), 10);
    assert!(is_taken(), "cut after it had grown");
    b.release(ino, false);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn a_file_of_which_the_kernel_may_have_a_greater_length_is_not_opened_through_its_pages() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    with_pages(&b);
    let old = pattern(300_000, 1);
    let ino = put(&a, "f", &old);
    let is_asked = Arc::<AtomicBool>::default();
    let asks = Arc::clone(&is_asked);
    b.set_attribute_dropper(Box::new(move |_| {
        asks.store(true, Ordering::SeqCst);
        true
    }));
    let tell_length = || {
        let asked = intarsia_sync::Instant::now();
        b.tell_length(&b.attributes(ino).unwrap().0, asked);
    };
    tell_length();
    wait_until_paged(&b, ino);
    // It is cut before it is opened. A short read would be filled up with zeros.
    let cut = |len| AttrChange { size_bytes: Some(len), ..AttrChange::default() };
    a.set_attributes(ROOT_CALLER, ino, &cut(200_000)).unwrap();
    assert!(!is_paged(&open(&b, ino)));
    b.release(ino, false);
    tell_length();
    // It may not have taken that yet. Whoever opens the file has it ask again until it has, for sure.
    wait_until("the file is read through pages again", || {
        let opened = open(&b, ino);
        b.release(ino, false);
        if is_asked.swap(false, Ordering::SeqCst) {
            tell_length();
        }
        is_paged(&opened)
    });
    // It is cut while it is open, and the kernel drops pages, so that it takes note of no end.
    assert!(is_paged(&open(&b, ino)));
    a.set_attributes(ROOT_CALLER, ino, &cut(100_000)).unwrap();
    tell_length();
    let dropping = b.dropping_pages(ino);
    assert!(page_read(&b, ino, 98_304, 4096) == old[98_304..102_400], "not to be let end early");
    drop(dropping);
    assert!(page_read(&b, ino, 98_304, 4096) == old[98_304..100_000]);
    b.release(ino, false);
    a.close().unwrap();
    b.close().unwrap();
}

#[test]
fn who_reads_while_a_file_is_cut_sees_one_content_and_not_parts_of_two() {
    let deployment = Deployment::new();
    let [a, b] = deployment.start_all(["a", "b"]);
    with_pages(&b);
    let old = pattern(6786, 1);
    let ino = put(&a, "f", &old);
    // On a slow machine the writer may have come long before the read.
    let deadline = Instant::now() + Duration::from_secs(60);
    for seed in 2.. {
        wait_until_paged(&b, ino);
        assert!(is_paged(&open(&b, ino)));
        let begun = Instant::now();
        overwrite(&a, ino, 0, &pattern(5479, seed), true).unwrap();
        let seen = page_read(&b, ino, 4096, 4096);
        let is_soon = begun.elapsed() < Duration::from_millis(900);
        b.release(ino, false);
        if is_soon {
            assert!(seen == old[4096..], "{} bytes", seen.len());
            break;
        }
        assert!(Instant::now() < deadline, "the machine is too slow");
        overwrite(&a, ino, 0, &old, true).unwrap();
    }
    a.close().unwrap();
    b.close().unwrap();
}
