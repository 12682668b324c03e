//! Several names of one file.

use std::os::unix::fs::MetadataExt;

use intarsia_posix_tests::{Mode, Settings, Store, in_both_modes, pattern};

fn counts_links(mode: Mode) {
    let mut store = Store::start(Settings::new(mode));
    for len in [100, 100_000] {
        let at = |name: &str| store.path(format!("{name}{len}"));
        std::fs::create_dir(at("dir")).unwrap();
        let names = [at("one"), at("dir").join("two"), at("three")];
        std::fs::write(&names[0], pattern(1, len)).unwrap();
        names[1..].iter().for_each(|name| std::fs::hard_link(&names[0], name).unwrap());
        let inode = names[0].metadata().unwrap().ino();
        assert!(names.iter().all(|n| n.metadata().unwrap().ino() == inode));
        assert!(names.iter().all(|n| n.metadata().unwrap().nlink() == 3));
        std::fs::write(&names[1], pattern(2, len)).unwrap();
        std::fs::remove_file(&names[0]).unwrap();
        store.remount();
        assert!(names[1..].iter().all(|n| n.metadata().unwrap().nlink() == 2));
        assert!(names[1..].iter().all(|n| std::fs::read(n).unwrap() == pattern(2, len)));
    }
}

/// As many names as ext4 allows, and no more: programs that count on EMLINK find it.
fn limits_links(mode: Mode) {
    const LINK_MAX: u64 = 65_000;
    let store = Store::start(Settings::new(mode));
    let file = store.path("file");
    std::fs::write(&file, "x").unwrap();
    let link = |i: u64| std::fs::hard_link(&file, store.path(i.to_string()));
    (1..LINK_MAX).for_each(|i| link(i).unwrap());
    assert_eq!(file.metadata().unwrap().nlink(), LINK_MAX);
    assert_eq!(link(LINK_MAX).unwrap_err().kind(), std::io::ErrorKind::TooManyLinks);
    assert_eq!(file.metadata().unwrap().nlink(), LINK_MAX);
}

in_both_modes!(counts_links, limits_links);
