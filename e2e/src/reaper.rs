//! A small shell that kills our children and removes our folders when this process is gone; it does nothing before.
//!
//! Children live in process groups of their own, so neither a Ctrl-C nor a SIGKILL of the test reaches them.
//! The reaper reads the groups to end from a pipe; the kernel closes the pipe when the test dies.

use std::fmt::Display;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};

const SCRIPT: &str = r#"
trap "" INT TERM HUP
groups=""
folder=""
while read -r verb group; do
  case "$verb" in
    watch) groups="$groups $group" ;;
    forget)
      left=""
      for known in $groups; do [ "$known" = "$group" ] || left="$left $known"; done
      groups=$left ;;
    remove) folder=$group ;;
    keep) folder="" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
# Those killed write for a moment more.
[ -z "$folder" ] || { sleep 1; rm -rf -- "$folder"; }
"#;

/// The shell's end of the pipe. Dropping it is what the kernel does when this process dies.
struct Reaper(ChildStdin);

impl Reaper {
    fn start() -> Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("failed to start the reaper")?;
        shell.stdin.take().map(Self).context("the reaper has no stdin")
    }

    fn say(&mut self, verb: &str, what: impl Display) -> Result<()> {
        writeln!(self.0, "{verb} {what}").context("failed to write to the reaper")
    }
}

static REAPER: Mutex<Option<Reaper>> = Mutex::new(None);

/// Ends the process group `group` once this process is gone. Errors when no shell can be started.
pub(crate) fn watch(group: u32) -> Result<()> {
    let mut reaper = REAPER.lock().unwrap_or_else(PoisonError::into_inner);
    match reaper.as_mut() {
        Some(known) => known.say("watch", group),
        None => reaper.insert(Reaper::start()?).say("watch", group),
    }
}

/// The group has ended and its number may be given to strangers: the reaper must leave it alone.
pub(crate) fn forget(group: u32) {
    if let Some(reaper) = REAPER.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        // A reaper that has died forgets by itself.
        let _ = reaper.say("forget", group);
    }
}

/// Removes a folder once this process is gone; of several the last one. For what lives as long as the process does.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    send("remove", folder)
}

/// Takes [`remove`] back.
pub(crate) fn keep(folder: &Path) -> Result<()> {
    send("keep", folder)
}

fn send(verb: &str, folder: &Path) -> Result<()> {
    let mut reaper = REAPER.lock().unwrap_or_else(PoisonError::into_inner);
    reaper.as_mut().context("no process was started yet")?.say(verb, folder.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Child;

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("30").process_group(0).spawn().unwrap()
    }

    #[test]
    fn watched_groups_are_killed_and_forgotten_ones_live_when_the_owner_is_gone() {
        let (mut watched, mut forgotten, mut last) = (sleeper(), sleeper(), sleeper());
        let mut reaper = Reaper::start().unwrap();
        for child in [&watched, &forgotten, &last] {
            reaper.say("watch", child.id()).unwrap();
        }
        reaper.say("forget", forgotten.id()).unwrap();
        drop(reaper);

        assert_eq!(watched.wait().unwrap().signal(), Some(9));
        // The reaper goes through the groups in order, so the one in the middle has had its turn.
        assert_eq!(last.wait().unwrap().signal(), Some(9));
        assert_eq!(forgotten.try_wait().unwrap(), None);
        forgotten.kill().unwrap();
        forgotten.wait().unwrap();
    }
}
