//! Metrics.

use std::time::Duration;

/// Metrics.
#[derive(Debug, Default)]
pub struct Metrics {}
impl Metrics {
    pub fn planned(&self, _: Duration) {}
    pub fn status_written(&self, _: bool) {}
    pub fn call(&self, _: &str, _: &str) {}
    pub fn exposition(&self) -> String {
        String::new()
    }
}
