//! The settings of a store, understood and checked.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use intarsia_types::{ByteCount, Durability, Rule, RuleSet, TierSpec};
use serde::{Deserialize, Serialize};

use super::{Given, Key, Layers, path, range};
use crate::exit::{Failure, Outcome};
use crate::runtime::{self, Detail};

/// Everything that a node needs to know. Handed to a detached node as JSON through a pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) mount: PathBuf,
    pub(crate) dir: PathBuf,
    /// Never empty: without a word from the user the one tier is `DIR/tier`.
    pub(crate) tiers: Vec<TierSpec>,
    /// A file system whose tree appears in the store's.
    pub(crate) lower: Option<PathBuf>,
    /// Whether new files go there when no tier has room.
    pub(crate) overflow: bool,
    /// Where the files of the deployment are that this store is a part of; none for one of this host alone.
    pub(crate) deployment: Option<PathBuf>,
    pub(crate) name: String,
    pub(crate) durability: Durability,
    pub(crate) interval: Duration,
    pub(crate) passthrough: bool,
    /// With several hosts: whether this one keeps what it reads of directories.
    pub(crate) directory_leases: bool,
    pub(crate) inline_limit: ByteCount,
    pub(crate) inline_budget: ByteCount,
    pub(crate) watermark: ByteCount,
    pub(crate) cache: ByteCount,
    /// Known to parse.
    pub(crate) rules: Vec<String>,
    /// Copies of a file on different hosts, where no hint says.
    pub(crate) replicas: u16,
    /// Bytes a second for copies that nobody waits for; 0 for no bound.
    pub(crate) copy_rate: ByteCount,
    /// 0 lets the mount choose.
    pub(crate) event_loops: usize,
    /// How much of what programs do is recorded.
    pub(crate) record: Detail,
    pub(crate) record_limit: ByteCount,
    pub(crate) allow_other: bool,
    pub(crate) read_only: bool,
    /// How long `up` waits for the node.
    pub(crate) wait: Duration,
}

impl Settings {
    /// Understands what was given; the first mistake is reported with its place.
    pub(crate) fn from_layers(layers: &Layers) -> Outcome<Self> {
        let read = Reader { layers };
        let mount = match read.path(Key::Mount)? {
            Some(given) => {
                crate::mounts::canonical(&given).map_err(|e| Failure::io(given.display(), &e))?
            }
            None => path::default_mount(),
        };
        let dir = match read.place(Key::Dir)? {
            Some(dir) => dir,
            None => path::resolved(&path::default_dir(&mount)),
        };
        let defaults = runtime::defaults(&dir);
        let tiers = match read.tiers()? {
            tiers if tiers.is_empty() => vec![default_tier(&dir)],
            tiers => tiers,
        };
        Ok(Self {
            tiers,
            lower: read.path(Key::Lower)?.map(|lower| path::resolved(&lower)),
            overflow: read.one(Key::Overflow, boolean)?.unwrap_or(false),
            deployment: read.path(Key::Deployment)?,
            name: read.one(Key::Name, non_empty)?.unwrap_or_else(host_name),
            durability: read
                .one(Key::Durability, FromStr::from_str)?
                .unwrap_or(defaults.durability),
            interval: read.one(Key::Interval, range::interval)?.unwrap_or(defaults.interval),
            passthrough: read.one(Key::Passthrough, boolean)?.unwrap_or(true),
            directory_leases: read.one(Key::DirectoryLeases, boolean)?.unwrap_or(true),
            inline_limit: read
                .one(Key::InlineLimit, range::inline_limit)?
                .unwrap_or(defaults.inline_limit),
            inline_budget: read.size(Key::InlineBudget)?.unwrap_or(defaults.inline_budget),
            watermark: read.size(Key::Watermark)?.unwrap_or(defaults.watermark),
            cache: read.size(Key::Cache)?.unwrap_or(defaults.cache),
            rules: read.rules()?,
            replicas: read.one(Key::Replicas, range::replicas)?.unwrap_or(defaults.replicas),
            copy_rate: read.size(Key::CopyRate)?.unwrap_or(defaults.copy_rate),
            event_loops: read.one(Key::EventLoops, range::event_loops)?.unwrap_or(0),
            record: read.one(Key::Record, Detail::from_str)?.unwrap_or_default(),
            record_limit: read
                .one(Key::RecordLimit, range::record_limit)?
                .unwrap_or(defaults.record_limit),
            allow_other: read
                .one(Key::AllowOther, boolean)?
                .unwrap_or_else(crate::process::is_root),
            read_only: read.one(Key::ReadOnly, boolean)?.unwrap_or(false),
            wait: read.one(Key::Wait, range::wait)?.unwrap_or(Duration::from_secs(20)),
            mount,
            dir,
        })
    }

