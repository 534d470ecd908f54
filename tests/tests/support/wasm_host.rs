//! A second proxy-wasm host: an interpreter with only the functions that the ABI requires. It has no foreign functions,
//! no properties and no shared data. The test controls time, ticks and responses to fetches.

mod functions;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicU8, Ordering};

use tests::{Artifacts, Form};
use wasmi::{
    Engine, ExternType, Instance, Linker, Module, Store, TypedFunc, Val, WasmParams, WasmResults,
};

/// Statuses of the ABI.
const NOT_FOUND: u32 = 1;
const INTERNAL_FAILURE: u32 = 10;
/// The root context of tests that need only one.
pub(crate) const ROOT: u32 = 1;
/// Another root context, with a number above all contexts of requests.
pub(crate) const OTHER_ROOT: u32 = 1_000_000;

/// The functions of shared data, which this host refuses.
const SHARED_DATA: [&str; 2] = ["proxy_get_shared_data", "proxy_set_shared_data"];

type Headers = Vec<(String, Vec<u8>)>;

/// A fetch that the filter has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpCall {
    /// The root context that gets the response.
    root: u32,
    token: u32,
    pub(crate) cluster: String,
    pub(crate) path: String,
}

/// State of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The request continues to the resource server with these headers. Commas join values of the same name.
    Passed(BTreeMap<String, String>),
    /// The filter answered.
    Answered(u32, String),
    /// The request waits.
    Held,
}

#[derive(Debug, Default)]
struct State {
    configuration: Vec<u8>,
    seconds: u64,
    monotonic: u64,
    context: u32,
    requests: BTreeMap<u32, Headers>,
    answers: BTreeMap<u32, (u32, String)>,
    resumed: Vec<u32>,
    /// Requests in the order in which they were answered or continued.
    decided: Vec<u32>,
    calls: Vec<HttpCall>,
    calls_made: u32,
    call_response: (Headers, Vec<u8>),
    metrics: Vec<(String, u64)>,
    tick_milliseconds: u32,
    log: Vec<String>,
    random: u8,
}

/// The filter in the second host.
pub(crate) struct WasmHost {
    store: Store<State>,
    instance: Instance,
    last_context: u32,
}

impl WasmHost {
    /// Loads the filter. The clock starts at this time, in seconds since 1970.
    pub(crate) fn load(seconds: u64) -> Self {
        Self::load_refusing(seconds, "")
    }

    /// The host functions that the filter imports.
    pub(crate) fn functions() -> Vec<String> {
        let imports = module(&Engine::default());
        let imports = imports
            .imports()
            .filter(|import| import.module() == "env" || import.name() == "clock_time_get");
        imports.map(|import| import.name().to_owned()).collect()
    }

    /// The exports of the filter: functions by name, and the memory.
    pub(crate) fn exports() -> BTreeSet<String> {
        let module = module(&Engine::default());
        let exports = module.exports();
        exports.map(|export| export.name().to_owned()).collect()
    }

    /// Loads the filter in a host with one function that always fails.
    pub(crate) fn load_refusing(seconds: u64, refused: &str) -> Self {
        static HOSTS: AtomicU8 = AtomicU8::new(0);
        let engine = Engine::default();
        let module = module(&engine);
        let mut linker = Linker::new(&engine);
        linker.allow_shadowing(true);
        let known = functions::link(&mut linker).unwrap();
        for import in module.imports() {
            let status = match import.name() {
                name if name == refused || SHARED_DATA.contains(&name) => INTERNAL_FAILURE,
                name if known.contains(&name) => continue,
                _ => NOT_FOUND,
            };
            let ExternType::Func(signature) = import.ty() else {
                panic!("{} is no function", import.name());
            };
            linker
                .func_new(
                    import.module(),
                    import.name(),
                    signature.clone(),
                    move |_, _, results| {
                        results.fill(Val::I32(status.cast_signed()));
                        Ok(())
                    },
                )
                .unwrap();
        }
        let state = State {
            seconds,
            // Different from the wall clock, as in real hosts.
            monotonic: 1000,
            random: HOSTS.fetch_add(7, Ordering::Relaxed),
            ..State::default()
        };
        let mut store = Store::new(&engine, state);
        let instance = linker.instantiate_and_start(&mut store, &module).unwrap();
        let mut host = Self {
            store,
            instance,
            last_context: ROOT,
        };
        host.call::<(), ()>("_initialize", ());
        host
    }

    /// Starts the plugin with this configuration. Returns true if the plugin accepted it. Hosts treat a crash as a
    /// refusal.
    pub(crate) fn configure(&mut self, configuration: &str) -> bool {
        self.configure_root(ROOT, configuration)
    }

    /// The same with a given root, because hosts run a module that is mounted several times in one VM.
    pub(crate) fn configure_root(&mut self, root: u32, configuration: &str) -> bool {
        self.store.data_mut().configuration = configuration.as_bytes().to_vec();
        self.create_context(root, 0).unwrap();
        let size = u32::try_from(configuration.len()).unwrap();
        self.enter(root);
        self.call::<_, u32>("proxy_on_vm_start", (root, 0_u32)) == 1
            && self.try_call::<_, u32>("proxy_on_configure", (root, size)) == Ok(1)
    }

    /// Creates a context under a root, or a root under 0. Returns an error if the filter crashes.
    pub(crate) fn create_context(&mut self, context: u32, root: u32) -> Result<(), String> {
        self.try_call("proxy_on_context_create", (context, root))
    }

