//! One configuration of the filter: the drivers of the main thread and of the workers, fetches, and requests.

mod answers;
mod calls;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use guard::answers::Answer;
use guard::config::Config;
use guard::denial_log::Denied;
use guard::driver::{Driver, End, Held, SOON, Task};
use guard::fetch::Fetch;
use guard::parts::Parts;
use guard::verdict::Denial;
use guard::{Effect, Guard};
use guard_native::{Clocks, ProcessData};
use keys::failures::Severity;
use keys_native::NativeSignatures;

use crate::abi::{self, EnvoyConfig, Level, MainThread, Resumer};
use crate::metrics::Metrics;
use crate::stream::{Room, Stream};
use crate::timer::Timer;
use answers::finish;
pub(crate) use answers::refusal;
use calls::call;

/// What all configurations of this process share: who reads a feed, and what a new configuration takes over from the one that
/// it replaces.
static DATA: LazyLock<ProcessData> = LazyLock::new(ProcessData::default);

/// Time until state that a panic may have damaged is rebuilt.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// The place of the main thread's driver. It reads the feeds and gets no requests.
const MAIN: usize = 0;

/// One configuration of the filter.
pub(crate) struct Gate {
    envoy: &'static EnvoyConfig,
    text: Vec<u8>,
    /// The drivers of the main thread and of the workers. Only the main thread locks two of them at once.
    members: Vec<Mutex<Member>>,
    /// The running fetches, by the number of the call, with the members that sent them.
    fetches: Mutex<HashMap<u64, (usize, Fetch)>>,
    /// Fetches that have ended since the last tick.
    ended: Mutex<Vec<Ended>>,
    metrics: Metrics,
    panics: AtomicU64,
    /// For tests: the next tick panics.
    #[cfg(debug_assertions)]
    panics_next: std::sync::atomic::AtomicBool,
    /// `None` if Envoy only checks the configuration.
    timer: Option<Timer>,
}

/// What becomes of a request. The caller answers it: Envoy may call the filter again meanwhile.
pub(crate) enum Reply {
    Pass,
    /// Waits, under this number.
    Hold(u32),
    Answer(Answer),
}

/// A fetch that has ended: the number of the call, and the response, if there was one.
struct Ended {
    call: u64,
    status: Option<Vec<u8>>,
    body: Vec<u8>,
}

/// The driver of one thread.
struct Member {
    driver: Driver,
    waiting: HashMap<u32, Parked>,
    /// The number that a request got last.
    numbered: u32,
}

/// A request that waits.
struct Parked {
    resumer: Resumer,
    decided: Option<(Effect, Held)>,
}

impl Member {
    fn new(driver: Driver) -> Self {
        Self {
            driver,
            waiting: HashMap::new(),
            numbered: 0,
        }
    }

    fn gone(&mut self, number: u32) {
        self.waiting.remove(&number);
        self.driver.gone(number);
    }
}

/// Reads the configuration.
///
/// # Errors
/// Everything that is wrong with it.
fn first_driver(text: &[u8]) -> Result<Driver, Vec<String>> {
    let config = Config::parse(text, &NativeSignatures)?;
    for warning in config.rules.warnings() {
        abi::log(Level::Warn, &format!("configuration: {warning}"));
    }
    let guard = Guard::new(config)
        .with_host(Box::new(NativeSignatures))
        .with_shared_data(Box::new(DATA.clone()));
    Ok(Driver::new(guard, &Clocks))
}

fn sibling_of(first: &Driver) -> Driver {
    let data = Box::new(DATA.clone());
    first.sibling(Box::new(NativeSignatures), data, &Clocks)
}

