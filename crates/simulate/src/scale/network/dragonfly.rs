//! A dragonfly: groups of routers, joined all to all within a group and group to group.
//!
//! Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008.

use crate::scale::hash::mix;

/// How a message finds its way between groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Straight to the group of the destination.
    Minimal,
    /// By way of a random group (Valiant), which spreads any pattern at the price of twice the hops.
    Valiant,
    /// Whichever of the two arrives first as the links stand (UGAL with global knowledge).
    Adaptive,
}

/// What a dragonfly is built of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dragonfly {
    nodes_per_router: u32,
    routers_per_group: u32,
    global_links_per_router: u32,
    groups: u32,
    /// Parallel links between each two groups.
    width: u32,
    /// How messages find their way.
    pub routing: Routing,
}

const TERMINAL: usize = 0;
const LOCAL: usize = 1;
const GLOBAL: usize = 2;

impl Dragonfly {
    /// A dragonfly for `nodes` of the given parts, or why there is none. All parts are at least 1.
    ///
    /// # Errors
    /// When the groups that `nodes` need have not enough links to reach each other.
    pub fn new(
        nodes: u32,
        nodes_per_router: u32,
        routers_per_group: u32,
        global_links_per_router: u32,
        routing: Routing,
    ) -> Result<Self, String> {
        let group_nodes = nodes_per_router.saturating_mul(routers_per_group);
        let groups = nodes.max(1).div_ceil(group_nodes.max(1));
        let ports = routers_per_group.saturating_mul(global_links_per_router);
        if groups > 1 && ports < groups - 1 {
            return Err(format!(
                "{nodes} nodes make {groups} groups of {group_nodes}, but a group has only {ports} links to other groups"
            ));
        }
        let width = if groups > 1 { ports / (groups - 1) } else { 0 };
        let dragonfly = Self {
            nodes_per_router,
            routers_per_group,
            global_links_per_router,
            groups,
            width,
            routing,
        };
        match u32::try_from(dragonfly.links()) {
            Ok(_) => Ok(dragonfly),
            Err(_) => Err(format!("{nodes} nodes need more than 2^32 links")),
        }
    }

    /// The smallest balanced dragonfly (twice as many routers in a group as nodes and as global
    /// links at a router, as Kim et al. recommend) with room for `nodes`.
    ///
    /// # Errors
    /// When there is none with fewer than 2^32 links.
    pub fn balanced(nodes: u32, routing: Routing) -> Result<Self, String> {
        let fits = |p: u64| 2 * p * p * (2 * p * p + 1) >= u64::from(nodes);
        let p = (1_u32..).find(|&p| fits(u64::from(p))).unwrap_or(1);
        Self::new(nodes, p, 2 * p, p, routing)
    }

    fn routers(&self) -> u64 {
        u64::from(self.groups) * u64::from(self.routers_per_group)
    }

    /// First link of each kind: terminal up, terminal down, local, global, and the end.
    fn bounds(&self) -> [u64; 5] {
        let terminals = self.routers() * u64::from(self.nodes_per_router);
        let locals = self.routers() * u64::from(self.routers_per_group);
        let globals = self.routers() * u64::from(self.global_links_per_router);
        let local = 2 * terminals;
        [0, terminals, local, local + locals, local + locals + globals]
    }

    #[expect(clippy::cast_possible_truncation, reason = "`new` checked that all links fit a u32")]
    fn first(&self, part: usize) -> u32 {
        self.bounds()[part] as u32
    }

    pub(super) fn links(&self) -> u64 {
        self.bounds()[4]
    }

    pub(super) fn shape(&self) -> String {
        format!(
            "dragonfly, {} groups of {} routers of {} nodes, {} links between groups",
            self.groups, self.routers_per_group, self.nodes_per_router, self.width
        )
    }

    pub(super) fn kind_of(&self, link: u32) -> usize {
        let link = u64::from(link);
        let [_, _, local, global, _] = self.bounds();
        usize::from(link >= local) + usize::from(link >= global)
    }

    /// Visits the links of the route through no other group than those of the two ends.
    pub(super) fn minimal_route(&self, from: u32, to: u32, mut visit: impl FnMut(u32, usize)) {
        let (start, goal) = (from / self.nodes_per_router, to / self.nodes_per_router);
        visit(from, TERMINAL);
        let at = self.to_group(start, goal / self.routers_per_group, mix(from, to), &mut visit);
        self.within_group(at, goal, &mut visit);
        visit(self.first(1) + to, TERMINAL);
    }

