//! Users, groups and the special permission bits: each script must say in the mount what it says in
//! a native directory.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use intarsia_posix_tests::{Mode, Settings, Store, in_both_modes, output_as};

const NOBODY: u32 = 65_534;
const GAMES: u32 = 5;

/// As root first, then as `nobody`.
const SCRIPTS: &[(&str, &str)] = &[
    // Set-id bits go when somebody without privilege changes the content.
    ("echo x > f; chown nobody:nogroup f; chmod 6755 f", "echo more >> f; stat -c %a f"),
    ("echo x > f; chown nobody:nogroup f; chmod 6755 f", "truncate -s 100 f; stat -c %a f"),
    ("echo x > f; chown nobody:nogroup f; chmod 6755 f", ": > f; stat -c %a f"),
    ("echo x > f; chown nobody:nogroup f; chmod 6745 f", "echo more >> f; stat -c %a f"),
    ("echo x > f; chmod 6777 f", "echo more >> f; stat -c %a f"),
    (
        "head -c 100000 /dev/zero > f; chmod 4777 f",
        "dd if=/dev/zero of=f bs=1000 count=1 conv=notrunc status=none; stat -c %a f",
    ),
    // Set-group-id without group execution goes with a change by somebody who is not in the group.
    ("echo x > f; chmod 6666 f", "echo more >> f; stat -c %a f"),
    ("echo x > f; chmod 6666 f", "truncate -s 100 f; stat -c %a f"),
    ("echo x > f; chmod 6666 f", "fallocate -l 100000 f; stat -c %a f"),
    ("head -c 100000 /dev/zero > f; chmod 6777 f", "fallocate -p -o 0 -l 8192 f; stat -c %a f"),
    // And with the access list that its owner sets who is not in the group.
    ("echo x > f; chown nobody:games f; chmod 2755 f", "setfacl -m u:bin:r f; stat -c %a f"),
    ("echo x > f; chown nobody:nogroup f; chmod 2755 f", "setfacl -m u:bin:r f; stat -c %a f"),
    ("echo x > f; chmod 2755 f; setfacl -m u:bin:r f; stat -c %a f", "stat -c %a f"),
    // And with the owner, whoever changes it.
    ("echo x > f; chmod 6755 f; chown games:games f; stat -c '%a %u %g' f", "stat -c '%a %u %g' f"),
    ("echo x > f; chmod 6745 f; chown games:games f", "stat -c '%a %u %g' f"),
    ("mkdir d; chmod 6755 d; chown games:games d", "stat -c '%a %u %g' d"),
    (
        "echo x > f; chown nobody:nogroup f; chmod 755 f",
        "chgrp games f; chown games f; stat -c '%a %u %g' f",
    ),
    // Root's own writes keep them.
    ("echo x > f; chmod 6755 f; echo more >> f; stat -c %a f", "stat -c %a f"),
    // Not a member of the group: no set-group-id.
    ("echo x > f; chown nobody:games f; chmod 755 f", "chmod 2755 f; stat -c %a f"),
    // Sticky directories.
    (
        "mkdir d; chmod 1777 d; echo x > d/root; mkdir d/dir",
        "rm -f d/root; rmdir d/dir; mv d/root d/moved; touch d/own; mv d/own d/root; ls d",
    ),
    ("mkdir d; chmod 1777 d", "touch d/own; rm d/own; mkdir d/dir; rmdir d/dir; ls d"),
    // A directory's group is passed on by its set-group-id bit.
    (
        "mkdir d; chown root:games d; chmod 2777 d",
        "touch d/f; mkdir d/sub; stat -c '%a %g' d/f d/sub; touch d/sub/f; stat -c %g d/sub/f",
    ),
    (
        "mkdir d; chown root:games d; chmod 777 d",
        "touch d/f; mkdir d/sub; stat -c '%a %g' d/f d/sub",
    ),
    // Plain permissions.
    (
        "echo x > f; chmod 600 f; mkdir d; echo y > d/f; chmod 700 d",
        "cat f; cat d/f; ls d; echo z > f; rm d/f; chmod 777 f; touch f; mv f g; ls",
    ),
    ("echo x > f; chmod 640 f; chown root:nogroup f", "cat f; echo z >> f; truncate -s 0 f"),
    (
        "echo x > f; chmod 666 f",
        "touch -d 2001-01-01 f; touch f; setfattr -n user.a -v 1 f; getfattr --only-values -n user.a f; stat -c %s f",
    ),
    ("mkdir d; chmod 555 d", "touch d/f; mkdir d/sub; ln -s x d/l; ls d"),
    ("umask 077; mkdir d; echo x > f; stat -c %a d f", "umask 027; touch /dev/null; stat -c %a f"),
];

fn is_as_in_a_native_directory(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let native = tempfile::tempdir().unwrap();
    open_to_all(native.path());
    for (i, (as_root, as_nobody)) in SCRIPTS.iter().enumerate() {
        let say = |parent: &Path| {
            let dir = parent.join(i.to_string());
            std::fs::create_dir(&dir).unwrap();
            open_to_all(&dir);
            let first = output_as(0, 0, &dir, as_root);
            first + "--\n" + &output_as(NOBODY, NOBODY, &dir, as_nobody)
        };
        assert_eq!(say(store.mount()), say(native.path()), "{as_root} -- {as_nobody}");
    }
}

/// Other users come in at all, and what they make is theirs.
fn lets_others_in(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let script = "echo hello > f; cat f; stat -c '%u %g' f";
    assert_eq!(output_as(GAMES, 60, store.mount(), script), "hello\n5 60\n");
}

in_both_modes!(is_as_in_a_native_directory, lets_others_in);

fn open_to_all(dir: &Path) {
    std::fs::set_permissions(dir, PermissionsExt::from_mode(0o777)).unwrap();
}