impl Gate {
    /// Starts with this configuration. `None` if it is invalid; the log then has the reasons.
    pub(crate) fn configure(envoy: &'static EnvoyConfig, text: &[u8]) -> Option<Self> {
        let first = match first_driver(text) {
            Ok(first) => first,
            Err(problems) => {
                for problem in &problems {
                    abi::log(Level::Critical, &format!("configuration: {problem}"));
                }
                return None;
            }
        };
        let workers = abi::workers();
        let mut members: Vec<_> = (0..workers)
            .map(|_| Mutex::new(Member::new(sibling_of(&first))))
            .collect();
        members.insert(MAIN, Mutex::new(Member::new(first)));
        let timer = match abi::only_checks() {
            true => None,
            false => match Timer::start(MainThread::of(envoy)) {
                Ok(timer) => Some(timer),
                Err(error) => {
                    abi::log(
                        Level::Critical,
                        &format!("no thread for the timer: {error}"),
                    );
                    return None;
                }
            },
        };
        Some(Self {
            metrics: Metrics::define(envoy, workers),
            text: text.to_vec(),
            members,
            fetches: Mutex::default(),
            ended: Mutex::default(),
            panics: AtomicU64::default(),
            #[cfg(debug_assertions)]
            panics_next: std::sync::atomic::AtomicBool::default(),
            timer,
            envoy,
        })
    }

