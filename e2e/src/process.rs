//! One child process with its log file: start, signal, wait, restart; it never outlives its owner.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process_group};

use crate::{reaper, wait};

/// Recipe to start a process; kept so that it can be started again the same way.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Name of the log file and of the process in messages.
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Standard output and error are appended here.
    pub log: PathBuf,
}

/// A child in a process group of its own. Dropping it kills the whole group.
#[derive(Debug)]
pub struct Process {
    recipe: Recipe,
    child: Mutex<Child>,
}

impl Process {
    /// Starts the recipe's program. Errors when the program or its log cannot be opened.
    pub fn start(recipe: Recipe) -> Result<Self> {
        let child = Mutex::new(spawn(&recipe)?);
        Ok(Self { recipe, child })
    }

    /// The process id, which is also the id of its group.
    pub fn pid(&self) -> u32 {
        self.child().id()
    }

    pub fn name(&self) -> &str {
        &self.recipe.name
    }

    pub fn log_path(&self) -> &Path {
        &self.recipe.log
    }

    /// Returns its exit status; `None` while it runs (or is stopped by SIGSTOP).
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.child().try_wait().ok().flatten()
    }

    /// Errors with the end of its log when it has exited.
    pub fn check_running(&self) -> Result<()> {
        match self.exit_status() {
            None => Ok(()),
            Some(status) => {
                bail!("{} has ended with {}:\n{}", self.name(), describe(status), self.log_tail(30))
            }
        }
    }

    /// Sends a signal to the whole group. A process that has already ended is not an error.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let mut child = self.child();
        if child.try_wait().with_context(|| format!("failed to look at {}", self.recipe.name))?.is_some() {
            return Ok(());
        }
        send(&child, signal).with_context(|| format!("failed to signal {}", self.recipe.name))
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&self) {
        end(&mut self.child());
    }

    /// SIGSTOP: it stays, holds its connections and answers nothing.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT after [`Process::pause`].
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills it if it still runs and starts it again with the same arguments; the log goes on.
    pub fn restart(&self) -> Result<()> {
        let mut child = self.child();
        end(&mut child);
        *child = spawn(&self.recipe)?;
        Ok(())
    }

    /// Returns the recipe by which it was started.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// As [`Process::restart`], with one more argument for this time.
    pub fn restart_with(&self, arg: &str) -> Result<()> {
        let mut recipe = self.recipe.clone();
        recipe.args.push(arg.to_owned());
        let mut child = self.child();
        end(&mut child);
        *child = spawn(&recipe)?;
        Ok(())
    }

    /// As [`Process::restart`], by another program for this time.
    pub fn restart_as(&self, program: &Path) -> Result<()> {
        let recipe = Recipe { program: program.to_owned(), ..self.recipe.clone() };
        let mut child = self.child();
        end(&mut child);
        *child = spawn(&recipe)?;
        Ok(())
    }

    /// As [`wait::until`], and an error at once when it has ended.
    pub async fn until<T>(
        &self,
        what: &str,
        deadline: Duration,
        mut probe: impl AsyncFnMut() -> Result<T>,
    ) -> Result<T> {
        wait::until(what, deadline, async || match self.check_running() {
            Ok(()) => probe().await.map(Ok),
            // A dead program ends the wait through its own message in the result.
            Err(ended) => Ok(Err(ended)),
        })
        .await?
    }

    /// Waits for it to end by itself; an error contains the end of its log.
    pub async fn wait_exit(&self, deadline: Duration) -> Result<ExitStatus> {
        wait::until(&format!("{} ends", self.name()), deadline, async || {
            self.exit_status().with_context(|| format!("it still runs:\n{}", self.log_tail(15)))
        })
        .await
    }

    /// Everything it has printed so far; empty when the log cannot be read.
    pub fn log(&self) -> String {
        read(&self.recipe.log)
    }

    /// The last `n_lines` lines of its log, each cut to 400 characters.
    pub fn log_tail(&self, n_lines: usize) -> String {
        tail(self.name(), &self.recipe.log, n_lines)
    }

    /// CPU time used so far in seconds, user and system, of all its threads. Errors when it has ended.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.pid());
        let stat = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
        // The second field is the name in brackets, which may itself hold spaces and brackets.
        let after_name = stat.rsplit_once(')').context("no command name in stat")?.1;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks = |index: usize| -> Result<f64> { Ok(fields.get(index).context("short stat")?.parse()?) };
        let ticks_per_second = u32::try_from(rustix::param::clock_ticks_per_second())?;
        Ok((ticks(11)? + ticks(12)?) / f64::from(ticks_per_second))
    }

    /// The largest resident memory so far in bytes. Errors when it has ended.
    pub fn peak_memory_bytes(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.pid());
        let status = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }

    /// From now on [`Process::peak_memory_bytes`] is the peak since this call. Errors when it has ended.
    pub fn forget_peak_memory(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.pid());
        fs::write(&path, "5").with_context(|| format!("failed to write {path}"))
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a log, each cut to 400 characters and with `name` before it.
pub(crate) fn tail(name: &str, log: &Path, n_lines: usize) -> String {
    let text = read(log);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(n_lines);
    let cut = lines[from..].iter().map(|line| line.chars().take(400).collect::<String>());
    cut.map(|line| format!("  {name}| {line}\n")).collect()
}

fn read(log: &Path) -> String {
    fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// "exit code 1" or "signal 9", for messages.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

fn spawn(recipe: &Recipe) -> Result<Child> {
    let open = || -> Result<File> {
        let file = OpenOptions::new().create(true).append(true).open(&recipe.log);
        file.with_context(|| format!("failed to open {}", recipe.log.display()))
    };
    let mut command = Command::new(&recipe.program);
    command
        .args(&recipe.args)
        .envs(recipe.env.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(open()?)
        .stderr(open()?);
    let child = spawn_once_free(&mut command)
        .with_context(|| format!("failed to start {}", recipe.program.display()))?;
    reaper::watch(child.id())?;
    Ok(child)
}

/// Starts a program that may have been written a moment ago: it is busy until the children that other threads forked
/// meanwhile have become programs of their own, some milliseconds.
fn spawn_once_free(command: &mut Command) -> io::Result<Child> {
    const TRIES: u32 = 100;
    for _ in 1..TRIES {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(20));
            }
            ended => return ended,
        }
    }
    command.spawn()
}

fn end(child: &mut Child) {
    let group = child.id();
    if let Ok(None) = child.try_wait() {
        // It may have ended in between; the wait below is right either way.
        let _ = send(child, Signal::KILL);
        let _ = child.wait();
    }
    reaper::forget(group);
}

fn send(child: &Child, signal: Signal) -> Result<()> {
    let raw = i32::try_from(child.id()).context("process id out of range")?;
    let group = Pid::from_raw(raw).context("process id is zero")?;
    Ok(kill_process_group(group, signal)?)
}
