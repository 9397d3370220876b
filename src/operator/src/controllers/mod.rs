//! The loops: read, decide, act, render, write. They hold no rule of their own.

pub mod config;
mod config_devices;
pub mod definitions;
pub mod facts;
pub mod health;
pub mod inspection;
pub mod leader;
mod lease;
mod listener;
mod log_throttle;
pub mod memory;
pub mod nodes;
pub mod page;
mod page_tables;
mod rest;
pub mod scale_in;
pub mod shards;
pub mod surges;
mod turns;
pub mod view;
pub mod wiring;
pub mod workloads;
