//! Envoy's ABI for modules, version v0.2.0, as far as the filter needs it: Envoy's functions, the functions that Envoy calls, and
//! all `unsafe` of the crate. The names and layouts are those of `source/extensions/dynamic_modules/abi/abi.h` in Envoy 1.40.
//!
//! Pointers that Envoy passes into a call are valid until the call returns. What Envoy lends of a request (its headers) is valid
//! until the request changes, so changes take the [`Stream`] by `&mut`.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::slice;

use claims::Thumbprint;
use guard::access_log;
use guard::driver::Passing;
use guard::guard::{Connection, Fetch};
use guard::parts::thumbprint;

use crate::gate::{self, Gate};
use crate::version;

/// Envoy's object of a filter configuration.
type ConfigPtr = *mut c_void;

/// Envoy's object of the filter in one request.
type FilterPtr = *mut c_void;

/// Envoy's object that calls a thread of Envoy. It belongs to the module until the module deletes it.
type SchedulerPtr = *mut c_void;

/// Bytes of Envoy's or of the module's.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    start: *const u8,
    length: usize,
}

impl Buffer {
    /// No bytes, which is not the same as an empty text.
    const NONE: Self = Self {
        start: null(),
        length: 0,
    };

    const fn of(bytes: &[u8]) -> Self {
        Self {
            start: bytes.as_ptr(),
            length: bytes.len(),
        }
    }

    /// # Safety
    /// The bytes live as long as `'a`.
    const unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.start.is_null() {
            return &[];
        }
        // SAFETY: Envoy passes the length of its bytes, which the caller says are alive.
        unsafe { slice::from_raw_parts(self.start, self.length) }
    }
}

/// A header of Envoy's or of the module's.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Header {
    name: Buffer,
    value: Buffer,
}

impl Header {
    const fn of(name: &str, value: &str) -> Self {
        Self {
            name: Buffer::of(name.as_bytes()),
            value: Buffer::of(value.as_bytes()),
        }
    }
}

/// The map of request headers, among those of a request.
const REQUEST_HEADERS: u32 = 0;

/// The attribute [`guard::parts::CERTIFICATE_DIGEST`].
const CERTIFICATE_DIGEST: u32 = 38;

/// The result of a call that succeeded.
const SUCCESS: u32 = 0;

/// Levels of Envoy's log.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Level {
    Info = 2,
    Warn = 3,
    Error = 4,
    Critical = 5,
}

/// What Envoy does after the headers of a request.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Action {
    /// Goes on with the next filter.
    Continue = 0,
    /// Nothing: the module has answered.
    Stop = 1,
    /// Waits until the module says otherwise, and reads no more of the body than fits into the buffers.
    Hold = 4,
}

/// A counter of one configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter(usize);

/// A gauge of one configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gauge(usize);

