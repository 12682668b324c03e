//! Mounts a store until it is unmounted: `mount DIR MOUNTPOINT [--no-passthrough]`.

use intarsia_mount::{Look, Mount, MountOptions};
use intarsia_node::{Node, NodeOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, dir, mount_point, rest @ ..] = args.as_slice() else {
        return Err("usage: mount DIR MOUNTPOINT [--no-passthrough]".into());
    };
    let node = Node::open(NodeOptions::new(dir))?;
    let options = MountOptions {
        mount_point: mount_point.into(),
        event_loops: 0,
        allow_other: true,
        passthrough: !rest.iter().any(|a| a == "--no-passthrough"),
        read_only: false,
    };
    let mount = Mount::start(&node, &options)?;
    mount.wait(|_| Look::Used)?;
    node.close()?;
    Ok(())
}
