//! Compute nodes behind I/O nodes, as on Blue Gene/P: the collective network leads to an I/O node,
//! which reaches the storage servers through a switch.

/// Endpoints `0..nodes` are compute nodes, the ones after them servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarding {
    nodes: u32,
    servers: u32,
    nodes_per_forwarder: u32,
}

impl Forwarding {
    /// One I/O node for `nodes_per_forwarder` (at least 1) compute nodes.
    pub fn new(nodes: u32, servers: u32, nodes_per_forwarder: u32) -> Self {
        Self { nodes, servers, nodes_per_forwarder: nodes_per_forwarder.max(1) }
    }

    /// How many I/O nodes there are.
    pub fn forwarders(&self) -> u32 {
        self.nodes.div_ceil(self.nodes_per_forwarder)
    }

    /// First link of each part: collective up and down, I/O node out and in, server in and out.
    fn bounds(&self) -> [u32; 7] {
        let f = self.forwarders();
        [0, f, 2 * f, 3 * f, 4 * f, 4 * f + self.servers, 4 * f + 2 * self.servers]
    }

    pub(super) fn links(&self) -> u64 {
        u64::from(self.bounds()[6])
    }

    pub(super) fn shape(&self) -> String {
        format!("{} I/O nodes for {} compute nodes", self.forwarders(), self.nodes)
    }

    pub(super) fn kind_of(&self, link: u32) -> usize {
        let bounds = self.bounds();
        usize::from(link >= bounds[2]) + usize::from(link >= bounds[4])
    }

    pub(super) fn route(&self, from: u32, to: u32, mut visit: impl FnMut(u32, usize)) {
        let [up, down, out, back, server_in, server_out, _] = self.bounds();
        if from < self.nodes {
            let forwarder = from / self.nodes_per_forwarder;
            visit(up + forwarder, 0);
            visit(out + forwarder, 1);
        } else {
            visit(server_out + from - self.nodes, 2);
        }
        if to < self.nodes {
            let forwarder = to / self.nodes_per_forwarder;
            visit(back + forwarder, 1);
            visit(down + forwarder, 0);
        } else {
            visit(server_in + to - self.nodes, 2);
        }
    }

    pub(super) fn describe(&self, link: u32) -> String {
        let names = [
            "collective network to I/O node",
            "collective network from I/O node",
            "out of I/O node",
            "into I/O node",
            "into server",
            "out of server",
        ];
        let bounds = self.bounds();
        let part = bounds.iter().filter(|b| **b <= link).count().clamp(1, 6) - 1;
        format!("{} {}", names[part], link - bounds[part])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_three_links_away() {
        let forwarding = Forwarding::new(130, 4, 64);
        assert_eq!(forwarding.forwarders(), 3);
        let route = |from, to| {
            let mut links = Vec::new();
            forwarding.route(from, to, |link, kind| {
                assert_eq!(kind, forwarding.kind_of(link));
                links.push(link);
            });
            links
        };
        assert_eq!(route(129, 131), [2, 6 + 2, 12 + 1]);
        assert_eq!(route(131, 0), [12 + 4 + 1, 9, 3]);
        assert_eq!(forwarding.describe(13), "into server 1");
    }
}
