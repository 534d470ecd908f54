//! `make test-upgrade`: replicas of an earlier and of this version share a database, under load. A step back, and the
//! end of the upgrade. Both versions have the same layout. From the first version with another layout on, the earlier version
//! also refuses the store after the end, and `TokenServiceUpgradeUnfinished` fires before.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tests::browsing::agent;
use tests::load::{ExactlyOnce, NOTICE, Scope, World};
use tests::{Artifacts, Pair, Postgres, Series, pace};

use super::{ACCESS_TOKEN, Avoids, RESTARTED, print_failures, setup, until_the_gateway};
use crate::long_run::report_requests;
use crate::{load, long_run};

const REGISTRATIONS: &str = "TOKEN_SERVICE__REGISTRATIONS";

/// Pauses of an upgrade.
const STEPS: u32 = 6;

/// A build of the token service, with the configuration that it reads.
#[derive(Debug, Clone)]
struct Version {
    name: &'static str,
    token_service: PathBuf,
    config: PathBuf,
}

/// The registrations file of the demo of a version.
fn registrations(version: &Version) -> String {
    let file = version.config.with_file_name("registrations.toml");
    file.display().to_string()
}

/// Which of the two token services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    First,
    Second,
}

/// Runs the upgrade from the build in `earlier`, the folder that `earlier-version.sh` made. The steps take at least
/// `UPGRADE_SECONDS` (70) together. Returns true if all is well.
pub(crate) fn run(earlier: &Path) -> Result<bool> {
    let step = super::time("UPGRADE_SECONDS", 70)? / STEPS;
    let folder = tempfile::TempDir::new()?;
    let state = folder.path();
    let artifacts = Artifacts::find()?;
    let version = |name, token_service: PathBuf, repository: &Path| Version {
        name,
        token_service,
        config: repository.join("demo/config.toml"),
    };
    let earlier = version("earlier", earlier.join("token-service.program"), earlier);
    let this = version("this", artifacts.token_service, &artifacts.repository);
    let database = Postgres::start(&artifacts.repository)?;
    let mut settings = setup(state, database.url(), true)?;
    settings.token_service = Some(earlier.token_service.clone());
    settings.config = Some(earlier.config.clone());
    // What is in use lasts longer than the run. The people of the load are one user with a bounded number of sessions, of
    // which those that are not in use end first.
    for (key, lifetime) in [
        ("SESSION", "1h"),
        ("SESSION_IDLE", "1m"),
        ("REFRESH_TOKEN", "1h"),
    ] {
        let key = format!("TOKEN_SERVICE__LIFETIMES__{key}");
        settings.environment.push((key, lifetime.to_owned()));
    }
    let finish = || {
        let output = Command::new(&this.token_service)
            .args(["migrate", "--finish", "--config"])
            .arg(&this.config)
            .env("TOKEN_SERVICE__STORE__URL", database.url())
            .current_dir(&artifacts.repository)
            .output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        println!("token-service migrate --finish:\n{text}");
        ensure!(output.status.success() && text.contains("nothing to finish"));
        Ok(())
    };
    // Until the end of the upgrade, both versions read the registrations that the earlier version knows.
    let own = registrations(&earlier);
    settings.environment.push((REGISTRATIONS.to_owned(), own));
    let pair = Pair::start(settings)?;
    let world = long_run::world(&pair, state)?;
    let mut upgrade = Upgrade {
        pair,
        world,
        step,
        series: Series::of_rules(&artifacts.repository)?,
        alerts: Vec::new(),
    };
    let mut load = load::start(&upgrade.world, ACCESS_TOKEN)?;
    ExactlyOnce::of(&upgrade.world, NOTICE).start(&mut load);
    let outcome = upgrade.steps(&earlier, &this, finish);
    load.stop()?;
    outcome?;
    let mut all_well = report_requests(&upgrade.world.ledger, RESTARTED);
    if let Err(said) = upgrade.judge_alerts(state) {
        println!("The alerts are not as they should be: {said:#}");
        all_well = false;
    }
    if !all_well {
        print_failures(&upgrade.pair.end());
    }
    println!("{}", if all_well { "All is well." } else { "FAILED" });
    Ok(all_well)
}

