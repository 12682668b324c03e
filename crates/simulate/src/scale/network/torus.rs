//! A three-dimensional torus with dimension-ordered routing, as on Blue Gene.
//!
//! The links of one line stand side by side in memory, so that walking along a line, a third of
//! a route, touches few cache lines.

/// A box of routers, one a node, with links to both neighbours along x, y and z, the ends joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torus {
    size: [u32; 3],
}

/// Links side by side on one line, in one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// First link of the line in this direction.
    first: u32,
    size: u32,
    start: u32,
    /// How many links there are.
    pub(super) steps: u32,
    is_forward: bool,
}

impl Run {
    /// The link of a step, counted from 0.
    pub(super) fn link(&self, step: u32) -> u32 {
        let position = match self.is_forward {
            true if self.start + step < self.size => self.start + step,
            true => self.start + step - self.size,
            false if self.start >= step => self.start - step,
            false => self.start + self.size - step,
        };
        self.first + position
    }
}

impl Torus {
    /// A torus of the given size along x, y and z, each at least 1.
    pub fn new(size: [u32; 3]) -> Self {
        Self { size: size.map(|s| s.max(1)) }
    }

    /// The torus nearest to a cube with room for `nodes`, and the fewest idle routers of such.
    pub fn for_nodes(nodes: u32) -> Self {
        let nodes = u64::from(nodes.max(1));
        let mut best = [1, 1, 1];
        let mut best_cost = (u64::MAX, u32::MAX);
        let mut x = 1_u32;
        while u64::from(x).pow(3) <= nodes.next_power_of_two() * 8 && x <= 1 << 11 {
            // A side is at most twice the next, so that the box stays near a cube.
            for y in x.div_ceil(2)..=x {
                let plane = u64::from(x) * u64::from(y);
                let Ok(z) = u32::try_from(nodes.div_ceil(plane)) else { continue };
                if z > y || z < y.div_ceil(2) {
                    continue;
                }
                let cost = (plane * u64::from(z), x - z);
                if cost < best_cost {
                    (best, best_cost) = ([x, y, z], cost);
                }
            }
            x += 1;
        }
        Self::new(best)
    }

    /// The size along x, y and z.
    pub fn size(&self) -> [u32; 3] {
        self.size
    }

    /// How many routers there are.
    pub fn routers(&self) -> u64 {
        self.size.iter().map(|&s| u64::from(s)).product()
    }

    pub(super) fn links(&self) -> u64 {
        6 * self.routers()
    }

    pub(super) fn shape(&self) -> String {
        let [x, y, z] = self.size;
        format!("torus {x}x{y}x{z}")
    }

    fn coordinates(&self, node: u32) -> [u32; 3] {
        let [x, y, _] = self.size;
        [node % x, node / x % y, node / x / y]
    }

    /// The number of the line along `dimension` that passes through a router.
    fn line(&self, dimension: usize, at: [u32; 3]) -> u32 {
        let [sx, sy, _] = self.size;
        let [x, y, z] = at;
        match dimension {
            0 => y + z * sy,
            1 => x + z * sx,
            _ => x + y * sx,
        }
    }

    /// Visits the links of a route in order.
    pub(super) fn route(&self, from: u32, to: u32, mut visit: impl FnMut(u32, usize)) {
        for run in self.runs(from, to) {
            (0..run.steps).for_each(|step| visit(run.link(step), 0));
        }
    }

    /// The route as one run along each dimension.
    pub(super) fn runs(&self, from: u32, to: u32) -> [Run; 3] {
        let mut at = self.coordinates(from);
        let goal = self.coordinates(to);
        let routers = self.size.iter().product::<u32>();
        [0, 1, 2].map(|dimension| {
            let size = self.size[dimension];
            let (start, end) = (at[dimension], goal[dimension]);
            let forward = if end >= start { end - start } else { end + size - start };
            // Half way round both directions are equal: the parity of the place shares them out.
            let is_tie_forward = forward * 2 == size && at.iter().sum::<u32>() % 2 == 0;
            let is_forward = forward * 2 < size || is_tie_forward;
            let block = 2 * u32::try_from(dimension).unwrap_or(0) + u32::from(!is_forward);
            let first = block * routers + self.line(dimension, at) * size;
            at[dimension] = end;
            let steps = if is_forward { forward } else { size - forward };
            Run { first, size, start, steps, is_forward }
        })
    }

    pub(super) fn describe(&self, link: u32) -> String {
        let routers = self.size.iter().product::<u32>();
        let name = ["x+", "x-", "y+", "y-", "z+", "z-"];
        let which = (link / routers) as usize;
        let size = self.size.get(which / 2).copied().unwrap_or(1);
        let (line, position) = (link % routers / size, link % size);
        format!("{} link {position} of line {line}", name.get(which).unwrap_or(&"?"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_partitions_are_cubes() {
        assert_eq!(Torus::for_nodes(512).size(), [8, 8, 8]);
        assert_eq!(Torus::for_nodes(1024).size(), [16, 8, 8]);
        assert_eq!(Torus::for_nodes(16_384).size(), [32, 32, 16]);
        assert_eq!(Torus::for_nodes(2_097_152).size(), [128, 128, 128]);
        assert_eq!(Torus::for_nodes(1).size(), [1, 1, 1]);
    }

    proptest! {
        #[test]
        fn every_node_has_a_router(nodes in 1_u32..3_000_000) {
            let torus = Torus::for_nodes(nodes);
            prop_assert!(torus.routers() >= u64::from(nodes));
            prop_assert!(torus.routers() <= 2 * u64::from(nodes) + 8);
        }

        #[test]
        fn routes_are_shortest_and_use_each_link_once(
            size in prop::array::uniform3(1_u32..9), from in 0_u32..512, to in 0_u32..512,
        ) {
            let torus = Torus::new(size);
            let routers = size.iter().product::<u32>();
            let (from, to) = (from % routers, to % routers);
            let mut links = Vec::new();
            torus.route(from, to, |link, _| links.push(link));
            let (a, b) = (torus.coordinates(from), torus.coordinates(to));
            let distance: u32 =
                (0..3).map(|d| a[d].abs_diff(b[d]).min(size[d] - a[d].abs_diff(b[d]))).sum();
            prop_assert_eq!(u32::try_from(links.len()).unwrap(), distance);
            prop_assert!(links.iter().all(|&l| u64::from(l) < torus.links()));
            links.sort_unstable();
            links.dedup();
            prop_assert_eq!(u32::try_from(links.len()).unwrap(), distance);
        }
    }
}
