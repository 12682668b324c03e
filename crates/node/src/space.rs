//! Where new files are born: in a tier of this host, where their hints wish them, or where there is room.

pub(crate) mod elsewhere;
pub(crate) mod placing;
pub(crate) mod tiers;
