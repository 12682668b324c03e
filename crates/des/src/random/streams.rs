//! Random number streams that know nothing of each other.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The random number streams of one simulation run.
///
/// A stream is named, for example by what it decides and for which entity. It is the same
/// whichever other streams are used, and in whatever order, so that a change in one part of a model
/// leaves the randomness of all others as it was (common random numbers).
///
/// ```
/// # use intarsia_des::Streams;
/// let streams = Streams::new(42);
/// let mut failures_of_node_7 = streams.stream("failure", 7);
/// let mut repairs_of_node_7 = streams.stream("repair", 7);
/// assert_ne!(failures_of_node_7, repairs_of_node_7);
/// assert_eq!(failures_of_node_7, streams.stream("failure", 7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// The streams of the run with this seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The stream `name` of entity `index`, from its beginning.
    ///
    /// The generator's 256 bits of state are XXH3 hashes of name and index, keyed with the seed: two
    /// of a million streams overlap with a probability below 10^-40.
    pub fn stream(&self, name: &str, index: u64) -> Xoshiro256PlusPlus {
        let mut key = Vec::with_capacity(name.len() + 9);
        key.extend_from_slice(name.as_bytes());
        key.extend_from_slice(&index.to_le_bytes());
        let mut state = [0; 32];
        for (half, bytes) in (0_u8..).zip(state.chunks_exact_mut(16)) {
            key.push(half);
            bytes.copy_from_slice(&xxh3_128_with_seed(&key, self.seed).to_le_bytes());
            key.pop();
        }
        Xoshiro256PlusPlus::from_seed(state)
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::Streams;

    #[test]
    fn a_seed_means_the_same_numbers_in_every_release() {
        let mut stream = Streams::new(1).stream("failure", 2);
        assert_eq!(stream.next_u64(), 13_753_883_294_834_921_610);
    }

    #[test]
    fn seed_name_and_index_each_make_another_stream() {
        let base = Streams::new(1).stream("failure", 2);
        assert_ne!(base, Streams::new(2).stream("failure", 2));
        assert_ne!(base, Streams::new(1).stream("repair", 2));
        assert_ne!(base, Streams::new(1).stream("failure", 3));
    }

    #[test]
    fn neighbouring_streams_are_uncorrelated() {
        let streams = Streams::new(7);
        let uniform = |index| {
            let mut stream = streams.stream("x", index);
            (stream.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        let count = 20_000;
        let covariance =
            (0..count).map(|index| uniform(index) * uniform(index + 1)).sum::<f64>() / count as f64;
        // The product has variance 1/144; five standard errors.
        assert!(covariance.abs() < 5.0 / 12.0 / (count as f64).sqrt(), "covariance {covariance}");
    }
}