unsafe extern "C" {
    /// Writes a line to Envoy's log, with the component `dynamic_modules`. From any thread.
    fn envoy_dynamic_module_callback_log(level: Level, line: Buffer);
    /// The number of workers. On the main thread.
    safe fn envoy_dynamic_module_callback_get_concurrency() -> u32;
    /// True if Envoy only checks its configuration (`--mode validate`). On the main thread.
    safe fn envoy_dynamic_module_callback_is_validation_mode() -> bool;

    // A configuration.

    /// Defines a counter, or finds it by its name. Returns 0 if it wrote the number.
    fn envoy_dynamic_module_callback_http_filter_config_define_counter(
        config: ConfigPtr,
        name: Buffer,
        labels: *const Buffer,
        labels_length: usize,
        counter: *mut usize,
    ) -> u32;
    /// Defines a gauge, or finds it by its name. Returns 0 if it wrote the number.
    fn envoy_dynamic_module_callback_http_filter_config_define_gauge(
        config: ConfigPtr,
        name: Buffer,
        labels: *const Buffer,
        labels_length: usize,
        gauge: *mut usize,
    ) -> u32;
    /// Increments a counter that this configuration defined.
    fn envoy_dynamic_module_callback_http_filter_config_increment_counter(
        config: ConfigPtr,
        counter: usize,
        labels: *const Buffer,
        labels_length: usize,
        by: u64,
    ) -> u32;
    /// Sets a gauge that this configuration defined.
    fn envoy_dynamic_module_callback_http_filter_config_set_gauge(
        config: ConfigPtr,
        gauge: usize,
        labels: *const Buffer,
        labels_length: usize,
        value: u64,
    ) -> u32;
    /// Creates an object that calls [`envoy_dynamic_module_on_http_filter_config_scheduled`] on the main thread.
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_new(
        config: ConfigPtr,
    ) -> SchedulerPtr;
    /// Calls the main thread. From any thread.
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_commit(
        scheduler: SchedulerPtr,
        event: u64,
    );
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_delete(scheduler: SchedulerPtr);
    /// Sends a request to a cluster, with `:method`, `:path` and `:authority`. Returns 0 if it wrote the number of the call, whose
    /// end [`envoy_dynamic_module_on_http_filter_config_http_callout_done`] tells. On the main thread.
    fn envoy_dynamic_module_callback_http_filter_config_http_callout(
        config: ConfigPtr,
        call: *mut u64,
        cluster: Buffer,
        headers: *const Header,
        headers_length: usize,
        body: Buffer,
        timeout_milliseconds: u64,
    ) -> u32;

    // A request, on its worker.

    /// The worker's index, from 0.
    fn envoy_dynamic_module_callback_http_filter_get_worker_index(filter: FilterPtr) -> u32;
    /// The number of headers in a map.
    fn envoy_dynamic_module_callback_http_get_headers_size(filter: FilterPtr, map: u32) -> usize;
    /// Writes all headers of a map, names in lower case. They are Envoy's memory until the map changes.
    fn envoy_dynamic_module_callback_http_get_headers(
        filter: FilterPtr,
        map: u32,
        headers: *mut Header,
    ) -> bool;
    /// Writes the text of an attribute of the request or its connection. It is Envoy's memory. False if there is none.
    fn envoy_dynamic_module_callback_http_filter_get_attribute_string(
        filter: FilterPtr,
        attribute: u32,
        text: *mut Buffer,
    ) -> bool;
    /// Adds a header.
    fn envoy_dynamic_module_callback_http_add_header(
        filter: FilterPtr,
        map: u32,
        name: Buffer,
        value: Buffer,
    ) -> bool;
    /// Replaces all headers of this name; [`Buffer::NONE`] removes them.
    fn envoy_dynamic_module_callback_http_set_header(
        filter: FilterPtr,
        map: u32,
        name: Buffer,
        value: Buffer,
    ) -> bool;
    /// Lets Envoy choose the route again.
    fn envoy_dynamic_module_callback_http_clear_route_cache(filter: FilterPtr);
    /// Sets a part of the filter state, which the access log can show.
    fn envoy_dynamic_module_callback_http_set_filter_state_bytes(
        filter: FilterPtr,
        key: Buffer,
        value: Buffer,
    ) -> bool;
    /// Answers the request. Envoy may call the module about this request, and end it, before this returns.
    fn envoy_dynamic_module_callback_http_send_response(
        filter: FilterPtr,
        status: u32,
        headers: *const Header,
        headers_length: usize,
        body: Buffer,
        details: Buffer,
    );
    /// Goes on with a request that was held.
    fn envoy_dynamic_module_callback_http_filter_continue_decoding(filter: FilterPtr);
    /// Creates an object that calls [`envoy_dynamic_module_on_http_filter_scheduled`] on the worker of the request.
    fn envoy_dynamic_module_callback_http_filter_scheduler_new(filter: FilterPtr) -> SchedulerPtr;
    /// Calls the worker, if the request still exists. From any thread.
    fn envoy_dynamic_module_callback_http_filter_scheduler_commit(
        scheduler: SchedulerPtr,
        event: u64,
    );
    fn envoy_dynamic_module_callback_http_filter_scheduler_delete(scheduler: SchedulerPtr);
}

/// Writes a line to Envoy's log.
pub(crate) fn log(level: Level, line: &str) {
    // SAFETY: Envoy only reads the line, during the call.
    unsafe { envoy_dynamic_module_callback_log(level, Buffer::of(line.as_bytes())) }
}

/// The number of workers. On the main thread.
pub(crate) fn workers() -> usize {
    envoy_dynamic_module_callback_get_concurrency() as usize
}

/// True if Envoy only checks its configuration. On the main thread.
pub(crate) fn only_checks() -> bool {
    envoy_dynamic_module_callback_is_validation_mode()
}

/// Envoy's side of a configuration. It lives as long as the module's side.
#[derive(Debug)]
pub(crate) struct Config(ConfigPtr);

// SAFETY: the main thread alone uses it, but for its creation of a scheduler, which is before the workers know it.
unsafe impl Send for Config {}
// SAFETY: as above.
unsafe impl Sync for Config {}

