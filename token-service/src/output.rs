//! Standard output and standard error. A slow or stalled reader never blocks the service.
//!
//! Lines wait in a bounded queue for a thread of their own. If the queue is full, lines are dropped and counted. The
//! queue is our own because `tracing-appender` prints to standard output when it ends: with a stalled reader the
//! process would not end.

use std::io::{self, Write};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

/// Maximum number of waiting lines.
const QUEUE: usize = 2048;

static STANDARD_OUTPUT: LazyLock<Lines> = LazyLock::new(|| Lines::to("stdout", io::stdout()));

static STANDARD_ERROR: LazyLock<Lines> = LazyLock::new(|| Lines::to("stderr", io::stderr()));

/// Standard output: the audit log.
#[must_use]
pub fn standard_output() -> &'static Lines {
    &STANDARD_OUTPUT
}

/// Standard error: the log.
#[must_use]
pub fn standard_error() -> &'static Lines {
    &STANDARD_ERROR
}

enum Message {
    Line(Vec<u8>),
    /// Reports that all earlier lines are written.
    Done(SyncSender<()>),
}

/// A queue of lines for a stream.
#[derive(Debug)]
pub struct Lines {
    queue: SyncSender<Message>,
    dropped: Counter,
}

impl Lines {
    fn to(name: &str, stream: impl Write + Send + 'static) -> Self {
        let (queue, messages) = sync_channel(QUEUE);
        // If the thread cannot start, the queue has no receiver and every line counts as dropped.
        let thread = thread::Builder::new().name(name.to_owned());
        let _ = thread.spawn(move || write(&messages, stream));
        Self {
            queue,
            dropped: Counter::default(),
        }
    }

    /// Queues a line, which must include the line end. Never waits.
    pub fn write(&self, line: Vec<u8>) {
        if self.queue.try_send(Message::Line(line)).is_err() {
            self.dropped.inc();
        }
    }

    /// Number of dropped lines.
    #[must_use]
    pub const fn dropped(&self) -> &Counter {
        &self.dropped
    }

    /// Waits until all queued lines are written, at most `within`.
    pub fn finish(&self, within: Duration) {
        let queue = self.queue.clone();
        let (done, written) = sync_channel(1);
        // A full queue accepts the message when the reader continues; only the new thread waits for that.
        let sending = thread::Builder::new().spawn(move || queue.send(Message::Done(done)));
        if sending.is_ok() {
            // Returns when all lines are written or the time is over.
            let _ = written.recv_timeout(within);
        }
    }

    /// A stream into the queue. Each write is one line.
    #[must_use]
    pub const fn stream(&'static self) -> LineStream {
        LineStream(self)
    }
}

/// See [`Lines::stream`].
#[derive(Debug, Clone, Copy)]
pub struct LineStream(&'static Lines);

impl Write for LineStream {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(messages: &Receiver<Message>, mut stream: impl Write) {
    while let Ok(message) = messages.recv() {
        // Errors are ignored, because the reader may be gone.
        match message {
            Message::Line(line) => drop(stream.write_all(&line)),
            Message::Done(done) => {
                drop(stream.flush());
                let _ = done.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// The pipe holds some hundred lines and the queue holds the next lines. All others are dropped, and no caller
    /// waits.
    #[test]
    fn a_pipe_that_nobody_reads_holds_nobody_up() {
        let (mut reader, writer) = io::pipe().unwrap();
        let lines = Lines::to("test", writer);
        let count = 4 * QUEUE;
        for number in 0..count {
            lines.write(format!("{number:>99}\n").into_bytes());
        }
        assert!(lines.dropped().get() > 0);
        lines.finish(Duration::ZERO);
        let dropped = usize::try_from(lines.dropped().get()).unwrap();
        let written = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text.lines().count()
        });
        lines.finish(Duration::from_secs(60));
        drop(lines);
        assert_eq!(written.join().unwrap(), count - dropped);
    }
}
