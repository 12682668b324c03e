//! What the tests of the tree and the tables on it measure: see `tests/`.

pub mod rooms;