struct Upgrade {
    pair: Pair,
    world: Arc<World>,
    step: Duration,
    /// A sample for each minute of an upgrade in which each step takes hours.
    series: Series,
    /// What fires at which moment.
    alerts: Vec<Value>,
}

/// Minutes, longer than the rule about replicas of two versions waits.
const LONG: usize = 65;

impl Upgrade {
    fn steps(
        &mut self,
        earlier: &Version,
        this: &Version,
        finish: impl Fn() -> Result<()>,
    ) -> Result<()> {
        self.pause()?;
        self.pass(LONG, None)?;
        self.replace(Which::Second, this)?;
        self.pass(LONG, Some("TokenServiceVersionsDiffer"))?;
        self.replace(Which::First, this)?;
        self.pass(LONG, None)?;
        // The step back.
        self.replace(Which::Second, earlier)?;
        self.replace(Which::Second, this)?;
        finish()?;
        // A restart after the end of the upgrade, with registrations that only this version knows.
        let own = registrations(this);
        self.pair.set_environment(REGISTRATIONS, &own);
        self.replace(Which::Second, this)
    }

    /// Replaces a token service by one of `version`, as the operator's page says. An orderly stop fails no request.
    fn replace(&mut self, which: Which, version: &Version) -> Result<()> {
        println!("{which:?} token service: {} version", version.name);
        until_the_gateway(&self.pair, Avoids::None)?;
        self.pair
            .set_version(&version.token_service, &version.config);
        match which {
            Which::Second => {
                self.pair.stop_replica();
                self.pair.start_replica()?;
            }
            Which::First => {
                let (pair, world) = (&mut self.pair, &self.world);
                world.ledger.during_outage(Scope::Administration, || {
                    pair.stop_token_service();
                    pair.start_token_service()
                })?;
            }
        }
        until_the_gateway(&self.pair, Avoids::None)?;
        self.pause()
    }

    /// Changes nothing for a step of the load.
    fn pause(&mut self) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < self.step {
            ensure!(self.pair.is_running()?, "a program has ended");
            pace();
        }
        Ok(())
    }

    /// Takes a sample, and lets so many minutes pass for the rules. Then `alert` fires, and no other about an upgrade.
    fn pass(&mut self, minutes: usize, alert: Option<&str>) -> Result<()> {
        let ports = self.pair.ports();
        let number = self.series.count();
        for port in [ports.internal, ports.internal_replica] {
            let service = format!("127.0.0.1:{port}");
            let metrics = agent(Duration::from_secs(3))
                .get(format!("http://{service}/metrics"))
                .call()?;
            let metrics = metrics.into_body().read_to_string()?;
            self.series
                .take("token-service", &service, number, Some(&metrics));
        }
        self.series.repeat(minutes - 1);
        let firing = r#"count by (alertname) (ALERTS{alertname=~"TokenService(VersionsDiffer|UpgradeUnfinished)", alertstate="firing"})"#;
        let samples: Vec<Value> = alert
            .map(|alert| json!({"labels": format!("{{alertname=\"{alert}\"}}"), "value": 1}))
            .into_iter()
            .collect();
        let last = self.series.count().checked_sub(1).context("no sample")?;
        self.alerts
            .push(json!({"expr": firing, "eval_time": format!("{last}m"), "exp_samples": samples}));
        Ok(())
    }

    /// Runs the alert rules over the metrics of the steps.
    fn judge_alerts(&self, folder: &Path) -> Result<()> {
        self.series.expect(folder, ("1m", 0), &json!(self.alerts))?;
        println!("The alert about versions fired and ended, and no other one about the upgrade.");
        Ok(())
    }
}
