//! The ABI of Envoy for modules, version v0.2.0, as far as the filter needs it, and all `unsafe` of the module. The names and
//! layouts are as in `source/extensions/dynamic_modules/abi/abi.h` of Envoy 1.40.
//!
//! What Envoy lends is as safe as Rust's own references, by these types: its objects are references without a layout, its bytes
//! are a [`Buffer`] with a lifetime, and what changes a request takes it by `&mut`, which ends the loan of its headers. That
//! Envoy calls each function of [`exported`] with the arguments that stand there is trusted, and cannot be checked.

use std::cell::UnsafeCell;
use std::marker::{PhantomData, PhantomPinned};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null};
use std::slice;

/// An object of Envoy's, which stays on its thread.
#[repr(C)]
#[derive(Debug)]
struct Opaque {
    content: UnsafeCell<[u8; 0]>,
    of_its_thread: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Envoy's object of a filter configuration. It lives as long as the module's side of the configuration.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct EnvoyConfig(Opaque);

// SAFETY: only the main thread uses it, but for its creation of a scheduler, which is before the workers know it.
unsafe impl Sync for EnvoyConfig {}

/// Envoy's object of the filter in one request. It lives during each call about the request, until the request is answered.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct EnvoyFilter(Opaque);

/// Envoy's object that calls a thread of Envoy. It belongs to the module until the module deletes it.
#[repr(C)]
#[derive(Debug)]
struct EnvoyScheduler(Opaque);

// SAFETY: Envoy's schedulers may be used, and deleted, on any thread.
unsafe impl Sync for EnvoyScheduler {}

/// Bytes of Envoy's or of the module's.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Buffer<'a> {
    start: *const u8,
    length: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a> Buffer<'a> {
    /// No bytes. Envoy takes an empty text for the same: it adds no header without a value.
    pub(crate) const NONE: Self = Self {
        start: null(),
        length: 0,
        bytes: PhantomData,
    };

    pub(crate) const fn of(bytes: &'a [u8]) -> Self {
        Self {
            start: bytes.as_ptr(),
            length: bytes.len(),
            bytes: PhantomData,
        }
    }

    pub(crate) const fn bytes(self) -> &'a [u8] {
        if self.start.is_null() {
            return &[];
        }
        // SAFETY: the length is that of the bytes, which live as long as `'a`.
        unsafe { slice::from_raw_parts(self.start, self.length) }
    }
}

/// A header of Envoy's or of the module's.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Header<'a> {
    pub(crate) name: Buffer<'a>,
    pub(crate) value: Buffer<'a>,
}

impl<'a> Header<'a> {
    pub(crate) const fn of(name: &'a str, value: &'a str) -> Self {
        Self {
            name: Buffer::of(name.as_bytes()),
            value: Buffer::of(value.as_bytes()),
        }
    }
}

/// The start of several values that Envoy lends during a call. Their number is the next argument of the call.
#[repr(transparent)]
pub(crate) struct List<'a, T>(*const T, PhantomData<&'a [T]>);

impl<'a, T> List<'a, T> {
    /// The values. `length` is the number that Envoy passed with this value.
    pub(crate) const fn of_length(self, length: usize) -> &'a [T] {
        if self.0.is_null() {
            return &[];
        }
        // SAFETY: Envoy lends as many values as it says.
        unsafe { slice::from_raw_parts(self.0, length) }
    }
}

/// What the module keeps for a request or a configuration. Envoy has its address, and passes it with each call about it. It may
/// end during such a call, when a request is answered: what outlives that is no reference into it.
#[repr(transparent)]
pub(crate) struct Kept<T>(NonNull<T>);

impl<T> Kept<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(value))))
    }

    pub(crate) const fn get(&self) -> &T {
        // SAFETY: Envoy passes what `new` made, until the call that ends it.
        unsafe { self.0.as_ref() }
    }

    /// Changes what belongs to a request that has not been answered.
    pub(crate) const fn change(&self, value: T)
    where
        T: Copy,
    {
        // SAFETY: as above, and nothing refers to it.
        unsafe { self.0.write(value) }
    }

    /// The value, in the last call about it.
    pub(crate) fn end(self) -> T {
        // SAFETY: `new` made it of a box, and Envoy does not pass it any more.
        *unsafe { Box::from_raw(self.0.as_ptr()) }
    }
}

