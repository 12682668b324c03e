//! Which level each checkpoint goes to, and from where a job recovers.

use intarsia_des::Span;

use super::failure::Damage;
use super::level::Kind;

/// One level, with the times that a job of some size takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Level {
    /// What reports call it.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Every how many checkpoints one goes to this level or a higher one.
    pub(super) every: u64,
    /// How long the job is blocked while it writes a checkpoint here.
    pub(super) write: Span,
    /// How long it takes to read it again.
    pub(super) restore: Span,
    /// Until a checkpoint here is complete, while the job works on; zero when it is complete at once.
    pub(super) flush: Span,
    /// The share of its speed that the job loses meanwhile.
    pub(super) slowdown: f64,
    /// What happens when the transfer of an earlier checkpoint is not done by then.
    pub(super) overlap: Overlap,
    pub(super) sharing: Sharing,
}

/// The shared storages that a level's transfers go through, by number; none where a transfer takes its
/// time whatever else is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sharing {
    pub(super) write: Option<usize>,
    pub(super) flush: Option<usize>,
    pub(super) restore: Option<usize>,
}

/// What a checkpoint does that is to be transferred while an earlier transfer is under way. A job has
/// one transfer at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Overlap {
    /// The job waits until the earlier one is done, as with SCR.
    #[default]
    Wait,
    /// It is transferred after the earlier ones, as with VELOC; the queue has no bound.
    Queue,
    /// It is not transferred.
    Skip,
}

impl Level {
    /// What a checkpoint costs the job in all: the time that it is blocked, and the work that the
    /// transfer in the background takes from it.
    pub(super) fn cost(&self) -> Span {
        self.write + Span::from_secs_f64(self.flush.as_secs_f64() * self.slowdown)
    }

    /// Whether a checkpoint is complete only after a transfer in the background.
    pub(super) fn is_flushed(&self) -> bool {
        self.flush > Span::ZERO
    }
}

/// Levels, from the fastest to the safest. Checkpoint k goes to the highest level whose `every`
/// divides k; the lower levels keep a copy of it, as SCR and VeloC do, so that milder failures are
/// recovered from them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scheme {
    pub(super) levels: Vec<Level>,
}

/// Where a job goes on after a failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Recovery {
    /// The level that is read.
    pub(super) level: usize,
    /// The number of the checkpoint.
    pub(super) checkpoint: u64,
}

impl Scheme {
    /// How long the checkpoints take that are written until the pattern of levels repeats.
    pub(super) fn write_times(&self) -> impl Iterator<Item = Span> {
        (1..=self.period()).map(|number| self.write_time(number))
    }

    /// What the same checkpoints cost, the work that transfers take included.
    pub(super) fn costs(&self) -> impl Iterator<Item = Span> {
        let level = |number| self.levels.get(self.level_of(number));
        (1..=self.period()).map(move |number| level(number).map_or(Span::ZERO, Level::cost))
    }

    /// How long the job is blocked by checkpoint `number`, counted from 1.
    pub(super) fn write_time(&self, number: u64) -> Span {
        self.levels.get(self.level_of(number)).map_or(Span::ZERO, |level| level.write)
    }

    /// The level that the job writes checkpoint `number` to, if that goes through a shared storage.
    pub(super) fn shared_write(&self, number: u64) -> Option<&Level> {
        let level = self.levels.get(self.level_of(number))?;
        level.sharing.write.is_some().then_some(level)
    }

    /// The levels that checkpoint `number` is to be transferred to in the background.
    pub(super) fn due_transfers(&self, number: u64) -> impl Iterator<Item = (usize, &Level)> {
        let levels = self.levels.iter().enumerate().take(self.level_of(number) + 1);
        levels.filter(|(_, level)| level.is_flushed())
    }

    /// Whether some checkpoints are complete only after a transfer in the background.
    pub(super) fn is_flushed(&self) -> bool {
        self.levels.iter().any(Level::is_flushed)
    }

    /// After how many checkpoints the pattern of levels repeats.
    fn period(&self) -> u64 {
        self.levels.last().map_or(1, |level| level.every)
    }

    /// The level that checkpoint `number`, counted from 1, goes to.
    pub(super) fn level_of(&self, number: u64) -> usize {
        self.levels.iter().rposition(|level| number.is_multiple_of(level.every)).unwrap_or(0)
    }

    /// Where a job on `nodes` nodes goes on after `damage` to its nodes `lost`, when `newest[l]` is
    /// the newest complete checkpoint on level l or a higher one, 0 for none. The newest one that can
    /// still be read wins, of equal ones the faster level. None: from the beginning.
    pub(super) fn recovery(
        &self,
        newest: &[u64],
        damage: Damage,
        lost: &[u32],
        nodes: u32,
    ) -> Option<Recovery> {
        let readable = self.levels.iter().zip(newest).enumerate().filter(|(_, (level, number))| {
            **number > 0 && level.kind.survives(damage, lost, nodes)
        });
        readable
            .map(|(level, (_, number))| Recovery { level, checkpoint: *number })
            .reduce(|best, next| if next.checkpoint > best.checkpoint { next } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(kind: Kind, every: u64, write: u64) -> Level {
        Level {
            name: String::new(),
            kind,
            every,
            write: Span::from_nanos(write),
            restore: Span::ZERO,
            flush: Span::ZERO,
            slowdown: 0.0,
            overlap: Overlap::default(),
            sharing: Sharing::default(),
        }
    }

    fn scheme() -> Scheme {
        let xor = Kind::Xor { group: 8 };
        let levels = vec![level(Kind::Memory, 1, 1), level(xor, 2, 3), level(Kind::Lower, 10, 9)];
        Scheme { levels }
    }

    #[test]
    fn checkpoints_go_to_the_highest_level_that_is_due() {
        let costs: Vec<u64> = scheme().write_times().map(Span::as_nanos).collect();
        assert_eq!(costs, [1, 3, 1, 3, 1, 3, 1, 3, 1, 9]);
    }

    #[test]
    fn recovers_from_the_newest_checkpoint_that_is_left() {
        let scheme = scheme();
        let from = |newest: &[u64], damage, lost: &[u32]| {
            scheme.recovery(newest, damage, lost, 64).map(|r| (r.level, r.checkpoint))
        };
        assert_eq!(from(&[17, 16, 10], Damage::Process, &[5]), Some((0, 17)));
        assert_eq!(from(&[17, 16, 10], Damage::Reboot, &[5]), Some((1, 16)));
        assert_eq!(from(&[17, 16, 10], Damage::Loss, &[5]), Some((1, 16)));
        assert_eq!(from(&[17, 16, 10], Damage::Loss, &[5, 13]), Some((2, 10)), "one XOR group");
        assert_eq!(from(&[17, 16, 10], Damage::Machine, &[0]), Some((2, 10)));
        assert_eq!(from(&[17, 16, 0], Damage::Machine, &[0]), None);
        assert_eq!(from(&[20, 20, 20], Damage::Loss, &[5]), Some((1, 20)), "the faster level");
        assert_eq!(from(&[0, 0, 0], Damage::Process, &[5]), None);
    }
}
