//! What hosts get done when several tasks want the same: less than as many times as one task alone.

/// How much more work of each kind a host gets done by `at_once` together than by one alone, each as a factor of 1 or
/// more (below 1: they hinder one another). A load-dependent server in the sense of queueing theory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crowding {
    /// How many were measured together; 2 or more.
    pub at_once: u32,
    /// Opening, making and publishing files.
    pub names: f64,
    /// Writing.
    pub write: f64,
    /// Reading what is in no memory.
    pub read: f64,
    /// Reading what is in memory.
    pub copy: f64,
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// On names: what metadata servers and clients do.
    Names,
    /// Bytes to a tier.
    Write,
    /// Bytes from a tier.
    Read,
    /// Bytes from memory.
    Copy,
}

impl Crowding {
    /// The part of its speed alone that one of `present` gets: the gain grows in even steps up to `at_once`, and no
    /// further.
    #[must_use]
    pub fn share(&self, work: Work, present: u32) -> f64 {
        let full = match work {
            Work::Names => self.names,
            Work::Write => self.write,
            Work::Read => self.read,
            Work::Copy => self.copy,
        };
        if present < 2 {
            return 1.0;
        }
        let steps = f64::from(present.min(self.at_once) - 1) / f64::from(self.at_once - 1);
        ((full - 1.0).mul_add(steps, 1.0) / f64::from(present)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_shared_by_those_who_are_there() {
        let crowding = Crowding { at_once: 3, names: 1.0, write: 2.0, read: 3.0, copy: 9.0 };
        assert_eq!(crowding.share(Work::Write, 1), 1.0);
        assert_eq!(crowding.share(Work::Write, 2), 1.5 / 2.0);
        assert_eq!(crowding.share(Work::Write, 3), 2.0 / 3.0);
        assert_eq!(crowding.share(Work::Write, 8), 2.0 / 8.0);
        assert_eq!(crowding.share(Work::Names, 4), 0.25);
        assert_eq!(crowding.share(Work::Read, 3), 1.0);
        assert_eq!(crowding.share(Work::Copy, 2), 1.0, "nobody is faster than alone");
    }
}