    /// The rules in the form that the store takes.
    pub(crate) fn rule_set(&self) -> Outcome<RuleSet> {
        let parse = |text: &String| Rule::from_str(text).map_err(|e| Failure::usage(e.to_string()));
        Ok(RuleSet::new(self.rules.iter().map(parse).collect::<Outcome<_>>()?))
    }

    /// The values of a setting as the user would write them.
    pub(crate) fn texts(&self, key: Key) -> Vec<String> {
        let path = |p: &Path| p.display().to_string();
        let time = |d: Duration| humantime::format_duration(d).to_string();
        let one = match key {
            Key::Tiers => return self.tiers.iter().map(ToString::to_string).collect(),
            Key::Rules => return self.rules.clone(),
            Key::Mount => path(&self.mount),
            Key::Dir => path(&self.dir),
            Key::Overflow => self.overflow.to_string(),
            Key::Lower => return self.lower.iter().map(|p| path(p)).collect(),
            Key::Deployment => return self.deployment.iter().map(|p| path(p)).collect(),
            Key::Name => self.name.clone(),
            Key::Durability => self.durability.to_string(),
            Key::Interval => time(self.interval),
            Key::Passthrough => self.passthrough.to_string(),
            Key::DirectoryLeases => self.directory_leases.to_string(),
            Key::InlineLimit => self.inline_limit.to_string(),
            Key::InlineBudget => self.inline_budget.to_string(),
            Key::Watermark => self.watermark.to_string(),
            Key::Cache => self.cache.to_string(),
            Key::Replicas => self.replicas.to_string(),
            Key::CopyRate => self.copy_rate.to_string(),
            Key::EventLoops => self.event_loops.to_string(),
            Key::Record => self.record.to_string(),
            Key::RecordLimit => self.record_limit.to_string(),
            Key::AllowOther => self.allow_other.to_string(),
            Key::ReadOnly => self.read_only.to_string(),
            Key::Wait => time(self.wait),
        };
        vec![one]
    }
}

/// The tier of a store for which nobody named one.
pub(crate) fn default_tier(dir: &Path) -> TierSpec {
    tier_at(&dir.join("tier"))
}

/// A tier of which only the directory is known.
pub(crate) fn tier_at(dir: &Path) -> TierSpec {
    TierSpec { dir: dir.to_owned(), class: None, capacity: None }
}

struct Reader<'a> {
    layers: &'a Layers,
}

impl Reader<'_> {
    fn one<T, E: std::fmt::Display>(
        &self,
        key: Key,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Outcome<Option<T>> {
        let Some(given) = self.layers.get(key) else { return Ok(None) };
        let text = given.texts.last().map(String::as_str).unwrap_or_default();
        parse(text).map(Some).map_err(|e| given.refuse(key, e))
    }

    fn many<T, E: std::fmt::Display>(
        &self,
        key: Key,
        parse: impl Fn(&Given, &str) -> Result<T, E>,
    ) -> Outcome<Vec<T>> {
        let Some(given) = self.layers.get(key) else { return Ok(Vec::new()) };
        let parse = |text: &String| parse(given, text).map_err(|e| given.refuse(key, e));
        given.texts.iter().map(parse).collect()
    }

    fn size(&self, key: Key) -> Outcome<Option<ByteCount>> {
        self.one(key, ByteCount::from_str)
    }

    fn path(&self, key: Key) -> Outcome<Option<PathBuf>> {
        let Some(given) = self.layers.get(key) else { return Ok(None) };
        self.one(key, |text| absolute(given, text))
    }

    /// A directory in which data is kept, with the links in it followed.
    fn place(&self, key: Key) -> Outcome<Option<PathBuf>> {
        let Some(given) = self.layers.get(key) else { return Ok(None) };
        self.one(key, |text| own_place(given, text))
    }

    fn tiers(&self) -> Outcome<Vec<TierSpec>> {
        self.many(Key::Tiers, |given, text| {
            let mut spec = TierSpec::from_str(text).map_err(|e| e.to_string())?;
            spec.dir = own_place(given, &spec.dir.to_string_lossy())?;
            range::capacity(&spec)?;
            Ok::<_, String>(spec)
        })
    }

    fn rules(&self) -> Outcome<Vec<String>> {
        self.many(Key::Rules, |_, text| Rule::from_str(text).map(|rule| rule.to_string()))
    }
}

