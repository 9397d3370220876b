//! Plain values that every part of Headroom shares: quantities, labels, resources, times, reasons.

pub mod deletion_cost;
pub mod go_values;
pub mod known;
pub mod labels;
pub mod mixing;
pub mod printable;
pub mod quantity;
pub mod reason;
pub mod resources;
pub mod text;
pub mod time;
pub mod window;
