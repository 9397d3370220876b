//! The families that run whole loops: the product in the vectors' small world, compared with the reference at the end.

pub(crate) mod compare;
pub(crate) mod drive;
pub(crate) mod end;
pub(crate) mod input;
pub(crate) mod parts;
pub(crate) mod rules;
pub(crate) mod settings;
pub(crate) mod shield;
pub(crate) mod world;
