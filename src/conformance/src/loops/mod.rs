//! The families that run whole loops: the product in the vectors' small world, compared with the reference at the end.

pub mod compare;
pub mod drive;
pub mod end;
pub mod input;
pub mod parts;
pub mod rules;
pub mod settings;
pub mod shield;
pub mod world;
