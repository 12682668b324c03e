//! The settings by name: in files, in the environment and on the command line.

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Mount,
    Dir,
    Tiers,
    Lower,
    Overflow,
    Deployment,
    Name,
    Durability,
    Interval,
    Passthrough,
    DirectoryLeases,
    InlineLimit,
    InlineBudget,
    Watermark,
    Cache,
    Rules,
    Replicas,
    CopyRate,
    EventLoops,
    Record,
    RecordLimit,
    AllowOther,
    ReadOnly,
    Wait,
}

impl Key {
    /// All settings in the order of the documentation.
    pub(crate) const ALL: [Self; 24] = [
        Self::Mount,
        Self::Dir,
        Self::Tiers,
        Self::Lower,
        Self::Overflow,
        Self::Deployment,
        Self::Name,
        Self::Durability,
        Self::Interval,
        Self::Passthrough,
        Self::DirectoryLeases,
        Self::InlineLimit,
        Self::InlineBudget,
        Self::Watermark,
        Self::Cache,
        Self::Rules,
        Self::Replicas,
        Self::CopyRate,
        Self::EventLoops,
        Self::Record,
        Self::RecordLimit,
        Self::AllowOther,
        Self::ReadOnly,
        Self::Wait,
    ];

    /// The name in a file.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mount => "mount",
            Self::Dir => "dir",
            Self::Tiers => "tiers",
            Self::Lower => "lower",
            Self::Overflow => "overflow",
            Self::Deployment => "deployment",
            Self::Name => "name",
            Self::Durability => "durability",
            Self::Interval => "interval",
            Self::Passthrough => "passthrough",
            Self::DirectoryLeases => "directory_leases",
            Self::InlineLimit => "inline_limit",
            Self::InlineBudget => "inline_budget",
            Self::Watermark => "watermark",
            Self::Cache => "cache",
            Self::Rules => "rules",
            Self::Replicas => "replicas",
            Self::CopyRate => "copy_rate",
            Self::EventLoops => "event_loops",
            Self::Record => "record",
            Self::RecordLimit => "record_limit",
            Self::AllowOther => "allow_other",
            Self::ReadOnly => "read_only",
            Self::Wait => "wait",
        }
    }

    /// The name on the command line; a list is given one element at a time there.
    pub(crate) fn flag(self) -> String {
        match self {
            Self::Tiers => "--tier".into(),
            Self::Rules => "--rule".into(),
            _ => format!("--{}", self.name().replace('_', "-")),
        }
    }

    /// The name in the environment.
    pub(crate) fn variable(self) -> String {
        format!("INTARSIA_{}", self.name().to_ascii_uppercase())
    }

    /// Whether it takes several values (in the environment separated by semicolons).
    pub(crate) const fn is_list(self) -> bool {
        matches!(self, Self::Tiers | Self::Rules)
    }

    /// The setting with this name in a file.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }
}