impl Config {
    pub(crate) fn define_counter(&self, name: &str) -> Option<Counter> {
        let mut number = 0;
        let name = Buffer::of(name.as_bytes());
        // SAFETY: Envoy reads the name and writes the number, during the call.
        let result = unsafe {
            envoy_dynamic_module_callback_http_filter_config_define_counter(
                self.0,
                name,
                null(),
                0,
                &raw mut number,
            )
        };
        (result == SUCCESS).then_some(Counter(number))
    }

    pub(crate) fn define_gauge(&self, name: &str) -> Option<Gauge> {
        let mut number = 0;
        let name = Buffer::of(name.as_bytes());
        // SAFETY: Envoy reads the name and writes the number, during the call.
        let result = unsafe {
            envoy_dynamic_module_callback_http_filter_config_define_gauge(
                self.0,
                name,
                null(),
                0,
                &raw mut number,
            )
        };
        (result == SUCCESS).then_some(Gauge(number))
    }

    pub(crate) fn increment(&self, Counter(number): Counter, by: u64) {
        // SAFETY: this configuration defined the counter, without labels.
        unsafe {
            envoy_dynamic_module_callback_http_filter_config_increment_counter(
                self.0,
                number,
                null(),
                0,
                by,
            );
        }
    }

    pub(crate) fn set_gauge(&self, Gauge(number): Gauge, value: u64) {
        // SAFETY: this configuration defined the gauge, without labels.
        unsafe {
            envoy_dynamic_module_callback_http_filter_config_set_gauge(
                self.0,
                number,
                null(),
                0,
                value,
            );
        }
    }

    /// A way to the main thread.
    pub(crate) fn main_thread(&self) -> MainThread {
        // SAFETY: the configuration exists.
        MainThread(unsafe {
            envoy_dynamic_module_callback_http_filter_config_scheduler_new(self.0)
        })
    }

    /// Sends a fetch. Returns the number of the call; `None` if Envoy does not send it.
    pub(crate) fn call(&self, fetch: &Fetch) -> Option<u64> {
        let endpoint = &fetch.endpoint;
        let mut headers = vec![
            Header::of(":method", fetch.method()),
            Header::of(":path", &endpoint.path),
            Header::of(":authority", &endpoint.authority),
        ];
        let more = fetch.headers();
        headers.extend(more.iter().map(|(name, value)| Header::of(name, value)));
        let body = fetch
            .body()
            .map_or(Buffer::NONE, |body| Buffer::of(body.as_bytes()));
        let cluster = Buffer::of(endpoint.cluster.as_bytes());
        let mut call = 0;
        // SAFETY: Envoy reads the texts and writes the number, during the call.
        let result = unsafe {
            envoy_dynamic_module_callback_http_filter_config_http_callout(
                self.0,
                &raw mut call,
                cluster,
                headers.as_ptr(),
                headers.len(),
                body,
                fetch.timeout * 1000,
            )
        };
        (result == SUCCESS).then_some(call)
    }
}

/// Calls the main thread, from any thread.
#[derive(Debug)]
pub(crate) struct MainThread(SchedulerPtr);

// SAFETY: Envoy's schedulers may be used, and deleted, on any thread.
unsafe impl Send for MainThread {}

impl MainThread {
    /// Envoy then calls [`Gate::tick`].
    pub(crate) fn call(&self) {
        // SAFETY: the scheduler exists until this value is dropped.
        unsafe { envoy_dynamic_module_callback_http_filter_config_scheduler_commit(self.0, 0) }
    }
}

impl Drop for MainThread {
    fn drop(&mut self) {
        // SAFETY: nothing uses it afterwards.
        unsafe { envoy_dynamic_module_callback_http_filter_config_scheduler_delete(self.0) }
    }
}

/// Calls the worker of a request that is held, from any thread.
#[derive(Debug)]
pub(crate) struct Resumer(SchedulerPtr);

// SAFETY: Envoy's schedulers may be used, and deleted, on any thread.
unsafe impl Send for Resumer {}

impl Resumer {
    /// Envoy then calls [`Gate::resume`], if the request still exists.
    pub(crate) fn resume(&self) {
        // SAFETY: the scheduler exists until this value is dropped.
        unsafe { envoy_dynamic_module_callback_http_filter_scheduler_commit(self.0, 0) }
    }
}

impl Drop for Resumer {
    fn drop(&mut self) {
        // SAFETY: nothing uses it afterwards.
        unsafe { envoy_dynamic_module_callback_http_filter_scheduler_delete(self.0) }
    }
}

