//! WHY: a snapshot and what surrounds it become explanations, pages of status and tables. Pure: it reads no clock and asks
//! nobody.

mod advice;
pub mod buffer;
pub mod case;
pub mod chain;
pub mod checked;
mod clean;
pub mod compare;
pub mod evidence;
pub mod explanation;
pub mod hide;
pub mod journal;
pub mod node;
pub mod overview;
pub mod owned;
pub mod owners;
pub mod pod;
pub mod pool;
pub mod replicas;
pub mod request;
pub mod scorecard;
pub mod table;
#[cfg(test)]
mod tests;
pub mod top;
pub mod workload;

pub use case::{Case, Error, ProviderView};
pub use evidence::Evidence;
pub use explanation::{Explanation, Moment};
