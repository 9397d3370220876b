//! The end-to-end stories, one a file, each on a control plane of its own; run one after the other.

#[cfg(test)]
mod bad_objects_are_refused;
#[cfg(test)]
mod control_plane_comes_up;