/// A request, during one of the calls about it.
#[derive(Debug)]
pub(crate) struct Stream {
    filter: FilterPtr,
    /// True if headers have changed since Envoy chose the route.
    has_changed: bool,
}

/// All headers of a request. They are Envoy's.
pub(crate) struct Headers<'a> {
    headers: Vec<Header>,
    _stream: &'a Stream,
}

impl Headers<'_> {
    /// Names, in lower case, and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.headers.iter().map(|header| {
            // SAFETY: the headers are valid until the stream changes, and it is borrowed until then.
            let name = unsafe { header.name.bytes() };
            // SAFETY: as above.
            let value = unsafe { header.value.bytes() };
            (name, value)
        })
    }
}

impl Stream {
    const fn of(filter: FilterPtr) -> Self {
        Self {
            filter,
            has_changed: false,
        }
    }

    /// Lets Envoy choose the route again, by headers that no client has set, if headers have changed.
    pub(crate) fn choose_route(&mut self) {
        if std::mem::take(&mut self.has_changed) {
            // SAFETY: the request exists during the call.
            unsafe { envoy_dynamic_module_callback_http_clear_route_cache(self.filter) }
        }
    }

    /// The worker's index, from 0.
    pub(crate) fn worker(&self) -> usize {
        // SAFETY: the request exists during the call.
        unsafe { envoy_dynamic_module_callback_http_filter_get_worker_index(self.filter) as usize }
    }

    /// All headers of the request; `None` if Envoy refuses.
    pub(crate) fn headers(&self) -> Option<Headers<'_>> {
        // SAFETY: the request exists during the call.
        let length = unsafe {
            envoy_dynamic_module_callback_http_get_headers_size(self.filter, REQUEST_HEADERS)
        };
        let none = Header {
            name: Buffer::NONE,
            value: Buffer::NONE,
        };
        let mut headers = vec![none; length];
        // SAFETY: Envoy writes as many headers as it said.
        let is_done = unsafe {
            envoy_dynamic_module_callback_http_get_headers(
                self.filter,
                REQUEST_HEADERS,
                headers.as_mut_ptr(),
            )
        };
        is_done.then_some(Headers {
            headers,
            _stream: self,
        })
    }

    /// Removes every header of this name. Returns false if Envoy refuses.
    pub(crate) fn remove_header(&mut self, name: &[u8]) -> bool {
        self.has_changed = true;
        let name = Buffer::of(name);
        // SAFETY: Envoy only reads the name, during the call.
        unsafe {
            envoy_dynamic_module_callback_http_set_header(
                self.filter,
                REQUEST_HEADERS,
                name,
                Buffer::NONE,
            )
        }
    }

    /// Answers the request. It may have ended when this returns.
    pub(crate) fn respond(&mut self, status: u32, headers: &[(&str, String)], body: &[u8]) {
        let headers = headers.iter().map(|(name, value)| Header::of(name, value));
        let headers: Vec<Header> = headers.collect();
        // SAFETY: Envoy only reads the arguments, during the call.
        unsafe {
            envoy_dynamic_module_callback_http_send_response(
                self.filter,
                status,
                headers.as_ptr(),
                headers.len(),
                Buffer::of(body),
                Buffer::NONE,
            );
        }
    }

    /// A way to the worker of this request.
    pub(crate) fn resumer(&self) -> Resumer {
        // SAFETY: the request exists during the call.
        Resumer(unsafe { envoy_dynamic_module_callback_http_filter_scheduler_new(self.filter) })
    }
}

impl Connection for Stream {
    fn certificate(&self) -> Option<Thumbprint> {
        let mut digits = Buffer::NONE;
        // SAFETY: the request exists during the call, in which Envoy writes the address and the length of its text.
        let is_there = unsafe {
            envoy_dynamic_module_callback_http_filter_get_attribute_string(
                self.filter,
                CERTIFICATE_DIGEST,
                &raw mut digits,
            )
        };
        if !is_there {
            return None;
        }
        // SAFETY: the text is that of the connection, which lives longer than this call.
        thumbprint(unsafe { digits.bytes() })
    }
}

impl Passing for Stream {
    fn remove(&mut self, name: &str) -> bool {
        self.remove_header(name.as_bytes())
    }

