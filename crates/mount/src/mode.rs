//! Whether the kernel's passthrough is in force, found out by trying.

use serde::Serialize;

/// How the kernel serves files of this mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// Whether the kernel reads and writes local files by itself.
    pub in_force: bool,
    /// Why, or why not.
    pub reason: String,
}

impl Mode {
    pub(crate) fn off(reason: impl Into<String>) -> Self {
        Self { in_force: false, reason: reason.into() }
    }

    pub(crate) fn on() -> Self {
        Self { in_force: true, reason: "offered by the kernel and tried at start".into() }
    }
}

/// What can be known before the mount: privilege and tiers. `None` when it is worth trying.
pub(crate) fn obstacle(is_wanted: bool, has_stackable_tier: bool) -> Option<&'static str> {
    if !is_wanted {
        return Some("switched off by the configuration");
    }
    if !has_sys_admin() {
        return Some("needs CAP_SYS_ADMIN (run 'up' as root, or from a root prolog)");
    }
    if !has_stackable_tier {
        return Some(
            "no tier is on a file system that it can stand on (overlayfs and FUSE cannot)",
        );
    }
    None
}

/// CAP_SYS_ADMIN is capability 21 in the effective set.
fn has_sys_admin() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|caps| caps & (1 << 21) != 0)
}
