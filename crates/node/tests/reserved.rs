//! Files that are kept in a form that this version cannot read: they are refused, and nothing of them is lost.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]
#![allow(dead_code, reason = "the deployment has more than is used here")]

mod deployment;

use std::time::{Duration, Instant};

use deployment::{Deployment, MIB, close_all, get, pattern, put, records};
use intarsia_meta::Inode;
use intarsia_types::{Encoding, InodeId, Layout};

/// Stores a file, and has its record say something else of it while no host is up.
struct Told {
    deployment: Deployment,
    ino: InodeId,
    content: Vec<u8>,
}

impl Told {
    fn new() -> Self {
        let deployment = Deployment::new();
        let content = pattern(MIB, 7);
        let nodes = deployment.start_all(["a", "b"]);
        let ino = put(&nodes[0], "file", &content);
        assert!(nodes[0].wait_until_settled(Instant::now() + Duration::from_secs(30)));
        close_all(&nodes);
        Self { deployment, ino, content }
    }

    /// What each host reads of the file.
    fn read(&self) -> [intarsia_types::Result<Vec<u8>>; 2] {
        let nodes = self.deployment.start_all(["a", "b"]);
        let read = [get(&nodes[0], "file"), get(&nodes[1], "file")];
        close_all(&nodes);
        read
    }

    fn change(&self, change: impl Fn(&mut Inode)) {
        let records = records(self.deployment.engine());
        let changed = records.change(self.ino, |inode, _| {
            change(inode);
            Ok(())
        });
        changed.unwrap();
    }

    /// Neither host reads the file as `change` tells it, and both do once it is as it was.
    fn is_refused_until_it_is_as_before(&self, change: impl Fn(&mut Inode)) {
        let before = records(self.deployment.engine()).get(self.ino).unwrap();
        self.change(&change);
        for refused in self.read() {
            assert_eq!(refused.unwrap_err().errno(), 5);
        }
        self.change(|inode| {
            inode.layout.clone_from(&before.layout);
            inode.encoding = before.encoding;
        });
        for read in self.read() {
            assert_eq!(read.unwrap(), self.content);
        }
    }
}

#[test]
fn an_encoded_file_is_refused_by_who_cannot_decode_it() {
    Told::new().is_refused_until_it_is_as_before(|inode| {
        inode.encoding = Encoding::Zstd { stored_bytes: 1000 };
    });
}

#[test]
fn a_file_of_a_reserved_layout_is_refused() {
    Told::new().is_refused_until_it_is_as_before(|inode| {
        let shards = inode.layout.copies().to_vec();
        inode.layout = Layout::Erasure { shards, data: 1, chunk_bytes: 1 << 20 };
    });
}