    /// A member that no panic has damaged.
    fn member(&self, index: usize) -> Option<MutexGuard<'_, Member>> {
        let member = self.members.get(index)?.lock().ok()?;
        (!member.driver.is_damaged()).then_some(member)
    }

    fn set_timer(&self, period: Duration) {
        if let Some(timer) = &self.timer {
            timer.set(period);
        }
    }

    // ---- on the main thread ----------------------------------------------------------------------------

    /// Starts due fetches, resumes requests that have waited, and publishes metrics.
    pub(crate) fn tick(&self) {
        if let Some(timer) = &self.timer {
            timer.has_called();
        }
        self.set_timer(AFTER_PANIC);
        self.mend();
        #[cfg(debug_assertions)]
        if self.panics_next.swap(false, Ordering::Relaxed) {
            let _main = self.member(MAIN);
            self.panic_for(b"here");
        }
        let ended = std::mem::take(&mut *self.ended());
        for fetch in ended {
            self.take(fetch);
        }
        // The main thread's driver is the first, so that it fetches what all need.
        for index in 0..self.members.len() {
            if let Some(mut member) = self.member(index) {
                member.driver.tick(&Clocks);
            }
            self.work(index);
        }
        self.publish();
        let ticks = (0..self.members.len())
            .filter_map(|index| Some(self.member(index)?.driver.next_tick()));
        if let Some(period) = ticks.min() {
            self.set_timer(period);
        }
    }

    fn publish(&self) {
        let Some(mut values) = self.member(MAIN).map(|mut member| member.driver.metrics()) else {
            return;
        };
        for index in MAIN + 1..self.members.len() {
            if let Some(mut member) = self.member(index) {
                values.add_sibling(&member.driver.metrics());
            }
        }
        let panics = self.panics.swap(0, Ordering::Relaxed);
        self.metrics.publish(self.envoy, &values, panics);
    }

    /// Rebuilds what a panic may have damaged. The requests that waited there are refused.
    fn mend(&self) {
        let is_damaged = |index: usize| self.member(index).is_none();
        // The others share the feeds with the main thread's driver, the only one that reads them.
        let all = is_damaged(MAIN);
        let damaged: Vec<usize> = (0..self.members.len())
            .filter(|index| all || is_damaged(*index))
            .collect();
        for index in damaged {
            let Some(lock) = self.members.get(index) else {
                continue;
            };
            let new = match index {
                MAIN => match first_driver(&self.text) {
                    Ok(driver) => driver,
                    Err(_) => continue,
                },
                _ => match self.member(MAIN) {
                    Some(main) => sibling_of(&main.driver),
                    None => continue,
                },
            };
            // Its questions have numbers that the new one uses again.
            self.fetches().retain(|_, (sender, _)| *sender != index);
            let mut member = lock.lock().unwrap_or_else(PoisonError::into_inner);
            let old = std::mem::replace(&mut *member, Member::new(new));
            member.numbered = old.numbered;
            for (number, waiting) in old.waiting {
                waiting.resumer.resume();
                let decided = None;
                member.waiting.insert(number, Parked { decided, ..waiting });
            }
            lock.clear_poison();
            abi::log(Level::Warn, "started again after a panic");
        }
    }

    /// Keeps the end of a fetch for the next tick. Envoy may be about to end the configuration, so this sends no fetch and resumes
    /// no request, and [`end`](Self::end) on another thread waits for the lock.
    pub(crate) fn fetched(&self, call: u64, status: Option<&[u8]>, body: Vec<u8>) {
        let status = status.map(<[u8]>::to_vec);
        let mut ended = self.ended();
        ended.push(Ended { call, status, body });
        self.set_timer(Duration::ZERO);
    }

    fn ended(&self) -> MutexGuard<'_, Vec<Ended>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the end of a fetch to the driver that wanted it, and to the others.
    fn take(
        &self,
        Ended {
            call,
            status,
            mut body,
        }: Ended,
    ) {
        let fetch = self.fetches().remove(&call);
        let Some((index, fetch)) = fetch else {
            return;
        };
        // One byte more than allowed says that a body is too long.
        body.truncate(fetch.kind.longest_answer() + 1);
        let result = fetch.result(status.as_deref(), body);
        self.settle(index, &fetch, |driver| {
            driver.fetched(&fetch, result, &Clocks)
        });
    }

    /// Ends a fetch at the driver that wanted it, and then at the others.
    fn settle(&self, index: usize, fetch: &Fetch, end: impl FnOnce(&mut Driver) -> End) {
        if let Some(mut member) = self.member(index) {
            let end = end(&mut member.driver);
            self.tell_others(
                index,
                &member.driver,
                |other, sender| other.adopts(fetch, end, sender, &Clocks),
                fetch,
            );
        }
    }

    /// What an introspection finds is only for its driver.
    fn tell_others(
        &self,
        index: usize,
        sender: &Driver,
        tell: impl Fn(&mut Driver, &Driver),
        fetch: &Fetch,
    ) {
        if fetch.form.is_some() {
            return;
        }
        for other in (0..self.members.len()).filter(|other| *other != index) {
            if let Some(mut member) = self.member(other) {
                tell(&mut member.driver, sender);
            }
        }
    }

    fn fetches(&self) -> MutexGuard<'_, HashMap<u64, (usize, Fetch)>> {
        self.fetches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a driver wants done now.
    fn work(&self, index: usize) {
        loop {
            let Some(mut member) = self.member(index) else {
                return;
            };
            match member.driver.next_task() {
                None => return,
                Some(Task::Log(remark)) => {
                    let level = match remark.severity {
                        Severity::Info => Level::Info,
                        Severity::Warning => Level::Warn,
                        Severity::Error => Level::Error,
                    };
                    abi::log(level, &remark.to_string());
                }
                Some(Task::Send(fetch)) => {
                    self.tell_others(
                        index,
                        &member.driver,
                        |other, sender| other.joins(&fetch, sender),
                        &fetch,
                    );
                    // Released, because Envoy may end the call before it returns.
                    drop(member);
                    self.send(index, fetch);
                }
                Some(Task::Answer {
                    id,
                    effect,
                    request,
                }) => {
                    if let Some(waiting) = member.waiting.get_mut(&id) {
                        waiting.decided = Some((effect, request));
                        waiting.resumer.resume();
                    }
                }
            }
        }
    }

    fn send(&self, index: usize, fetch: Fetch) {
        if let Some(call) = call(self.envoy, &fetch) {
            self.fetches().insert(call, (index, fetch));
            return;
        }
        let why = "the gateway knows no such cluster, or is not ready";
        self.settle(index, &fetch, |driver| driver.not_sent(&fetch, why));
    }

    // ---- on a worker -----------------------------------------------------------------------------------

    /// Decides about a request when its headers have arrived.
    pub(crate) fn decide(&self, mut stream: Stream<'_>, worker: usize) -> Reply {
        let index = MAIN + 1 + worker;
        let Some(mut guarded) = self.member(index) else {
            return Reply::Answer(refusal());
        };
        let member = &mut *guarded;
        let mut room = Room::new();
        let Some(headers) = stream.headers(&mut room) else {
            let refusal = member.driver.guard().refusal(Denial::Host, None);
            return finish(guarded, stream, refusal, &Denied::default());
        };
        let mut parts = Parts::default();
        let mut stripped = Vec::new();
        for header in headers {
            let (name, value) = (header.name.bytes(), header.value.bytes());
            parts.note(name, value);
            if member.driver.guard().strips(name) {
                stripped.push(name.to_vec());
            }
        }
        #[cfg(debug_assertions)]
        for header in headers
            .iter()
            .filter(|header| header.name.bytes() == b"x-panic")
        {
            self.panic_for(header.value.bytes());
        }
        member.driver.keep_time(&Clocks);
        member.numbered = member.numbered.wrapping_add(1);
        let number = member.numbered;
        let denied = parts.as_denied();
        let effect = member
            .driver
            .arrived(number, parts.as_request(&stream), &denied, &Clocks);
        // The headers are Envoy's until the first change. The log needs some of them, if the request is refused.
        let is_denied = effect
            .as_ref()
            .is_some_and(|effect| effect.denial.is_some());
        let told = is_denied.then(|| Held::from(&denied));
        // Headers that only the filter may set are removed before the request goes anywhere (RFC 9700 §4.13).
        let is_stripped = stripped.iter().all(|name| stream.remove_header(name));
        let denied = told.as_ref().map(Held::as_denied).unwrap_or_default();
        if !is_stripped {
            member.driver.gone(number);
            let refusal = member.driver.guard().refusal(Denial::Host, None);
            return finish(guarded, stream, refusal, &denied);
        }
        if let Some(effect) = effect {
            return finish(guarded, stream, effect, &denied);
        }
        let resumer = stream.resumer();
        let decided = None;
        member.waiting.insert(number, Parked { resumer, decided });
        drop(guarded);
        stream.choose_route();
        // The main thread starts the fetch.
        self.set_timer(SOON);
        Reply::Hold(number)
    }

    /// Decides about a request that has waited.
    pub(crate) fn resume(&self, stream: Stream<'_>, worker: usize, number: u32) -> Reply {
        let Some(mut member) = self.member(MAIN + 1 + worker) else {
            return Reply::Answer(refusal());
        };
        let decided = member
            .waiting
            .remove(&number)
            .and_then(|waiting| waiting.decided);
        match decided {
            Some((effect, request)) => finish(member, stream, effect, &request.as_denied()),
            None => Reply::Answer(refusal()),
        }
    }

    /// Forgets a request that ended while it waited.
    pub(crate) fn forget(&self, worker: usize, number: u32) {
        if let Some(lock) = self.members.get(MAIN + 1 + worker) {
            let mut member = lock.lock().unwrap_or_else(PoisonError::into_inner);
            member.gone(number);
        }
    }

    /// Ends the configuration, on any thread: another configuration may read the feeds at once.
    pub(crate) fn end(&self) {
        // The main thread may be about to leave a call about this configuration.
        drop(self.ended());
        if let Some(mut main) = self.member(MAIN) {
            main.driver.end();
        }
    }

    /// For the tests of what follows a panic: here, or on the main thread.
    #[cfg(debug_assertions)]
    #[expect(clippy::panic, reason = "a test asked for it")]
    fn panic_for(&self, place: &[u8]) {
        if place == b"main" {
            self.panics_next.store(true, Ordering::Relaxed);
            self.set_timer(SOON);
        } else {
            panic!("a header asked for it");
        }
    }

    /// A panic was caught.
    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.set_timer(AFTER_PANIC);
    }
}
