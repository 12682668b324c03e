//! What must hold after anything: the next verb works or says what to do, the store is whole, and after
//! `down --purge` nothing is left.

use std::fs;
use std::time::{Duration, Instant};

use super::files::{self, Losses};
use super::world::{HOSTS, Said, World};

/// Whoever was killed has processes that notice it; so long the next verb may say that it is busy.
const BUSY_PATIENCE: Duration = Duration::from_secs(90);
const LOOK_AGAIN: Duration = Duration::from_millis(500);
const BUSY: i32 = 4;
const GENERAL: i32 = 1;
const USAGE: i32 = 2;
const ACCEPT_LOSS: &str = "--accept-loss";
/// What `up` says where nothing can be read any more.
const LOST_ROOT: &str = "which has the root of all names";
/// What `up` says of a store that is up in part and has to go down first.
const BEYOND_REPAIR: &str = "which does not come back by itself";

/// What was found in a case.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) wrong: Vec<String>,
    pub(crate) verbs: usize,
    /// Acknowledged files that were looked for on every host.
    pub(crate) files: usize,
    /// The store came up only because what no host has any more was given up, as `up` offered.
    pub(crate) has_accepted_loss: bool,
    /// It cannot come up: no host has a copy of the root of all names any more, as `up` says.
    pub(crate) has_lost_root: bool,
    /// The verbs that were given, with what they ended with.
    pub(crate) history: Vec<String>,
    /// Where the logs are kept.
    pub(crate) kept: Option<std::path::PathBuf>,
}

impl Findings {
    /// Takes note of a verb that has ended, and whether it ended as every verb must.
    pub(crate) fn note(&mut self, said: &Said) {
        self.verbs += 1;
        let code = said.code.map_or("killed".to_owned(), |code| code.to_string());
        let text = said.text.trim().replace('\n', " / ");
        let text: String = text.chars().take(600).collect();
        let seconds = said.took.as_secs_f32();
        self.history.push(format!("{} -> {code} after {seconds:.1} s: {text}", said.command));
        if said.is_late {
            self.wrong.push(format!("{} does not end", said.command));
        }
        let Some(code) = said.code else { return };
        if !(0..=5).contains(&code) {
            self.wrong.push(format!("{} ended with {code}: {}", said.command, said.text));
        }
        if code != 0 && said.text.trim().is_empty() && said.out.trim().is_empty() {
            self.wrong.push(format!("{} ended with {code} and said nothing", said.command));
        }
        if said.text.contains("panicked") {
            self.wrong.push(format!("{} panicked: {}", said.command, said.text));
        }
    }

    /// Checks the exit code of a verb that nobody interrupted.
    pub(crate) fn expect(&mut self, said: &Said, codes: &[i32]) {
        if !said.code.is_some_and(|code| codes.contains(&code)) && !said.is_late {
            self.wrong.push(format!(
                "{} ended with {:?}, not with one of {codes:?}: {}",
                said.command,
                said.code,
                said.text.trim()
            ));
        }
    }

