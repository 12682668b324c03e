//! Which level each checkpoint goes to, and from where a job recovers.

use super::Kind;
use crate::checkpoint::failure::{Damage, Failure};
use crate::scenario::{Problem, Section};

/// One level of a scheme.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// What reports call it.
    pub name: String,
    /// Where its checkpoints lie.
    pub kind: Kind,
    /// Every how many checkpoints one goes to this level or a higher one.
    pub every: u64,
    /// How long the application is blocked while it writes a checkpoint to this level.
    pub write_seconds: f64,
    /// How long it takes to read it again.
    pub restore_seconds: f64,
    /// Set when the checkpoint is complete only after a transfer in the background.
    pub flush: Option<Flush>,
}

/// A transfer in the background while the application works on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flush {
    /// How long it takes.
    pub seconds: f64,
    /// The share of the application's speed that it costs, from 0 to below 1.
    pub slowdown: f64,
}

impl Flush {
    /// The work that the application loses to one flush, in seconds.
    pub fn lost_seconds(&self) -> f64 {
        self.seconds * self.slowdown
    }
}

/// Levels, from the fastest to the safest. Checkpoint k goes to the highest level whose `every`
/// divides k; the lower levels keep a copy of it, as SCR and VeloC do, so that the milder failures
/// are recovered from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheme {
    levels: Vec<Level>,
}

/// Where a job goes on after a failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recovery {
    /// The level, counted from the fastest.
    pub level: usize,
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// How long it takes to read it.
    pub restore_seconds: f64,
}

impl Scheme {
    /// The scheme of these levels, fastest first.
    ///
    /// # Errors
    /// When there is no level, the first is not written every time, or the checkpoints of a level
    /// are not all checkpoints of the level below it. The text completes "the levels …".
    pub fn new(levels: Vec<Level>) -> Result<Self, &'static str> {
        if levels.first().is_none_or(|first| first.every != 1) {
            return Err("must begin with one that every checkpoint goes to (every = 1)");
        }
        let nested =
            |pair: &[Level]| pair[0].every > 0 && pair[1].every.is_multiple_of(pair[0].every);
        if !levels.windows(2).all(nested) || levels.iter().any(|level| level.every == 0) {
            return Err("must nest: `every` of each must be a multiple of the one before");
        }
        Ok(Self { levels })
    }

    /// The levels, fastest first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The level that checkpoint `number`, counted from 1, goes to.
    pub fn level_of(&self, number: u64) -> usize {
        self.levels.iter().rposition(|level| number.is_multiple_of(level.every)).unwrap_or(0)
    }

    /// Where a job over the nodes 0 to `nodes` − 1 goes on after `failure`, when `latest[l]` is the
    /// number of the newest complete checkpoint on level l or a higher one, 0 for none. The newest
    /// checkpoint that can still be read wins, then the faster level. `None`: from the beginning.
    pub fn recover(&self, latest: &[u64], failure: &Failure, nodes: u32) -> Option<Recovery> {
        self.recover_from(latest, failure.damage, &failure.nodes, nodes)
    }

    /// As [`Scheme::recover`], for `damage` to the nodes `lost`.
    pub fn recover_from(
        &self,
        latest: &[u64],
        damage: Damage,
        lost: &[u32],
        nodes: u32,
    ) -> Option<Recovery> {
        let mut best: Option<Recovery> = None;
        for (level, (described, checkpoint)) in self.levels.iter().zip(latest).enumerate() {
            let newer = *checkpoint > best.map_or(0, |best| best.checkpoint);
            let as_new = best.is_some_and(|best| {
                *checkpoint == best.checkpoint && described.restore_seconds < best.restore_seconds
            });
            if (newer || as_new) && described.kind.survives(damage, lost, nodes) {
                let restore_seconds = described.restore_seconds;
                best = Some(Recovery { level, checkpoint: *checkpoint, restore_seconds });
            }
        }
        best
    }
}

impl Level {
    /// Reads a level whose costs the scenario gives itself: `name`, `kind`, `every`, `write`,
    /// `restore`, and for a transfer in the background `[flush]` with `time` and `slowdown`.
    ///
    /// # Errors
    /// When a field is missing or refused.
    pub fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        let kind = Kind::read(section)?;
        Ok(Self {
            name: section.text("name").required()?,
            kind,
            every: section.integer("every").at_least(1).or(1)?,
            write_seconds: section.seconds("write").not_negative().required()?,
            restore_seconds: section.seconds("restore").not_negative().required()?,
            flush: section.optional_section("flush", Flush::read)?,
        })
    }
}

impl Flush {
    /// Reads `time` and `slowdown`.
    ///
    /// # Errors
    /// When a field is missing or refused.
    pub fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        let slowdown = section.number("slowdown").share().must("be below 1", |share| *share < 1.0);
        let slowdown = slowdown.or(0.0)?;
        Ok(Self { seconds: section.seconds("time").positive().required()?, slowdown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Document;

    const THREE: &str = r#"
[[level]]
name = "ram"
kind = "memory"
write = "2 s"
restore = "1 s"
[[level]]
name = "xor"
kind = "xor"
group = 8
every = 2
write = "9 s"
restore = "20 s"
[[level]]
name = "lustre"
kind = "lower"
every = 10
write = "9 s"
restore = "300 s"
flush = { time = "120 s", slowdown = "10 %" }
"#;

    fn read(text: &str) -> Result<Vec<Level>, Problem> {
        Document::parse("l.toml", text)?
            .read(|root| root.sections("level", Level::read))
            .map(|r| r.0)
    }

    fn scheme() -> Scheme {
        Scheme::new(read(THREE).unwrap()).unwrap()
    }

    #[test]
    fn checkpoints_go_to_the_highest_level_that_is_due() {
        let levels: Vec<usize> = (1..=20).map(|number| scheme().level_of(number)).collect();
        assert_eq!(levels, [0, 1, 0, 1, 0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0, 1, 0, 1, 0, 2]);
    }

    #[test]
    fn recovers_from_the_newest_checkpoint_that_is_left() {
        let scheme = scheme();
        let from = |latest: &[u64], damage, lost: &[u32]| {
            scheme.recover_from(latest, damage, lost, 64).map(|r| (r.level, r.checkpoint))
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

    #[test]
    fn refuses_levels_that_do_not_nest() {
        let mut levels = read(THREE).unwrap();
        levels[2].every = 3;
        assert!(Scheme::new(levels).unwrap_err().contains("multiple"));
        assert!(Scheme::new(read(THREE).unwrap()[1..].to_vec()).unwrap_err().contains("every = 1"));
        assert!(Scheme::new(Vec::new()).is_err());
    }

    #[test]
    fn complaints_name_the_level() {
        let problem = read(&THREE.replace("group = 8", "group = 1")).unwrap_err();
        assert!(problem.message.contains("level[1].group: 1 must be at least 2"), "{problem}");
        let problem = read(&THREE.replace("\"10 %\"", "1")).unwrap_err();
        assert!(problem.message.contains("level[2].flush.slowdown"), "{problem}");
    }
}