    fn add(&mut self, name: &str, value: &str) -> bool {
        self.has_changed = true;
        let (name, value) = (Buffer::of(name.as_bytes()), Buffer::of(value.as_bytes()));
        // SAFETY: Envoy only reads both texts, during the call.
        unsafe {
            envoy_dynamic_module_callback_http_add_header(self.filter, REQUEST_HEADERS, name, value)
        }
    }

    fn tell_access_log(&mut self, entry: &str) {
        // The name under which Envoy keeps the property of the filter in WebAssembly.
        let key = format!("wasm.{}", access_log::PROPERTY);
        let (key, value) = (Buffer::of(key.as_bytes()), Buffer::of(entry.as_bytes()));
        // SAFETY: Envoy only reads both texts, during the call.
        unsafe {
            envoy_dynamic_module_callback_http_set_filter_state_bytes(self.filter, key, value);
        }
    }
}

// ---- what Envoy calls ----------------------------------------------------------------------------------------

/// The filter in one request.
struct Filter {
    gate: *const Gate,
    worker: usize,
    /// The number of the request while it waits.
    held: Option<u32>,
}

/// The configuration of a request. Envoy ends all requests of a configuration before the configuration.
///
/// # Safety
/// `filter` is of [`envoy_dynamic_module_on_http_filter_new`].
const unsafe fn gate_of<'a>(filter: *const Filter) -> &'a Gate {
    // SAFETY: as said above.
    let gate = unsafe { (*filter).gate };
    // SAFETY: it lives longer than the request.
    unsafe { &*gate }
}

/// Calls the gate. A panic must not leave the module: Envoy would end.
fn guarded<T>(gate: &Gate, call: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(call));
    if result.is_err() {
        // The hook of panics has logged it.
        gate.panicked();
    }
    result.ok()
}

/// Envoy loads the module. Null refuses.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_program_init() -> *const c_char {
    std::panic::set_hook(Box::new(|panic| log(Level::Critical, &panic.to_string())));
    match version::check() {
        Ok(()) => CStr::as_ptr(version::VERSION),
        Err(problem) => {
            log(Level::Critical, &problem);
            null()
        }
    }
}

/// A new configuration, on the main thread. Null refuses it.
///
/// # Safety
/// The buffers are valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_new(
    config: ConfigPtr,
    _name: Buffer,
    text: Buffer,
) -> *const Gate {
    // SAFETY: Envoy passes bytes that are valid during the call.
    let text = unsafe { text.bytes() };
    match catch_unwind(|| Gate::configure(Config(config), text)) {
        Ok(Some(gate)) => Box::into_raw(Box::new(gate)),
        _ => null(),
    }
}

/// # Safety
/// `gate` is of [`envoy_dynamic_module_on_http_filter_config_new`], and nothing uses it any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(gate: *mut Gate) {
    // SAFETY: as said above.
    let gate = unsafe { Box::from_raw(gate) };
    let _ = catch_unwind(AssertUnwindSafe(|| gate.end()));
}

/// The main thread was called.
///
/// # Safety
/// `gate` is a living configuration.
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_scheduled(
    _config: ConfigPtr,
    gate: *const Gate,
    _event: u64,
) {
    // SAFETY: as said above.
    let gate = unsafe { &*gate };
    let _ = guarded(gate, || gate.tick());
}

/// The end of a fetch, on the main thread.
///
/// # Safety
/// `gate` is a living configuration, and headers and chunks are as many as said.
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_callout_done(
    _config: ConfigPtr,
    gate: *const Gate,
    call: u64,
    result: u32,
    headers: *const Header,
    headers_length: usize,
    chunks: *const Buffer,
    chunks_length: usize,
) {
    // SAFETY: as said above.
    let gate = unsafe { &*gate };
    let headers = match headers.is_null() {
        true => &[],
        // SAFETY: as said above.
        false => unsafe { slice::from_raw_parts(headers, headers_length) },
    };
    let chunks = match chunks.is_null() {
        true => &[],
        // SAFETY: as said above.
        false => unsafe { slice::from_raw_parts(chunks, chunks_length) },
    };
    let mut body = Vec::new();
    for chunk in chunks {
        // SAFETY: the chunks are valid during the call.
        body.extend_from_slice(unsafe { chunk.bytes() });
    }
    let status = headers.iter().find_map(|header| {
        // SAFETY: the headers are valid during the call.
        let name = unsafe { header.name.bytes() };
        // SAFETY: as above.
        (name == b":status").then(|| unsafe { header.value.bytes() })
    });
    let status = status.filter(|_| result == SUCCESS);
    let _ = guarded(gate, || gate.fetched(call, status, body));
}

