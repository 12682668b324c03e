//! A store mounted read-only refuses every change with EROFS and serves every read.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::PermissionsExt;

use intarsia_posix_tests::{Mode, Settings, Store, in_both_modes, pattern};
use rustix::fs::{CWD, FileType, RenameFlags, mknodat, renameat_with};

fn refuses_changes(mode: Mode) {
    let mut store = Store::start(Settings::new(mode));
    let at = |name: &str| store.path(name);
    let (small, large, dir, new) = (at("small"), at("large"), at("dir"), at("new"));
    std::fs::write(&small, pattern(1, 100)).unwrap();
    std::fs::write(&large, pattern(2, 100_000)).unwrap();
    std::fs::create_dir(&dir).unwrap();
    store.stop();
    store.add_flag("--read-only");
    store.restart();
    let write = |path| OpenOptions::new().write(true).open(path).map(drop);
    let attempts = [
        ("create", File::create(&new).map(drop)),
        ("mkdir", std::fs::create_dir(&new)),
        ("mkfifo", mknodat(CWD, &new, FileType::Fifo, 0o600.into(), 0).map_err(io::Error::from)),
        ("symlink", std::os::unix::fs::symlink("x", &new)),
        ("link", std::fs::hard_link(&small, &new)),
        ("rename", std::fs::rename(&small, &new)),
        (
            "exchange",
            renameat_with(CWD, &small, CWD, &large, RenameFlags::EXCHANGE).map_err(Into::into),
        ),
        ("unlink", std::fs::remove_file(&small)),
        ("rmdir", std::fs::remove_dir(&dir)),
        ("open small", write(&small)),
        ("open large", write(&large)),
        (
            "truncate",
            rustix::fs::open(
                &small,
                rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::TRUNC,
                0.into(),
            )
            .map(drop)
            .map_err(Into::into),
        ),
        ("chmod", std::fs::set_permissions(&small, PermissionsExt::from_mode(0o600))),
        ("chown", std::os::unix::fs::chown(&small, Some(5), None)),
        ("setxattr", xattr::set(&small, "user.a", b"1")),
    ];
    for (what, outcome) in attempts {
        let error = outcome.expect_err(what);
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem, "{what}: {error}");
    }
    assert_eq!(std::fs::read(&small).unwrap(), pattern(1, 100));
    assert!(std::fs::read(&large).unwrap() == pattern(2, 100_000));
}

in_both_modes!(refuses_changes);
