//! Whether the kernel serves a file by itself or through the process.

/// How an open inode is served. One mode holds from its first open to its last release: the kernel
/// answers EIO to a mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// The kernel reads and writes the backing file itself.
    Passthrough,
    /// Requests come to the process, through the kernel's page cache.
    Cached,
}

/// What is known when the first handle of an inode is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenRequest {
    /// The mount does passthrough at all.
    pub mount_has_passthrough: bool,
    /// The tier's file system may carry it.
    pub tier_is_stackable: bool,
    /// The tier is below its watermark, where every byte must be accounted before it is written.
    pub tier_is_low: bool,
    /// Reads of this file must be verified.
    pub is_strict: bool,
    /// The file has a backing file, or gets one because the open is for writing.
    pub has_backing: bool,
    /// Writing must clear set-id bits, which the kernel leaves to the process.
    pub clears_set_id: bool,
}

/// Chooses the mode of an inode that nobody has open.
#[must_use]
pub const fn choose_io_mode(request: &OpenRequest) -> IoMode {
    let OpenRequest {
        mount_has_passthrough,
        tier_is_stackable,
        tier_is_low,
        is_strict,
        has_backing,
        clears_set_id,
    } = *request;
    if mount_has_passthrough
        && tier_is_stackable
        && has_backing
        && !tier_is_low
        && !is_strict
        && !clears_set_id
    {
        IoMode::Passthrough
    } else {
        IoMode::Cached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_reason_is_enough_to_go_through_the_process() {
        let yes = OpenRequest {
            mount_has_passthrough: true,
            tier_is_stackable: true,
            tier_is_low: false,
            is_strict: false,
            has_backing: true,
            clears_set_id: false,
        };
        assert_eq!(choose_io_mode(&yes), IoMode::Passthrough);
        for no in [
            OpenRequest { mount_has_passthrough: false, ..yes },
            OpenRequest { tier_is_stackable: false, ..yes },
            OpenRequest { tier_is_low: true, ..yes },
            OpenRequest { is_strict: true, ..yes },
            OpenRequest { has_backing: false, ..yes },
            OpenRequest { clears_set_id: true, ..yes },
        ] {
            assert_eq!(choose_io_mode(&no), IoMode::Cached);
        }
    }
}
