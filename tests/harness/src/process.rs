//! Child processes that never outlive the harness.

use std::fs::File;
use std::io::{PipeReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use command_fds::{CommandFdExt as _, FdMapping};

use crate::log::Log;

/// Longest time until a process is ready: a debug build on a busy machine with two cores.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the command `"$@"` until standard input ends. Standard input ends however the harness ends: by a return, a panic or
/// a signal. A line on standard input names the signal to send; the default is TERM. The guardian waits until its own sleep has
/// ended too: nothing is left.
const GUARDIAN: &str = r#"
exec 9<&0 </dev/null
"$@" 9<&- & child=$!
{
    read -r signal <&9
    kill -s "${signal:-TERM}" "$child"
    trap 'kill "$!"; exit' TERM
    sleep 20 & wait "$!"
    kill -s KILL "$child"
} & watch=$!
wait "$child"; status=$?
kill "$watch" 2>/dev/null
wait "$watch"
exit "$status"
"#;

/// Descriptor of the first passed socket (`SD_LISTEN_FDS_START`).
const FIRST_SOCKET: i32 = 3;

/// A running process. Dropping it stops the process and waits for its end; while a test fails, it also prints the output.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    guardian: Child,
    log: Log,
    /// The reading end of the output pipe, if nobody must read the output.
    _unread: Option<PipeReader>,
}

impl Process {
    /// Starts `command` and appends its output to `log`.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start(name: &'static str, command: &Command, log: &Path) -> Result<Self> {
        Self::start_with(name, command, log, &[])
    }

    /// Starts `command` with these sockets, as systemd passes the sockets of a socket unit (`sd_listen_fds(3)`). The process that is
    /// started does not know its id before, so `LISTEN_PID` is absent.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start_with(
        name: &'static str,
        command: &Command,
        log: &Path,
        sockets: &[TcpListener],
    ) -> Result<Self> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        Self::spawn(
            name,
            command,
            log,
            [output.try_clone()?.into(), output.into()],
            None,
            sockets,
        )
    }

    /// Starts `command` with its output in a pipe that nobody reads. `log` stays unchanged.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start_unread(name: &'static str, command: &Command, log: &Path) -> Result<Self> {
        let (unread, output) = std::io::pipe()?;
        let outputs = [output.try_clone()?.into(), output.into()];
        Self::spawn(name, command, log, outputs, Some(unread), &[])
    }

    fn spawn(
        name: &'static str,
        command: &Command,
        log: &Path,
        [output, errors]: [Stdio; 2],
        unread: Option<PipeReader>,
        sockets: &[TcpListener],
    ) -> Result<Self> {
        let mut guardian = Command::new("sh");
        guardian
            .args(["-c", GUARDIAN, name])
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            // Only the harness gets Ctrl-C. It then stops its processes in order.
            .process_group(0);
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => guardian.env(key, value),
                None => guardian.env_remove(key),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            guardian.current_dir(directory);
        }
        if !sockets.is_empty() {
            let mut mappings = Vec::new();
            for (socket, child_fd) in sockets.iter().zip(FIRST_SOCKET..) {
                let parent_fd = socket.try_clone()?.into();
                mappings.push(FdMapping {
                    parent_fd,
                    child_fd,
                });
            }
            guardian
                .env("LISTEN_FDS", sockets.len().to_string())
                .fd_mappings(mappings)?;
        }
        Ok(Self {
            name,
            guardian: guardian.spawn().context("cannot start sh")?,
            log: Log::of([log.to_owned()]),
            _unread: unread,
        })
    }

    /// Waits until `ready`.
    ///
    /// # Errors
    /// When the process ends first or takes too long; with its log.
    pub fn until(&mut self, what: &str, mut ready: impl FnMut() -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready() {
            if !self.is_running()? {
                bail!(
                    "{} ended before it was {what}:\n{}",
                    self.name,
                    self.log.text()
                );
            }
            if start.elapsed() > PATIENCE {
                bail!(
                    "{} was not {what} in {PATIENCE:?}:\n{}",
                    self.name,
                    self.log.text()
                );
            }
            pace();
        }
        Ok(())
    }

    /// Waits until the process takes connections at this port.
    ///
    /// # Errors
    /// Like [`Self::until`].
    pub fn until_listening(&mut self, port: u16) -> Result<()> {
        self.until("listening", || listens(port))
    }

    /// True if the process still runs.
    ///
    /// # Errors
    /// If the operating system returns an error.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.guardian.try_wait()?.is_none())
    }

    /// The id of the process itself: the guardian's first child.
    ///
    /// # Errors
    /// If the operating system returns an error.
    pub fn pid(&self) -> Result<u32> {
        let guardian = self.guardian.id();
        let children = format!("/proc/{guardian}/task/{guardian}/children");
        let children = std::fs::read_to_string(&children).context(children)?;
        let first = children.split(' ').next().unwrap_or_default();
        first.parse().context("the guardian has no child")
    }

    /// Ends the process with SIGKILL, as a crash would.
    ///
    /// # Errors
    /// If the operating system returns an error.
    pub fn kill(mut self) -> Result<()> {
        if let Some(stdin) = &mut self.guardian.stdin {
            writeln!(stdin, "KILL")?;
        }
        Ok(())
    }

    /// What the process writes.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Stops the process with SIGTERM, waits for its end, and returns everything that it wrote.
    ///
    /// # Errors
    /// If the operating system returns an error.
    pub fn end(mut self) -> Result<String> {
        self.guardian.wait()?;
        Ok(self.log.text())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Closes its standard input, then waits.
        if let Err(error) = self.guardian.wait() {
            eprintln!("{} was lost: {error}", self.name);
        }
        if std::thread::panicking() {
            eprintln!("--- {} ---\n{}", self.name, self.log.text());
        }
    }
}

/// True if a program takes connections at this port of this machine.
#[must_use]
pub fn listens(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Pauses between two checks of a condition, so that waiting leaves the processor to the awaited work.
#[expect(
    clippy::disallowed_methods,
    reason = "the one pause of the harness, between two looks at a condition of another process"
)]
pub fn pace() {
    std::thread::sleep(Duration::from_millis(20));
}