    /// Advances the time and ticks.
    pub(crate) fn tick_after(&mut self, seconds: u64) {
        self.pass(seconds);
        self.tick_root(ROOT);
    }

    /// Ticks the given root.
    pub(crate) fn tick_root(&mut self, root: u32) {
        self.enter(root);
        self.call::<_, ()>("proxy_on_tick", root);
    }

    /// Fetches without a response so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        let calls = self.store.data().calls.iter();
        calls.map(|call| call.path.clone()).collect()
    }

    /// True if the filter has started a fetch of this path.
    pub(crate) fn has_call(&self, cluster: &str, path: &str) -> bool {
        let mut calls = self.store.data().calls.iter();
        calls.any(|call| call.cluster == cluster && call.path == path)
    }

    /// The fetch of this path. Panics if there is none.
    #[track_caller]
    pub(crate) fn take_call(&mut self, cluster: &str, path: &str) -> HttpCall {
        let calls = &mut self.store.data_mut().calls;
        let place = calls
            .iter()
            .position(|call| call.cluster == cluster && call.path == path);
        let place = place.unwrap_or_else(|| panic!("no call of {cluster} {path} in {calls:?}"));
        calls.remove(place)
    }

    /// Advances the time.
    pub(crate) fn pass(&mut self, seconds: u64) {
        let state = self.store.data_mut();
        state.seconds += seconds;
        state.monotonic += seconds;
    }

    /// Ends a fetch without a response, as after a timeout.
    pub(crate) fn fail_call(&mut self, call: &HttpCall) {
        self.store.data_mut().call_response = (Vec::new(), Vec::new());
        self.enter(call.root);
        let arguments = (call.root, call.token, 0_u32, 0_u32, 0_u32);
        self.call::<_, ()>("proxy_on_http_call_response", arguments);
    }

    /// Answers a fetch with status 200.
    pub(crate) fn answer_call(&mut self, call: &HttpCall, body: &str) {
        let headers = vec![(":status".to_owned(), b"200".to_vec())];
        self.store.data_mut().call_response = (headers, body.as_bytes().to_vec());
        self.enter(call.root);
        let size = u32::try_from(body.len()).unwrap();
        let arguments = (call.root, call.token, 1_u32, size, 0_u32);
        self.call::<_, ()>("proxy_on_http_call_response", arguments);
    }

    /// Sends a request. Returns its context and its state.
    pub(crate) fn request(&mut self, headers: &[(&str, &str)]) -> (u32, Fate) {
        self.request_under(ROOT, headers)
    }

    /// The same with a given root.
    pub(crate) fn request_under(&mut self, root: u32, headers: &[(&str, &str)]) -> (u32, Fate) {
        self.last_context += 1;
        let context = self.last_context;
        let headers: Headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect();
        let count = u32::try_from(headers.len()).unwrap();
        self.store.data_mut().requests.insert(context, headers);
        self.enter(context);
        self.create_context(context, root).unwrap();
        let action: u32 = self.call("proxy_on_request_headers", (context, count, 1_u32));
        if action == 0 {
            self.store.data_mut().resumed.push(context);
        }
        (context, self.fate(context))
    }

    /// The state of a request.
    pub(crate) fn fate(&self, context: u32) -> Fate {
        let state = self.store.data();
        if let Some((status, body)) = state.answers.get(&context) {
            return Fate::Answered(*status, body.clone());
        }
        if !state.resumed.contains(&context) {
            return Fate::Held;
        }
        let text = |value: &Vec<u8>| String::from_utf8(value.clone()).unwrap();
        let mut headers = BTreeMap::<String, String>::new();
        for (name, value) in &state.requests[&context] {
            headers
                .entry(name.clone())
                .and_modify(|values| *values = format!("{values},{}", text(value)))
                .or_insert_with(|| text(value));
        }
        Fate::Passed(headers)
    }

    /// Requests that the filter has answered, or has let continue after a wait, in this order.
    pub(crate) fn decided(&self) -> &[u32] {
        &self.store.data().decided
    }

    /// The tick period that the filter has set, in milliseconds.
    pub(crate) fn tick_milliseconds(&self) -> u32 {
        self.store.data().tick_milliseconds
    }

    /// Ends a request.
    pub(crate) fn end(&mut self, context: u32) {
        self.enter(context);
        self.call::<_, ()>("proxy_on_delete", context);
    }

    /// The value of a metric.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let metrics = &self.store.data().metrics;
        let found = metrics.iter().find(|(known, _)| known == name);
        found
            .unwrap_or_else(|| panic!("no {name} in {metrics:?}"))
            .1
    }

    /// All log lines, each with its level.
    pub(crate) fn log(&self) -> String {
        self.store.data().log.join("\n")
    }

    fn enter(&mut self, context: u32) {
        self.store.data_mut().context = context;
    }

    #[track_caller]
    fn call<P: WasmParams, R: WasmResults>(&mut self, name: &str, arguments: P) -> R {
        self.try_call(name, arguments)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    fn try_call<P: WasmParams, R: WasmResults>(
        &mut self,
        name: &str,
        arguments: P,
    ) -> Result<R, String> {
        let function: TypedFunc<P, R> = self
            .instance
            .get_typed_func(&self.store, name)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        function
            .call(&mut self.store, arguments)
            .map_err(|error| format!("{name}: {error}\n{}", self.log()))
    }
}

fn module(engine: &Engine) -> Module {
    let wasm = fs::read(Artifacts::of(Form::Wasm).unwrap().filter).unwrap();
    Module::new(engine, wasm).unwrap()
}
