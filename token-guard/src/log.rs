//! The log, on standard error. A slow reader never blocks a worker: lines wait in a bounded queue for their own
//! thread, and lines that find the queue full are dropped.

use std::io::{self, IsTerminal as _, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::Context as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use crate::settings::LogFormat;

/// Environment variable with the log's filter, such as `debug`.
const VARIABLE: &str = "TOKEN_GUARD_LOG";

/// Operators do not need the server's own messages about the start of each worker.
const DEFAULT: &str = "info,actix_server=warn";

/// Target of the error that ends the process. The log has it whatever its level.
const FATAL: &str = "token_guard";

/// Most lines that wait.
const QUEUE: usize = 2048;

/// Longest wait at the end for the last lines to be written.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    /// Asks for a signal when all earlier lines are written.
    Done(SyncSender<()>),
}

#[derive(Debug)]
pub(crate) struct Log(SyncSender<Message>);

impl Log {
    /// Starts the log. Also returns the problem of the environment variable if it does not contain a valid filter; the
    /// log then has its default level.
    ///
    /// # Errors
    /// The thread of the log cannot be started.
    pub(crate) fn start(format: LogFormat) -> anyhow::Result<(Self, anyhow::Result<()>)> {
        let directives = std::env::var(VARIABLE).unwrap_or_else(|_| DEFAULT.to_owned());
        let (levels, level) = match EnvFilter::try_new(directives).context(VARIABLE) {
            Ok(levels) => (levels, Ok(())),
            Err(error) => (EnvFilter::new(DEFAULT), Err(error)),
        };
        let is_fatal = filter_fn(|metadata| {
            metadata.target() == FATAL && *metadata.level() == tracing::Level::ERROR
        });
        let filter = levels.or(is_fatal.with_max_level_hint(LevelFilter::ERROR));
        let (queue, messages) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("log".to_owned());
        thread.spawn(move || write(&messages, io::stderr()))?;
        let lines = queue.clone();
        let log = fmt::layer()
            .with_writer(move || Lines(lines.clone()))
            .with_ansi(io::stderr().is_terminal());
        let log = match format {
            LogFormat::Text => log.boxed(),
            LogFormat::Json => log.json().flatten_event(true).boxed(),
        };
        tracing_subscriber::registry()
            .with(log.with_filter(filter))
            .try_init()
            .context("the log cannot be started")?;
        // The standard library's hook writes to standard error directly, and would block on a slow reader.
        std::panic::set_hook(Box::new(
            |panic| tracing::error!(%panic, "a thread panicked"),
        ));
        Ok((Self(queue), level))
    }

    /// Waits up to [`LAST_LINES_WITHIN`] for the last lines to be written.
    pub(crate) fn finish(self) {
        let (done, written) = sync_channel(1);
        // If the queue is full now, the reader is blocked.
        if self.0.try_send(Message::Done(done)).is_ok() {
            // After a timeout, the last lines are lost.
            let _ = written.recv_timeout(LAST_LINES_WITHIN);
        }
    }
}

/// Logs why the process ends.
pub(crate) fn fatal(problem: &str) {
    tracing::error!(target: FATAL, "{problem}");
}

/// Queues whole lines without waiting.
struct Lines(SyncSender<Message>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.0.try_send(Message::Line(line.to_vec()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(messages: &Receiver<Message>, mut stream: impl Write) {
    for message in messages {
        match message {
            // There is no place to report an error.
            Message::Line(line) => drop(stream.write_all(&line)),
            Message::Done(done) => drop(done.send(())),
        }
    }
}