    /// Visits the links of a route by way of the group that `choice` picks.
    pub(super) fn valiant_route(
        &self,
        from: u32,
        to: u32,
        choice: u32,
        mut visit: impl FnMut(u32, usize),
    ) {
        let (start, goal) = (from / self.nodes_per_router, to / self.nodes_per_router);
        let goal_group = goal / self.routers_per_group;
        let by_way = choice % self.groups;
        if start / self.routers_per_group == goal_group {
            return self.minimal_route(from, to, visit);
        }
        visit(from, TERMINAL);
        let at = self.to_group(start, by_way, choice, &mut visit);
        let at = self.to_group(at, goal_group, mix(from, choice), &mut visit);
        self.within_group(at, goal, &mut visit);
        visit(self.first(1) + to, TERMINAL);
    }

    /// Goes from a router to a group; returns the router at which it is entered.
    fn to_group(
        &self,
        router: u32,
        group: u32,
        choice: u32,
        visit: &mut impl FnMut(u32, usize),
    ) -> u32 {
        let here = router / self.routers_per_group;
        if here == group {
            return router;
        }
        let lane = choice % self.width;
        let (out_router, port) = self.gateway(here, group, lane);
        self.within_group(router, out_router, visit);
        visit(self.first(3) + out_router * self.global_links_per_router + port, GLOBAL);
        self.gateway(group, here, lane).0
    }

    /// The router and its global link that lead from one group to another.
    fn gateway(&self, here: u32, there: u32, lane: u32) -> (u32, u32) {
        let offset = (there + self.groups - here - 1) % self.groups;
        let port = offset * self.width + lane;
        let router = here * self.routers_per_group + port / self.global_links_per_router;
        (router, port % self.global_links_per_router)
    }

    fn within_group(&self, from: u32, to: u32, visit: &mut impl FnMut(u32, usize)) {
        if from != to {
            let to = to % self.routers_per_group;
            visit(self.first(2) + from * self.routers_per_group + to, LOCAL);
        }
    }

    pub(super) fn describe(&self, link: u32) -> String {
        let [_, down, local, global, _] = self.bounds();
        let a = u64::from(self.routers_per_group);
        match u64::from(link) {
            l if l < down => format!("up from node {l}"),
            l if l < local => format!("down to node {}", l - down),
            l if l < global => {
                let (router, to) = ((l - local) / a, (l - local) % a);
                format!("router {} to {to} in group {}", router % a, router / a)
            }
            l => {
                let h = u64::from(self.global_links_per_router);
                let (router, port) = ((l - global) / h, (l - global) % h);
                format!("global link {port} of router {} in group {}", router % a, router / a)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_more_groups_than_links() {
        let problem = Dragonfly::new(1000, 1, 2, 1, Routing::Minimal).unwrap_err();
        assert!(problem.contains("500 groups of 2"), "{problem}");
    }

    proptest! {
        #[test]
        fn routes_are_short_and_stay_within_the_links(
            nodes in 2_u32..100_000, a: u32, b: u32, choice: u32,
        ) {
            let dragonfly = Dragonfly::balanced(nodes, Routing::Valiant).unwrap();
            let (from, to) = (a % nodes, b % nodes);
            let mut visited = Vec::new();
            dragonfly.minimal_route(from, to, |link, kind| visited.push((link, kind)));
            prop_assert!(visited.len() <= 5);
            dragonfly.valiant_route(from, to, choice, |link, kind| visited.push((link, kind)));
            prop_assert!(visited.len() <= 12);
            for (link, kind) in visited {
                prop_assert!(u64::from(link) < dragonfly.links());
                prop_assert_eq!(dragonfly.kind_of(link), kind);
            }
        }

        #[test]
        fn a_global_link_is_the_other_end_of_one(nodes in 100_u32..50_000, a: u32, b: u32) {
            let dragonfly = Dragonfly::balanced(nodes, Routing::Minimal).unwrap();
            let (here, there) = (a % dragonfly.groups, b % dragonfly.groups);
            if here != there {
                for lane in 0..dragonfly.width {
                    let (out, _) = dragonfly.gateway(here, there, lane);
                    prop_assert_eq!(out / dragonfly.routers_per_group, here);
                }
            }
        }
    }
}
