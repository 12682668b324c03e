//! Answers of CLUSTER NODES.
#![no_main]

use intarsia_cluster::topology::Topology;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(topology) = Topology::parse(text) else { return };
    for peer in topology.peers() {
        assert!(topology.by_id(&peer.id).is_some());
        assert!(topology.by_address(peer.address.ip, peer.address.port).is_some());
        assert_eq!(peer.has_slots(), peer.slot_count() > 0);
    }
});
