//! Standard output and standard error. A slow or stalled reader never blocks the program.
//!
//! Lines wait in a bounded queue for their own thread. If the queue is full, lines are dropped and counted. The
//! queue is our own because `tracing-appender` prints to standard output when it ends: with a stalled reader the
//! process would not end.

use std::io::{self, Write};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of waiting lines: enough for 1.6 million lines per second at [`PACE`].
const QUEUE: usize = 8192;

/// Least time between two writes. On a busy service each write has all lines of that time, so that not every line wakes
/// the thread. A line after a quiet time does not wait.
const PACE: Duration = Duration::from_millis(5);

/// Maximum size of a write, in bytes, unless one line is longer. A pipe takes as much at once (`PIPE_BUF`), so lines stay
/// whole when standard output and standard error are the same pipe.
const CHUNK: usize = 4096;

static STANDARD_OUTPUT: LazyLock<Lines> = LazyLock::new(|| Lines::to("stdout", io::stdout()));

static STANDARD_ERROR: LazyLock<Lines> = LazyLock::new(|| Lines::to("stderr", io::stderr()));

/// Standard output: the audit log of the token service.
pub fn standard_output() -> &'static Lines {
    &STANDARD_OUTPUT
}

/// Standard error: the log.
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
    dropped: AtomicU64,
}

impl Lines {
    fn to(name: &str, stream: impl Write + Send + 'static) -> Self {
        let (queue, messages) = sync_channel(QUEUE);
        // If the thread cannot start, the queue has no receiver and every line counts as dropped.
        let thread = thread::Builder::new().name(name.to_owned());
        let _ = thread.spawn(move || write(&messages, stream));
        Self {
            queue,
            dropped: AtomicU64::new(0),
        }
    }

    /// Queues a line, which must include the line end. Never waits.
    pub fn write(&self, line: Vec<u8>) {
        if self.queue.try_send(Message::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of dropped lines.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
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

#[expect(
    clippy::disallowed_methods,
    reason = "the thread is only for this stream"
)]
fn write(messages: &Receiver<Message>, mut stream: impl Write) {
    let mut chunk = Vec::with_capacity(CHUNK);
    let mut next = Instant::now();
    while let Ok(first) = messages.recv() {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        // Errors are ignored, because the reader may be gone.
        for message in std::iter::once(first).chain(messages.try_iter().take(QUEUE)) {
            match message {
                Message::Line(line) => {
                    if chunk.len() + line.len() > CHUNK {
                        let _ = stream.write_all(&chunk);
                        chunk.clear();
                    }
                    chunk.extend_from_slice(&line);
                }
                Message::Done(done) => {
                    let _ = stream.write_all(&chunk);
                    chunk.clear();
                    let _ = stream.flush();
                    let _ = done.send(());
                }
            }
        }
        let _ = stream.write_all(&chunk);
        chunk.clear();
        next = Instant::now() + PACE;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::mpsc::Sender;

    use super::*;

    /// Reports each write, and stands still until the test lets it continue.
    struct Gated {
        writes: Sender<Vec<u8>>,
        gate: Receiver<()>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes.send(bytes.to_vec()).unwrap();
            // The gate stays open once the test has dropped its end.
            let _ = self.gate.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// While a write takes its time, lines gather.
    #[test]
    fn lines_that_have_gathered_are_written_together_and_stay_whole() {
        let (writes, written) = std::sync::mpsc::channel();
        let (open, gate) = std::sync::mpsc::channel();
        let lines = Lines::to("test", Gated { writes, gate });
        let text: Vec<Vec<u8>> = (0..200)
            .map(|number| format!("{number:>99}\n").into_bytes())
            .collect();
        for line in &text {
            lines.write(line.clone());
        }
        drop(open);
        drop(lines);
        let writes: Vec<Vec<u8>> = written.into_iter().collect();
        assert_eq!(writes.concat(), text.concat());
        assert!(writes.len() <= 7, "{}", writes.len());
        for write in &writes {
            assert!(write.len() <= CHUNK && write.ends_with(b"\n"));
        }
    }

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
        assert!(lines.dropped() > 0);
        lines.finish(Duration::ZERO);
        let dropped = usize::try_from(lines.dropped()).unwrap();
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
