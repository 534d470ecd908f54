//! Runs the program as operators do, and load at the same time.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tests::Pair;

/// The output and the exit code of a command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Outcome {
    /// The output of a command that succeeded.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "{}", self.errors);
        self.output
    }

    /// The errors of a command that ended with `code`.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.output, self.errors);
        self.errors
    }
}

/// By which the program finds the service of `pair`.
pub(super) fn environment(pair: &Pair, state: &Path) -> [(&'static str, String); 2] {
    let token = state.join("admin-token").display().to_string();
    [
        ("TOKEN_SERVICE_ADMIN_URL", pair.internal_url()),
        ("TOKEN_SERVICE_ADMIN_TOKEN_FILE", token),
    ]
}

/// Runs the program for the service of `pair`.
pub(super) fn run(pair: &Pair, state: &Path, arguments: &[&str], input: &str) -> Outcome {
    let mut child = Command::new(&pair.artifacts().token_service)
        .args(arguments)
        .envs(environment(pair, state))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        output: text(output.stdout),
        errors: text(output.stderr),
    }
}

/// Writes a program. A child process writes the file, because a process that another thread starts would inherit this process's
/// descriptor until its own `exec`, and the kernel does not run a file that is open for writing (ETXTBSY).
pub(crate) fn install(path: &Path, program: impl AsRef<[u8]>) {
    let mut child = Command::new("install")
        .args(["--mode=755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(program.as_ref()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Clients that repeat a request until they are stopped.
pub(crate) struct Load {
    over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<usize>>,
}

impl Load {
    /// Starts `clients` threads. `request` panics if a response is wrong.
    pub(crate) fn start(clients: usize, request: impl Fn() + Clone + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let client = |_| {
            let (over, request) = (Arc::clone(&over), request.clone());
            std::thread::spawn(move || {
                let mut done = 0;
                while !over.load(Ordering::Relaxed) {
                    request();
                    done += 1;
                }
                done
            })
        };
        let clients = (0..clients).map(client).collect();
        Self { over, clients }
    }

    /// Stops the clients and returns the number of requests. Panics if a response was wrong.
    pub(crate) fn stop(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum()
    }
}
