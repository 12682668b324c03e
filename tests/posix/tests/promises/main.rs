//! What the store promises, one by one.

mod append;
mod directory;
mod folding;
mod mapped;
mod names;
mod permission;
mod read_only;
mod recycled;
mod space;
mod special;
mod system_calls;
mod times;
mod unlinked;