/// A new request.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_new(
    gate: *const Gate,
    filter: FilterPtr,
) -> *mut Filter {
    Box::into_raw(Box::new(Filter {
        gate,
        worker: Stream::of(filter).worker(),
        held: None,
    }))
}

/// The headers of a request have arrived.
///
/// # Safety
/// `filter` is of [`envoy_dynamic_module_on_http_filter_new`].
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
    envoy: FilterPtr,
    filter: *mut Filter,
    _is_last: bool,
) -> Action {
    // SAFETY: as said above.
    let gate = unsafe { gate_of(filter) };
    // SAFETY: as said above.
    let worker = unsafe { (*filter).worker };
    let mut held = None;
    let action = guarded(gate, || gate.decide(Stream::of(envoy), worker, &mut held));
    if held.is_some() {
        // SAFETY: a request that is held has not ended.
        unsafe { (*filter).held = held };
    }
    action.unwrap_or_else(|| gate::refuse(&mut Stream::of(envoy)))
}

/// A request that is held may go on.
///
/// # Safety
/// `filter` is of [`envoy_dynamic_module_on_http_filter_new`].
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_scheduled(
    envoy: FilterPtr,
    filter: *mut Filter,
    _event: u64,
) {
    // SAFETY: as said above.
    let gate = unsafe { gate_of(filter) };
    // SAFETY: as said above.
    let worker = unsafe { (*filter).worker };
    // SAFETY: nothing else refers to it.
    let Some(number) = (unsafe { (*filter).held.take() }) else {
        return;
    };
    let action = guarded(gate, || gate.resume(Stream::of(envoy), worker, number));
    match action {
        Some(Action::Continue) => {
            // SAFETY: the request exists, because the module has not answered it.
            unsafe { envoy_dynamic_module_callback_http_filter_continue_decoding(envoy) }
        }
        Some(_) => {}
        None => {
            let _ = gate::refuse(&mut Stream::of(envoy));
        }
    }
}

/// A request has ended.
///
/// # Safety
/// `filter` is of [`envoy_dynamic_module_on_http_filter_new`], and nothing uses it any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_destroy(filter: *mut Filter) {
    // SAFETY: as said above.
    let gate = unsafe { gate_of(filter) };
    // SAFETY: as said above.
    let filter = unsafe { Box::from_raw(filter) };
    if let Some(number) = filter.held {
        let _ = guarded(gate, || gate.forget(filter.worker, number));
    }
}

/// Calls about which the filter does nothing: Envoy goes on. It looks for all of them when it loads the module.
macro_rules! ignored {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($(_: $argument),*) $(-> $result)? {
                $(<$result>::default())?
            }
        )*
    };
}

ignored! {
    envoy_dynamic_module_on_http_filter_request_body(FilterPtr, *mut Filter, bool) -> u32;
    envoy_dynamic_module_on_http_filter_request_trailers(FilterPtr, *mut Filter) -> u32;
    envoy_dynamic_module_on_http_filter_response_headers(FilterPtr, *mut Filter, bool) -> u32;
    envoy_dynamic_module_on_http_filter_response_body(FilterPtr, *mut Filter, bool) -> u32;
    envoy_dynamic_module_on_http_filter_response_trailers(FilterPtr, *mut Filter) -> u32;
    envoy_dynamic_module_on_http_filter_stream_complete(FilterPtr, *mut Filter);
    envoy_dynamic_module_on_http_filter_http_callout_done(
        FilterPtr, *mut Filter, u64, u32, *const Header, usize, *const Buffer, usize
    );
    envoy_dynamic_module_on_http_filter_http_stream_headers(
        FilterPtr, *mut Filter, u64, *const Header, usize, bool
    );
    envoy_dynamic_module_on_http_filter_http_stream_data(
        FilterPtr, *mut Filter, u64, *const Buffer, usize, bool
    );
    envoy_dynamic_module_on_http_filter_http_stream_trailers(
        FilterPtr, *mut Filter, u64, *const Header, usize
    );
    envoy_dynamic_module_on_http_filter_http_stream_complete(FilterPtr, *mut Filter, u64);
    envoy_dynamic_module_on_http_filter_http_stream_reset(FilterPtr, *mut Filter, u64, u32);
    envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(FilterPtr, *mut Filter);
    envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(FilterPtr, *mut Filter);
    envoy_dynamic_module_on_http_filter_local_reply(FilterPtr, *mut Filter, u32, Buffer, bool) -> u32;
}
