//! The harness of the end-to-end stories: control plane, operator process, waiting for conditions.
