//! Standard output and standard error, to which a slow or stalled reader never holds the service up.
//!
//! Lines wait in a bounded queue for a thread of their own; what finds the queue full is dropped and counted. A queue of our
//! own rather than `tracing-appender`, whose end prints to standard output: with a stalled reader the process would not end.

use std::io::{self, Write};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

/// Lines that wait at most.
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
    /// Says that all before it is written.
    Done(SyncSender<()>),
}

/// Lines on their way to a stream.
#[derive(Debug)]
pub struct Lines {
    queue: SyncSender<Message>,
    dropped: Counter,
}

impl Lines {
    fn to(name: &str, stream: impl Write + Send + 'static) -> Self {
        let (queue, messages) = sync_channel(QUEUE);
        // Without a thread the queue has no other end: every line counts as dropped.
        let thread = thread::Builder::new().name(name.to_owned());
        let _ = thread.spawn(move || write(&messages, stream));
        Self {
            queue,
            dropped: Counter::default(),
        }
    }

    /// Takes a line, with its end. Never waits.
    pub fn write(&self, line: Vec<u8>) {
        if self.queue.try_send(Message::Line(line)).is_err() {
            self.dropped.inc();
        }
    }

    /// Lines that were dropped.
    #[must_use]
    pub const fn dropped(&self) -> &Counter {
        &self.dropped
    }

    /// Waits until what was taken is written, no longer than `within`.
    pub fn finish(&self, within: Duration) {
        let queue = self.queue.clone();
        let (done, written) = sync_channel(1);
        // A full queue takes the message when the reader goes on; this thread does not wait for that.
        let sending = thread::Builder::new().spawn(move || queue.send(Message::Done(done)));
        if sending.is_ok() {
            // Written, or too late.
            let _ = written.recv_timeout(within);
        }
    }

    /// The lines as a stream: what is written at once is a line.
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
        // Nobody may listen at the other end any more.
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

    /// The pipe holds some hundred of the lines, the queue the next ones; all others are dropped, and nobody waits.
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