/// Envoy's number for the map of request headers.
pub(crate) const REQUEST_HEADERS: u32 = 0;

/// The attribute [`guard::parts::CERTIFICATE_DIGEST`].
pub(crate) const CERTIFICATE_DIGEST: u32 = 38;

/// The result of a call that succeeded.
pub(crate) const SUCCESS: u32 = 0;

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

// SAFETY: the signatures are as in Envoy. A function is safe if its types say all that Envoy asks for.
unsafe extern "C" {
    /// Writes a line to Envoy's log, with the component `dynamic_modules`. From any thread.
    safe fn envoy_dynamic_module_callback_log(level: Level, line: Buffer<'_>);
    /// The number of workers. On the main thread.
    safe fn envoy_dynamic_module_callback_get_concurrency() -> u32;
    /// True if Envoy only checks its configuration (`--mode validate`). On the main thread.
    safe fn envoy_dynamic_module_callback_is_validation_mode() -> bool;

    // A configuration.

    /// Defines a counter, or finds it by its name. Returns 0 if it wrote the number.
    fn envoy_dynamic_module_callback_http_filter_config_define_counter(
        config: &EnvoyConfig,
        name: Buffer<'_>,
        labels: *const Buffer<'_>,
        labels_length: usize,
        counter: &mut usize,
    ) -> u32;
    /// Defines a gauge, or finds it by its name. Returns 0 if it wrote the number.
    fn envoy_dynamic_module_callback_http_filter_config_define_gauge(
        config: &EnvoyConfig,
        name: Buffer<'_>,
        labels: *const Buffer<'_>,
        labels_length: usize,
        gauge: &mut usize,
    ) -> u32;
    /// Increments a counter that this configuration defined.
    fn envoy_dynamic_module_callback_http_filter_config_increment_counter(
        config: &EnvoyConfig,
        counter: usize,
        labels: *const Buffer<'_>,
        labels_length: usize,
        by: u64,
    ) -> u32;
    /// Sets a gauge that this configuration defined.
    fn envoy_dynamic_module_callback_http_filter_config_set_gauge(
        config: &EnvoyConfig,
        gauge: usize,
        labels: *const Buffer<'_>,
        labels_length: usize,
        value: u64,
    ) -> u32;
    /// Creates an object that calls `envoy_dynamic_module_on_http_filter_config_scheduled` on the main thread.
    safe fn envoy_dynamic_module_callback_http_filter_config_scheduler_new(
        config: &EnvoyConfig,
    ) -> &'static EnvoyScheduler;
    /// Calls the main thread. From any thread.
    safe fn envoy_dynamic_module_callback_http_filter_config_scheduler_commit(
        scheduler: &EnvoyScheduler,
        event: u64,
    );
    /// Ends a scheduler of a configuration. From any thread.
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_delete(
        scheduler: &EnvoyScheduler,
    );
    /// Sends a request to a cluster, with `:method`, `:path` and `:authority`. Returns 0 if it wrote the number of the call, whose
    /// end `envoy_dynamic_module_on_http_filter_config_http_callout_done` tells. On the main thread.
    fn envoy_dynamic_module_callback_http_filter_config_http_callout(
        config: &EnvoyConfig,
        call: &mut u64,
        cluster: Buffer<'_>,
        headers: *const Header<'_>,
        headers_length: usize,
        body: Buffer<'_>,
        timeout_milliseconds: u64,
    ) -> u32;

    // A request, on its worker.

    /// The worker's index, from 0.
    pub(crate) safe fn envoy_dynamic_module_callback_http_filter_get_worker_index(
        filter: &EnvoyFilter,
    ) -> u32;
    /// The number of headers in a map.
    safe fn envoy_dynamic_module_callback_http_get_headers_size(
        filter: &EnvoyFilter,
        map: u32,
    ) -> usize;
    /// Writes all headers of a map, names in lower case. They are Envoy's memory until the map changes.
    fn envoy_dynamic_module_callback_http_get_headers<'a>(
        filter: &'a EnvoyFilter,
        map: u32,
        headers: *mut MaybeUninit<Header<'a>>,
    ) -> bool;
    /// Writes the text of an attribute of the request or its connection. It is Envoy's memory. False if there is none.
    pub(crate) safe fn envoy_dynamic_module_callback_http_filter_get_attribute_string<'a>(
        filter: &'a EnvoyFilter,
        attribute: u32,
        text: &mut Buffer<'a>,
    ) -> bool;
    /// Adds a header.
    pub(crate) safe fn envoy_dynamic_module_callback_http_add_header(
        filter: &mut EnvoyFilter,
        map: u32,
        name: Buffer<'_>,
        value: Buffer<'_>,
    ) -> bool;
    /// Replaces all headers of this name; [`Buffer::NONE`] removes them.
    pub(crate) safe fn envoy_dynamic_module_callback_http_set_header(
        filter: &mut EnvoyFilter,
        map: u32,
        name: Buffer<'_>,
        value: Buffer<'_>,
    ) -> bool;
    /// Lets Envoy choose the route again.
    pub(crate) safe fn envoy_dynamic_module_callback_http_clear_route_cache(
        filter: &mut EnvoyFilter,
    );
    /// Sets a part of the filter state, which the access log can show.
    pub(crate) safe fn envoy_dynamic_module_callback_http_set_filter_state_bytes(
        filter: &mut EnvoyFilter,
        key: Buffer<'_>,
        value: Buffer<'_>,
    ) -> bool;
    /// Answers the request. Envoy may call the module about this request, and end it, before this returns.
    fn envoy_dynamic_module_callback_http_send_response(
        filter: &mut EnvoyFilter,
        status: u32,
        headers: *const Header<'_>,
        headers_length: usize,
        body: Buffer<'_>,
        details: Buffer<'_>,
    );
    /// Goes on with a request that was held.
    pub(crate) safe fn envoy_dynamic_module_callback_http_filter_continue_decoding(
        filter: &mut EnvoyFilter,
    );
    /// Creates an object that calls `envoy_dynamic_module_on_http_filter_scheduled` on the worker of the request.
    safe fn envoy_dynamic_module_callback_http_filter_scheduler_new(
        filter: &EnvoyFilter,
    ) -> &'static EnvoyScheduler;
    /// Calls the worker, if the request still exists. From any thread.
    safe fn envoy_dynamic_module_callback_http_filter_scheduler_commit(
        scheduler: &EnvoyScheduler,
        event: u64,
    );
    /// Ends a scheduler of a request, which may have ended before. From any thread.
    fn envoy_dynamic_module_callback_http_filter_scheduler_delete(scheduler: &EnvoyScheduler);
}