    /// Gives a verb again while it answers that somebody is busy, and `wants` another answer.
    pub(crate) fn patiently(
        &mut self,
        world: &World,
        words: &[String],
        done: impl Fn(&Said) -> bool,
    ) -> Said {
        let begun = Instant::now();
        loop {
            let said = world.say(words, None);
            self.note(&said);
            if said.code != Some(BUSY) || done(&said) || begun.elapsed() > BUSY_PATIENCE {
                return said;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Brings the store up on the hosts that it has, as its messages tell; which these are. Where names `may_be` lost,
    /// the offer to go on without them is taken.
    fn bring_up(&mut self, world: &World, may_be: Losses) -> Option<Vec<usize>> {
        let mut hosts = members(world).unwrap_or_else(|| vec![1, 2, 3]);
        let mut options: &[&str] = &[];
        for _ in 0..4 {
            let is_up = |said: &Said| said.text.contains("already up");
            let said = self.patiently(world, &world.up(&hosts, options), is_up);
            if said.code == Some(0) || is_up(&said) {
                self.has_accepted_loss = !options.is_empty();
                return Some(hosts);
            }
            let told = hosts_told(&said.text).filter(|told| *told != hosts);
            let is_offered = may_be == Losses::Names && said.text.contains(ACCEPT_LOSS);
            match (said.code, told) {
                (Some(GENERAL), _) if said.text.contains(BEYOND_REPAIR) => {
                    let said = self.down_all(world, &[]);
                    self.expect(&said, &[0]);
                }
                (Some(USAGE), Some(told)) => hosts = told,
                (Some(USAGE), None) if is_offered && options.is_empty() => {
                    options = &[ACCEPT_LOSS];
                }
                (Some(USAGE), None) if may_be == Losses::Names && said.text.contains(LOST_ROOT) => {
                    self.has_lost_root = true;
                    return None;
                }
                _ => {
                    self.wrong.push(format!(
                        "the store does not come up: {} -> {:?}: {}",
                        said.command,
                        said.code,
                        said.text.trim()
                    ));
                    return None;
                }
            }
        }
        self.wrong.push("following the messages of `up` leads in a circle".into());
        None
    }

    /// Brings it up, and looks whether it is whole.
    pub(crate) fn whole(&mut self, world: &World, names: &[String], may_be: Losses) {
        let Some(hosts) = self.bring_up(world, may_be) else { return };
        let lost = match may_be {
            Losses::Names if !self.has_accepted_loss => Losses::Copies,
            other => other,
        };
        self.files += names.len();
        for n in &hosts {
            self.wrong.extend(files::verify(world, *n, names, lost));
        }
        self.wrong.extend(files::work(world, &hosts, 7));
    }

    /// Takes it down on whatever hosts it can have.
    fn down_all(&mut self, world: &World, options: &[&str]) -> Said {
        let all: Vec<usize> = (1..=HOSTS).collect();
        self.patiently(world, &world.down(&all, options), |_| false)
    }

    /// Takes it down; then nothing runs and nothing is mounted.
    pub(crate) fn down_ends_all(&mut self, world: &World) {
        let said = self.patiently(world, &world.down(&[1, 2, 3], &[]), |_| false);
        self.expect(&said, &[0]);
        let left = world.wait_for_end();
        self.wrong.extend(left.err().map(|why| format!("after `down`: {why}")));
    }

    /// Takes it down and deletes it; nothing is left.
    pub(crate) fn purge(&mut self, world: &World) {
        if !self.wrong.is_empty() && self.kept.is_none() {
            self.kept = world.keep_logs();
        }
        let said = self.down_all(world, &["--purge"]);
        self.expect(&said, &[0, 5]);
        // A process that is ending has a moment.
        let begun = Instant::now();
        let mut left = world.remains();
        while !left.is_empty() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(LOOK_AGAIN);
            left = world.remains();
        }
        let left = left.into_iter().map(|what| format!("left after down --purge: {what}"));
        self.wrong.extend(left);
    }
}

/// The hosts of the store by the newest description that lies on a host.
pub(crate) fn members(world: &World) -> Option<Vec<usize>> {
    let described = (1..=HOSTS).filter_map(|n| {
        // Without a store the description is one of an attempt.
        let store = world.store(n);
        store.join("store.json").exists().then_some(())?;
        let text = fs::read_to_string(store.join("deployment/deployment.toml")).ok()?;
        let number = |line: &str| line.strip_prefix("revision = ")?.trim().parse::<u64>().ok();
        let revision = text.lines().find_map(number).unwrap_or(0);
        let host = |line: &str| line.strip_prefix("name = \"n")?.trim_end_matches('"').parse().ok();
        let hosts: Vec<usize> = text.lines().filter_map(host).collect();
        (!hosts.is_empty()).then_some((revision, hosts))
    });
    let mut hosts = described.max()?.1;
    hosts.sort_unstable();
    hosts.dedup();
    Some(hosts)
}

/// The hosts that a message says the store is of.
fn hosts_told(text: &str) -> Option<Vec<usize>> {
    let rest = text.split("of the hosts ").nth(1)?;
    let named = rest.split([',', ' ', ';', '\n']).filter(|word| !word.is_empty());
    let hosts = named.map_while(|word| word.strip_prefix('n')?.parse().ok());
    let hosts: Vec<usize> = hosts.collect();
    (!hosts.is_empty()).then_some(hosts)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_hosts_are_read_from_the_message() {
        let text = "n3 has left the store, which is of the hosts n1, n2 now; what lies on it";
        assert_eq!(super::hosts_told(text), Some(vec![1, 2]));
    }
}
