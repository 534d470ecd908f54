//! Copies of a store with a million grants, from redb to PostgreSQL and back: time, and memory of the command.
//!
//! Run: `lab bench copy`. `SHORT=1` copies a few grants, to see that it works.
//! PostgreSQL runs on this machine, with durable commits.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::seed::{Size, seed};
use super::server::{Demo, Postgres, measured_build};
use crate::measure::{peak, row};
use crate::short;

/// Time between two looks at the command.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) async fn measure() {
    let grants = short::objects(1_000_000);
    let registered = (grants / 10).max(1);
    let seeded = Demo::on_redb();
    seed(&seeded, Size { registered, grants }).await;
    let Some(postgres) = Postgres::start() else {
        println!("PostgreSQL is not installed, and nothing is measured");
        return;
    };
    let back = format!("redb:{}", seeded.folder.path().join("back.redb").display());
    let database = postgres.database("copy");
    println!("{grants} grants of {registered} users at as many clients");
    for (what, from, to) in [
        ("redb to PostgreSQL", &seeded.store, &database),
        ("PostgreSQL to redb", &database, &back),
    ] {
        let (seconds, memory) = copy(from, to).await;
        row(what, &[seconds], "s", None);
        row(&format!("{what}: largest memory"), &[memory], "MiB", None);
    }
}

/// The time of a copy in seconds, and the largest resident memory in MiB.
async fn copy(from: &str, to: &str) -> (f64, f64) {
    let start = Instant::now();
    let mut command = Command::new(measured_build())
        .args(["copy", "--from", from, "--to", to])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (mut memory, mut clock) = (0.0, tokio::time::interval(LOOK));
    let status = loop {
        memory = peak(command.id()).max(memory);
        clock.tick().await;
        if let Some(status) = command.try_wait().unwrap() {
            break status;
        }
    };
    assert!(status.success());
    (start.elapsed().as_secs_f64(), memory)
}
