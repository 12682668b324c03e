//! Chance that a seed repeats: SplitMix64, and bytes made with it.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// One of several things.
    ///
    /// # Panics
    /// When there is none.
    pub fn choose<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        let index = self.below(things.len() as u64);
        &things[usize::try_from(index).expect("an index")]
    }
}

/// The bytes of a seed; none of them zero, so that a hole shows.
#[must_use]
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let words = std::iter::repeat_with(|| random.next().to_le_bytes());
    words.flatten().map(|byte| byte | 1).take(len).collect()
}

/// A seed that differs from run to run.
#[must_use]
pub fn fresh_seed() -> u64 {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    time.map_or(0, |t| u64::from(t.subsec_nanos()) ^ t.as_secs().rotate_left(32))
}
