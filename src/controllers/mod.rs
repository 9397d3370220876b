//! The loops: read, decide, act, render, write. They hold no rule of their own.

pub mod config;
pub mod health;
pub mod leader;
