//! Envoy's functions of the ABI for modules, version v0.2.0, as far as the filter needs them. The names and layouts are those of
//! `source/extensions/dynamic_modules/abi/abi.h` in Envoy 1.40. [`hooks`](crate::hooks) has the functions that Envoy calls.
//!
//! Pointers that Envoy passes into a call are valid until the call returns. What Envoy lends of a request (its headers) is valid
//! until the request changes, so changes take the [`Stream`] by `&mut`.

mod config;
mod stream;

use std::ffi::c_void;
use std::ptr::null;
use std::slice;

pub(crate) use self::config::{Config, Counter, Gauge, MainThread};
pub(crate) use self::stream::{Resumer, Room, Stream};

/// Envoy's object of a filter configuration.
pub(crate) type ConfigPtr = *mut c_void;

/// Envoy's object of the filter in one request.
pub(crate) type FilterPtr = *mut c_void;

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
    /// No bytes. Envoy takes an empty text for the same: it adds no header without a value.
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
    pub(crate) const unsafe fn bytes<'a>(self) -> &'a [u8] {
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
    pub(crate) name: Buffer,
    pub(crate) value: Buffer,
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