fn absolute(given: &Given, text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("a path is missing".into());
    }
    path::absolute(text, given.base()).map_err(|e| format!("'{text}': {e}"))
}

/// Where the text leads, if nobody else decides that.
fn own_place(given: &Given, text: &str) -> Result<PathBuf, String> {
    let path = absolute(given, text)?;
    path::check_links(&path)?;
    Ok(path::resolved(&path))
}

fn non_empty(text: &str) -> Result<String, &'static str> {
    let is_name = !text.is_empty() && !text.contains(|c: char| c == ',' || c.is_whitespace());
    is_name.then(|| text.to_owned()).ok_or("a node's name has no spaces and no commas")
}

/// `true` and `false`, and what people write instead.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false")),
    }
}

/// A time with its unit; a bare number would leave the unit to guessing.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim()).map_err(|_| {
        format!("'{text}' is not a time; write a number with a unit, as in 500ms, 1s or 2m")
    })
}

/// The host in the name that the batch system uses.
pub(crate) fn host_name() -> String {
    let slurm = std::env::var("SLURMD_NODENAME").ok().filter(|n| !n.is_empty());
    slurm.unwrap_or_else(|| {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        name.split('.').next().filter(|n| !n.is_empty()).unwrap_or("localhost").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;

    fn layers(values: &[(Key, &str)]) -> Layers {
        let mut layers = Layers::default();
        for (key, text) in values {
            let given = Given { texts: vec![(*text).to_owned()], source: Source::Flag };
            layers.add(*key, given);
        }
        layers
    }

    #[test]
    fn the_stronger_layer_wins() {
        let mut layers = layers(&[(Key::Interval, "2s")]);
        for text in ["3s", "4s"] {
            let given = Given { texts: vec![text.into()], source: Source::Environment };
            layers.add(Key::Interval, given);
        }
        let settings = Settings::from_layers(&layers).unwrap();
        assert_eq!(settings.interval, Duration::from_secs(2));
        assert_eq!(layers.source(Key::Interval), Source::Flag);
        assert_eq!(layers.source(Key::Cache), Source::Default);
    }

    #[test]
    fn refusals_name_the_place_and_the_fix() {
        for (key, text, expected) in [
            (Key::Interval, "5", "--interval: '5' is not a time; write a number with a unit"),
            (Key::Interval, "0s", "--interval: '0s' is not between"),
            (Key::Cache, "lots", "--cache: 'lots' is not a size"),
            (Key::InlineLimit, "4XB", "--inline-limit: '4XB' is not a size: unknown unit"),
            (Key::Durability, "never", "--durability: 'never' is no durability"),
            (Key::Tiers, "/x,class=tape", "--tier: 'tape' is no class"),
            (Key::Rules, "*.tmp tier=tape", "--rule: rule '*.tmp tier=tape'"),
            (Key::Replicas, "0", "--replicas: '0' is not a number from 1 to 16"),
            (Key::EventLoops, "-1", "--event-loops: '-1' is not a number"),
            (Key::Passthrough, "perhaps", "--passthrough: 'perhaps' is neither"),
            (Key::Name, "a,b", "--name: a node's name"),
            (Key::Record, "all", "--record: 'all' is no detail of a recording"),
            (Key::RecordLimit, "1KiB", "--record-limit: '1KiB' is less than 64KiB"),
            (Key::Wait, "0s", "--wait: '0s' is not between 1s and 1h"),
            (Key::InlineLimit, "1TiB", "--inline-limit: '1TiB' is more than 1MiB"),
            (
                Key::Tiers,
                "/x,capacity=0",
                "--tier: a tier of 0B holds nothing; give it 1MiB or more",
            ),
            (Key::Tiers, "/x,capacity=1KiB", "--tier: a tier of 1KiB holds nothing"),
        ] {
            let failure = Settings::from_layers(&layers(&[(key, text)])).unwrap_err();
            assert!(failure.message.starts_with(expected), "{}", failure.message);
            assert_eq!(failure.exit, crate::exit::Exit::Usage);
        }
    }

    #[test]
    fn settings_survive_the_pipe() {
        let settings = Settings::from_layers(&layers(&[
            (Key::Mount, "/mnt/x"),
            (Key::Tiers, "/ssd,class=ssd,capacity=10GiB"),
            (Key::Rules, "*.tmp tier=memory"),
        ]))
        .unwrap();
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
    }
}
