//! Why a plan is as it is, in words for the log.

/// Why a plan is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A tier of this host is above its watermark.
    RoomHere,
    /// Every tier of this host is below its watermark, and another host has one that is not.
    RoomElsewhere,
    /// This host was told to leave, and another host has room.
    Leaving,
    /// Every tier of every host is below its watermark, and there is an overflow in the lower file system.
    Overflow,
    /// Every tier of every host is below its watermark, and one of this host still takes bytes.
    LastBytes,
    /// Every tier of every host is below its watermark, and none of this host takes a byte.
    Full,
    /// The files of its group are there.
    Group,
    /// Files like it are dealt over the hosts by their room.
    Spread,
    /// Its hints put it where it is.
    PutThere,
    /// No tier of the class that its hint asks for has room for it.
    ClassFull,
    /// The kernel can serve the backing file by itself.
    KernelServes,
    /// The kernel serves no files by itself.
    NoPassthrough,
    /// There is no backing file here, and there will be none.
    NoBackingFile,
    /// Its bytes are not kept as they are.
    Encoded,
    /// The tier's file system does not carry it.
    NotStackable,
    /// The tier is below its watermark, where every byte is accounted before it is written.
    TierLow,
    /// Reads must be verified.
    Strict,
    /// Writing clears set-id bits, which the kernel leaves to the process.
    SetId,
    /// A copy pays for who reads the file again.
    WorthKeeping,
    /// Somebody may write to it unseen.
    NotSealed,
    /// It comes whole with the answer to its opening.
    TooSmall,
    /// It would take more than its share, or more than its hints allow.
    TooLarge,
    /// It fits beside its inode.
    FitsInline,
    /// All that may stand beside inodes does already.
    InlineFull,
    /// There are hosts for all copies.
    CopiesWanted,
    /// There are too few hosts with room.
    TooFewHosts,
    /// It is dealt over hosts.
    Dealt,
}

impl Reason {
    /// Whether a hint was followed.
    #[must_use]
    pub const fn is_wish(self) -> bool {
        matches!(self, Self::Group | Self::Spread)
    }

    /// The reason in words, for the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RoomHere => "a tier of this host has room",
            Self::RoomElsewhere => {
                "every tier of this host is below its watermark; another host has room"
            }
            Self::Leaving => "this host was told to leave; another host has room",
            Self::Overflow => {
                "every tier of every host is below its watermark; the overflow has room"
            }
            Self::LastBytes => {
                "every tier of every host is below its watermark; one of this host takes a few bytes more"
            }
            Self::Full => {
                "every tier of every host is full or below its watermark, and none of this host takes a byte more"
            }
            Self::Group => "the files of its group are there",
            Self::Spread => "files are dealt over the hosts by their room",
            Self::PutThere => "its hints put it where it is",
            Self::ClassFull => "no tier of the class that its hint asks for has room for it",
            Self::KernelServes => "the kernel serves its backing file",
            Self::NoPassthrough => "the kernel serves no files by itself here",
            Self::NoBackingFile => "it has no backing file here",
            Self::Encoded => "its bytes are not kept as they are",
            Self::NotStackable => "the kernel cannot serve files of this tier's file system",
            Self::TierLow => "its tier is below the watermark",
            Self::Strict => "its reads are verified",
            Self::SetId => "writing clears its set-id bits",
            Self::WorthKeeping => "a copy here serves the next readers",
            Self::NotSealed => "another host may write to it unseen",
            Self::TooSmall => "it comes with the answer to its opening",
            Self::TooLarge => "it would take more than a copy may",
            Self::FitsInline => "it fits beside its inode",
            Self::InlineFull => "the bytes beside inodes have reached their limit",
            Self::CopiesWanted => "there are hosts with room for all copies",
            Self::TooFewHosts => "too few hosts have room",
            Self::Dealt => "its chunks are dealt over hosts",
        }
    }
}
