//! The command line: one file a command; each hands over to the rooms and decides nothing.

pub mod crds;
