//! Keyed hashes, so that a place or a factor is computed where it is needed and never stored.

use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

/// Mixes a key into 64 even bits.
pub(crate) fn hash(key: u64) -> u64 {
    SplitMix64::seed_from_u64(key).next_u64()
}

/// Mixes a seed and two numbers.
pub(crate) fn hash_of(seed: u64, a: u32, b: u32) -> u64 {
    hash(seed ^ hash(u64::from(a) << 32 | u64::from(b)))
}

/// Mixes two numbers into 32 even bits.
pub(crate) fn mix(a: u32, b: u32) -> u32 {
    high(hash(u64::from(a) << 32 | u64::from(b)))
}

/// Maps an even hash onto `0..count` without the bias of a remainder that counts.
pub(crate) fn pick(hash: u64, count: u32) -> u32 {
    high(u64::from(high(hash)) * u64::from(count))
}

fn high(number: u64) -> u32 {
    (number >> 32) as u32
}
