//! Rules: hints for every file whose path matches a glob, for programs that copy without attributes.

use std::str::FromStr;

use globset::{Glob, GlobMatcher};

use crate::{Hint, HintError, HintSet};

/// `GLOB NAME=VALUE [NAME=VALUE…]`, such as `/scratch/**/*.tmp tier=memory lifetime=scratch`.
#[derive(Clone, Debug)]
pub struct Rule {
    glob: GlobMatcher,
    hints: HintSet,
}

/// Why a rule was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The pattern is malformed.
    #[error("rule '{rule}': pattern: {why}")]
    BadGlob {
        /// The rule as given.
        rule: String,
        /// What the matcher said.
        why: String,
    },
    /// A hint is malformed.
    #[error("rule '{rule}': {source}")]
    BadHint {
        /// The rule as given.
        rule: String,
        /// The hint's own message.
        source: HintError,
    },
    /// There is no hint.
    #[error("rule '{rule}' sets nothing; write GLOB NAME=VALUE, such as '*.tmp tier=memory'")]
    Empty {
        /// The rule as given.
        rule: String,
    },
}

impl Rule {
    /// The pattern as given.
    #[must_use]
    pub fn glob(&self) -> &str {
        self.glob.glob().glob()
    }

    /// What the rule sets.
    #[must_use]
    pub const fn hints(&self) -> &HintSet {
        &self.hints
    }

    /// Whether the rule looks at the last name only, so that no path has to be put together.
    fn is_name_only(&self) -> bool {
        !self.glob().contains('/')
    }

    /// Whether the rule is for a path within the store (`/a/b`); a bare name will do where its pattern has no `/`.
    #[must_use]
    pub fn is_for(&self, path: &str) -> bool {
        let subject =
            if self.is_name_only() { path.rsplit('/').next().unwrap_or(path) } else { path };
        self.glob.is_match(subject)
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let rule = || text.to_owned();
        let mut words = text.split_whitespace();
        let pattern = words.next().ok_or_else(|| RuleError::Empty { rule: rule() })?;
        let glob = Glob::new(pattern)
            .map_err(|e| RuleError::BadGlob { rule: rule(), why: e.to_string() })?
            .compile_matcher();
        let hints = words
            .map(|w| {
                w.parse::<Hint>().map_err(|source| RuleError::BadHint { rule: rule(), source })
            })
            .collect::<Result<HintSet, _>>()?;
        if hints.is_empty() {
            return Err(RuleError::Empty { rule: rule() });
        }
        Ok(Self { glob, hints })
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.glob())?;
        for (key, value) in self.hints.iter() {
            write!(f, " {key}={value}")?;
        }
        Ok(())
    }
}

/// The rules of a deployment in order; a later rule wins over an earlier one.
#[derive(Clone, Debug, Default)]
pub struct RuleSet(Vec<Rule>);

impl RuleSet {
    /// Collects rules in order.
    #[must_use]
    pub const fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.0
    }

    /// Whether any rule needs the whole path.
    #[must_use]
    pub fn needs_path(&self) -> bool {
        self.0.iter().any(|r| !r.is_name_only())
    }

    /// The hints for a path within the store (`/a/b`); a bare name will do unless [`needs_path`](Self::needs_path).
    #[must_use]
    pub fn hints_for(&self, path: &str) -> HintSet {
        let mut set = HintSet::default();
        for rule in self.0.iter().filter(|r| r.is_for(path)) {
            set.overlay(&rule.hints);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_rules_win_and_names_match_anywhere() {
        let rules = RuleSet::new(vec![
            "*.tmp tier=memory close=fast".parse().unwrap(),
            "/keep/** tier=disk".parse().unwrap(),
        ]);
        assert!(rules.needs_path());
        let hints = rules.hints_for("/keep/a/b.tmp");
        assert_eq!(hints.tier(), Some(crate::TierClass::Disk));
        assert_eq!(hints.close(), crate::CloseMode::Fast);
        assert!(rules.hints_for("/other/b.dat").is_empty());
    }

    #[test]
    fn refuses_what_does_nothing() {
        for bad in ["", "*.tmp", "[ tier=memory", "*.tmp tier=tape", "*.tmp tier"] {
            assert!(bad.parse::<Rule>().is_err(), "{bad:?}");
        }
    }
}
