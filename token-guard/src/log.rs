//! The log, on standard error. A reader that stalls never holds a worker up: lines wait in a bounded queue for a thread of
//! their own, and what finds the queue full is dropped.

use std::io::{self, IsTerminal as _, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::Context as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use crate::settings::LogFormat;

/// Read for the log's filter, such as `debug`.
const VARIABLE: &str = "TOKEN_GUARD_LOG";

/// The server's own notes of each worker's start are of no use to operators.
const DEFAULT: &str = "info,actix_server=warn";

/// Lines that wait at most.
const QUEUE: usize = 2048;

/// Time that the last lines may take to be read.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    /// Says that all before it is written.
    Done(SyncSender<()>),
}

/// The log, until [`Log::finish`].
#[derive(Debug)]
pub(crate) struct Log(SyncSender<Message>);

impl Log {
    /// Starts it.
    ///
    /// # Errors
    /// When the variable holds no filter.
    pub(crate) fn start(format: LogFormat) -> anyhow::Result<Self> {
        let directives = std::env::var(VARIABLE).unwrap_or_else(|_| DEFAULT.to_owned());
        let filter = EnvFilter::try_new(directives).context(VARIABLE)?;
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
        // The one of the standard library writes to standard error itself, and waits for its reader.
        std::panic::set_hook(Box::new(
            |panic| tracing::error!(%panic, "a thread panicked"),
        ));
        Ok(Self(queue))
    }

    /// Waits a moment for the last lines to be written.
    pub(crate) fn finish(self) {
        let (done, written) = sync_channel(1);
        // A queue that is full now belongs to a reader that has stalled.
        if self.0.try_send(Message::Done(done)).is_ok() {
            // Written, or too late.
            let _ = written.recv_timeout(LAST_LINES_WITHIN);
        }
    }
}

/// Takes lines, whole ones, and never waits.
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
            // Nobody could be told of an error here.
            Message::Line(line) => drop(stream.write_all(&line)),
            Message::Done(done) => drop(done.send(())),
        }
    }
}
