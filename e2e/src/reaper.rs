//! A small shell that kills our children when this process is gone, however it went; it does nothing before.
//!
//! Children live in process groups of their own, so neither a Ctrl-C nor a SIGKILL of the test reaches them.
//! The reaper reads the groups to end from a pipe; the kernel closes the pipe when the test dies.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context as _, Result};

const SCRIPT: &str = r#"
trap "" INT TERM HUP
groups=""
while read -r verb group; do
  case "$verb" in
    watch) groups="$groups $group" ;;
    forget)
      left=""
      for known in $groups; do [ "$known" = "$group" ] || left="$left $known"; done
      groups=$left ;;
  esac
done
for group in $groups; do kill -KILL -- "-$group" 2>/dev/null; done
"#;

static PIPE: OnceLock<Mutex<Option<ChildStdin>>> = OnceLock::new();

/// Ends the process group `group` once this process is gone. Errors when no shell can be started.
pub(crate) fn watch(group: u32) -> Result<()> {
    say("watch", group)
}

/// The group has ended and its number may be given to strangers: the reaper must leave it alone.
pub(crate) fn forget(group: u32) {
    // Without a reaper there is nothing to tell it.
    let _ = say("forget", group);
}

fn say(verb: &str, group: u32) -> Result<()> {
    let pipe = PIPE.get_or_init(|| Mutex::new(None));
    let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
    if pipe.is_none() {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("failed to start the reaper")?;
        *pipe = shell.stdin.take();
    }
    let stdin = pipe.as_mut().context("the reaper has no stdin")?;
    writeln!(stdin, "{verb} {group}").context("failed to tell the reaper")
}
