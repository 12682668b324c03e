//! What streams have in the queues of cards: as much of each as waits to be sent, up to a limit.
//!
//! It is kept as messages come and go, since every message without data asks for it.

use std::collections::BTreeMap;

/// Bytes that would stand in the queues of cards, in and out.
#[derive(Debug)]
pub(super) struct Standing {
    /// What a stream has in a queue at most.
    limit_bytes: u64,
    /// By sender.
    out: Vec<u64>,
    /// By receiver, and for it by sender; none is 0.
    into: Vec<BTreeMap<u32, u64>>,
}

impl Standing {
    pub(super) fn new(limit_bytes: u64, hosts: u32) -> Self {
        let hosts = hosts as usize;
        Self { limit_bytes, out: vec![0; hosts], into: vec![BTreeMap::new(); hosts] }
    }

    /// Whether nothing ever stands anywhere.
    pub(super) const fn is_nothing(&self) -> bool {
        self.limit_bytes == 0
    }

    /// A stream of these hosts has so many bytes to send where it had `before`.
    pub(super) fn change(&mut self, (from, to): (u32, u32), before: u64, now: u64) {
        let (before, now) = (before.min(self.limit_bytes), now.min(self.limit_bytes));
        if before == now {
            return;
        }
        let moved = |sum: u64| sum + now - before;
        self.out[from as usize] = moved(self.out[from as usize]);
        let senders = &mut self.into[to as usize];
        let left = moved(senders.get(&from).copied().unwrap_or(0));
        match left {
            0 => senders.remove(&from),
            _ => senders.insert(from, left),
        };
    }

    /// At the card of a sender.
    pub(super) fn outgoing(&self, host: u32) -> u64 {
        self.out[host as usize]
    }

    /// At the card of a receiver, by sender.
    pub(super) fn incoming(&self, host: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.into[host as usize].iter().map(|(from, bytes)| (*from, *bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const HOSTS: u32 = 4;

    proptest! {
        #[test]
        fn what_stands_is_what_a_look_at_all_streams_says(
            limit_bytes in 0_u64..1000,
            changes in prop::collection::vec(((0..HOSTS, 0..HOSTS, 0_u32..3), 0_u64..2000), 0..200),
        ) {
            let mut kept = Standing::new(limit_bytes, HOSTS);
            let mut streams: HashMap<(u32, u32, u32), u64> = HashMap::new();
            for (stream, now) in changes {
                let before = streams.insert(stream, now).unwrap_or(0);
                kept.change((stream.0, stream.1), before, now);
                for host in 0..HOSTS {
                    let sum = |is_meant: &dyn Fn(u32, u32) -> bool| -> u64 {
                        let meant = streams.iter().filter(|((from, to, _), _)| is_meant(*from, *to));
                        meant.map(|(_, bytes)| *bytes.min(&limit_bytes)).sum()
                    };
                    prop_assert_eq!(kept.outgoing(host), sum(&|from, _| from == host));
                    let into: HashMap<u32, u64> = kept.incoming(host).collect();
                    for other in 0..HOSTS {
                        let expected = sum(&|from, to| (from, to) == (other, host));
                        prop_assert_eq!(into.get(&other).copied().unwrap_or(0), expected);
                    }
                    prop_assert!(into.values().all(|bytes| *bytes > 0), "none is kept of nobody");
                }
            }
        }
    }
}
