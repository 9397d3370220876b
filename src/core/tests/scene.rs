//! The scene that removals read, made as a plan makes it.

use headroom_core::config::Config;
use headroom_core::nodes::removal::Scene;
use headroom_core::nodes::state::foreign::Members;
use headroom_core::nodes::state::health::Health;
use headroom_core::time::UnixTime;
use headroom_core::world::view::View;

/// Applies `read` to the scene of this view, in which nothing has been set aside.
pub(crate) fn on_scene<'w, T>(
    view: impl Into<View<'w>>,
    config: &Config,
    now: UnixTime,
    read: impl FnOnce(&Scene<'_>) -> T,
) -> T {
    let View { world, freshness } = view.into();
    let members = Members::of(world, config);
    let health = Health::of(world, config, &members, now);
    read(&Scene { world, freshness, config, members: &members, health: &health, now, guard: None })
}