/// Exports functions under the names by which Envoy calls them. Each calls the one after `=`.
macro_rules! exported {
    ($($name:ident $(<$life:lifetime>)? ($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $call:expr;)*) => {
        $(
            #[expect(unsafe_code, reason = "the names are Envoy's: nothing else has them")]
            #[unsafe(no_mangle)]
            extern "C" fn $name $(<$life>)? ($($argument: $type),*) $(-> $result)? {
                ($call)($($argument),*)
            }
        )*
    };
}

/// Exports functions that take nothing, and return 0 or nothing.
macro_rules! ignored {
    ($($name:ident -> $result:ty;)*) => {
        $(
            #[expect(unsafe_code, reason = "the names are Envoy's: nothing else has them")]
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> $result {
                Default::default()
            }
        )*
    };
}

pub(crate) use {exported, ignored};

/// Writes a line to Envoy's log.
pub(crate) fn log(level: Level, line: &str) {
    envoy_dynamic_module_callback_log(level, Buffer::of(line.as_bytes()));
}

/// The number of workers. On the main thread.
pub(crate) fn workers() -> usize {
    envoy_dynamic_module_callback_get_concurrency() as usize
}

/// True if Envoy only checks its configuration. On the main thread.
pub(crate) fn only_checks() -> bool {
    envoy_dynamic_module_callback_is_validation_mode()
}

/// A counter of one configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter(usize);

/// A gauge of one configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gauge(usize);

/// A configuration, on the main thread.
impl EnvoyConfig {
    pub(crate) fn define_counter(&self, name: &str) -> Option<Counter> {
        let (name, mut number) = (Buffer::of(name.as_bytes()), 0);
        // SAFETY: there are no labels.
        let result = unsafe {
            envoy_dynamic_module_callback_http_filter_config_define_counter(
                self,
                name,
                null(),
                0,
                &mut number,
            )
        };
        (result == SUCCESS).then_some(Counter(number))
    }

    pub(crate) fn define_gauge(&self, name: &str) -> Option<Gauge> {
        let (name, mut number) = (Buffer::of(name.as_bytes()), 0);
        // SAFETY: there are no labels.
        let result = unsafe {
            envoy_dynamic_module_callback_http_filter_config_define_gauge(
                self,
                name,
                null(),
                0,
                &mut number,
            )
        };
        (result == SUCCESS).then_some(Gauge(number))
    }

    pub(crate) fn increment(&self, Counter(number): Counter, by: u64) {
        // SAFETY: this configuration defined the counter, without labels.
        unsafe {
            envoy_dynamic_module_callback_http_filter_config_increment_counter(
                self,
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
                self,
                number,
                null(),
                0,
                value,
            );
        }
    }

    /// Sends a request. Returns the number of the call; `None` if Envoy does not send it.
    pub(crate) fn call(
        &self,
        cluster: &str,
        headers: &[Header<'_>],
        body: Buffer<'_>,
        timeout_milliseconds: u64,
    ) -> Option<u64> {
        let mut call = 0;
        // SAFETY: there are as many headers as said.
        let result = unsafe {
            envoy_dynamic_module_callback_http_filter_config_http_callout(
                self,
                &mut call,
                Buffer::of(cluster.as_bytes()),
                headers.as_ptr(),
                headers.len(),
                body,
                timeout_milliseconds,
            )
        };
        (result == SUCCESS).then_some(call)
    }
}

/// A request, on its worker.
impl EnvoyFilter {
    /// All headers; `None` if Envoy refuses. `room` returns room for a number of headers, which may have been used before.
    pub(crate) fn headers<'a, 'room>(
        &'a self,
        room: impl FnOnce(usize) -> &'room mut [MaybeUninit<Header<'a>>],
    ) -> Option<&'room [Header<'a>]> {
        let length = envoy_dynamic_module_callback_http_get_headers_size(self, REQUEST_HEADERS);
        let headers = room(length).get_mut(..length)?.as_mut_ptr();
        // SAFETY: there is room for as many headers as Envoy has.
        let is_done = unsafe {
            envoy_dynamic_module_callback_http_get_headers(self, REQUEST_HEADERS, headers)
        };
        // SAFETY: Envoy has written them.
        is_done.then(|| unsafe { slice::from_raw_parts(headers.cast(), length) })
    }

    /// Answers the request. It may have ended when this returns.
    pub(crate) fn respond(&mut self, status: u32, headers: &[Header<'_>], body: &[u8]) {
        // SAFETY: there are as many headers as said.
        unsafe {
            envoy_dynamic_module_callback_http_send_response(
                self,
                status,
                headers.as_ptr(),
                headers.len(),
                Buffer::of(body),
                Buffer::NONE,
            );
        }
    }
}

/// Calls the main thread, from any thread.
#[derive(Debug)]
pub(crate) struct MainThread(&'static EnvoyScheduler);

impl MainThread {
    pub(crate) fn of(config: &EnvoyConfig) -> Self {
        Self(envoy_dynamic_module_callback_http_filter_config_scheduler_new(config))
    }

    pub(crate) fn call(&self) {
        envoy_dynamic_module_callback_http_filter_config_scheduler_commit(self.0, 0);
    }
}

impl Drop for MainThread {
    fn drop(&mut self) {
        // SAFETY: nothing uses it afterwards.
        unsafe { envoy_dynamic_module_callback_http_filter_config_scheduler_delete(self.0) }
    }
}

/// Calls the worker of a request that is held, if it still exists, from any thread.
#[derive(Debug)]
pub(crate) struct Resumer(&'static EnvoyScheduler);

impl Resumer {
    pub(crate) fn of(request: &EnvoyFilter) -> Self {
        Self(envoy_dynamic_module_callback_http_filter_scheduler_new(
            request,
        ))
    }

    pub(crate) fn resume(&self) {
        envoy_dynamic_module_callback_http_filter_scheduler_commit(self.0, 0);
    }
}

impl Drop for Resumer {
    fn drop(&mut self) {
        // SAFETY: nothing uses it afterwards.
        unsafe { envoy_dynamic_module_callback_http_filter_scheduler_delete(self.0) }
    }
}
