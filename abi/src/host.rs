//! What the host can be asked. Every function returns [`Refused`] with the host's status when it does not do it.

use std::ptr::null_mut;
use std::time::{Duration, SystemTime};

use crate::pairs::{self, Pairs};

/// The host did not do it. The number is its status (`proxy_status_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(pub u32);

/// The status that a call of our own makes when its arguments do not fit the ABI.
const BAD_ARGUMENT: Refused = Refused(2);

/// How serious a line of the log is (`proxy_log_level_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Normal.
    Info = 2,
    /// Something is not as it should be.
    Warn = 3,
    /// Something failed.
    Error = 4,
    /// The plugin cannot work.
    Critical = 5,
}

/// A kind of metric (`proxy_metric_type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// It only grows.
    Counter = 0,
    /// It is what was last recorded.
    Gauge = 1,
}

/// Headers (`proxy_map_type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Map {
    Request = 0,
    CallResponse = 6,
}

/// Buffers (`proxy_buffer_type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Buffer {
    CallResponseBody = 4,
    PluginConfiguration = 7,
}

/// `proxy_stream_type_t` of a request.
const HTTP_REQUEST: u32 = 0;

/// A response that is no gRPC one.
const NO_GRPC_STATUS: i32 = -1;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_log(level: u32, message: *const u8, size: usize) -> u32;
    fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32;
    fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
    fn proxy_set_effective_context(context: u32) -> u32;
    fn proxy_continue_stream(stream: u32) -> u32;
    fn proxy_get_buffer_bytes(
        buffer: u32,
        start: usize,
        longest: usize,
        bytes: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    fn proxy_get_header_map_pairs(map: u32, bytes: *mut *mut u8, size: *mut usize) -> u32;
    fn proxy_get_header_map_value(
        map: u32,
        name: *const u8,
        name_size: usize,
        bytes: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    fn proxy_add_header_map_value(
        map: u32,
        name: *const u8,
        name_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    fn proxy_remove_header_map_value(map: u32, name: *const u8, name_size: usize) -> u32;
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_size: usize,
        body: *const u8,
        body_size: usize,
        headers: *const u8,
        headers_size: usize,
        grpc_status: i32,
    ) -> u32;
    fn proxy_http_call(
        upstream: *const u8,
        upstream_size: usize,
        headers: *const u8,
        headers_size: usize,
        body: *const u8,
        body_size: usize,
        trailers: *const u8,
        trailers_size: usize,
        timeout: u32,
        call: *mut u32,
    ) -> u32;
    fn proxy_define_metric(kind: u32, name: *const u8, name_size: usize, metric: *mut u32) -> u32;
    fn proxy_record_metric(metric: u32, value: u64) -> u32;
    fn proxy_increment_metric(metric: u32, offset: i64) -> u32;
    fn proxy_get_metric(metric: u32, value: *mut u64) -> u32;
    fn proxy_set_property(
        path: *const u8,
        path_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    fn proxy_call_foreign_function(
        name: *const u8,
        name_size: usize,
        arguments: *const u8,
        arguments_size: usize,
        bytes: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    fn proxy_get_shared_data(
        key: *const u8,
        key_size: usize,
        bytes: *mut *mut u8,
        size: *mut usize,
        version: *mut u32,
    ) -> u32;
    fn proxy_set_shared_data(
        key: *const u8,
        key_size: usize,
        value: *const u8,
        value_size: usize,
        version: u32,
    ) -> u32;
}

/// `clockid::monotonic` of WASI.
const MONOTONIC: u32 = 1;

/// The precision, in nanoseconds, that is asked of the clock.
const MILLISECOND: u64 = 1_000_000;

#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    fn clock_time_get(clock: u32, precision: u64, time: *mut u64) -> u32;
}

const fn done(status: u32) -> Result<(), Refused> {
    match status {
        0 => Ok(()),
        status => Err(Refused(status)),
    }
}

/// Memory for what the host returns; [`returned`] takes it over.
#[must_use]
pub fn allocate(size: usize) -> *mut u8 {
    Box::into_raw(Box::<[u8]>::new_uninit_slice(size)).cast()
}

/// Calls a function of the host that returns bytes, which it writes into memory of [`allocate`].
fn returned(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Result<Vec<u8>, Refused> {
    let (mut bytes, mut size) = (null_mut(), 0);
    done(call(&raw mut bytes, &raw mut size))?;
    if bytes.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the ABI has the host return what `allocate` gave it, with the size that it asked for, every byte written;
    // nobody else knows of that memory.
    Ok(unsafe { Vec::from_raw_parts(bytes, size, size) })
}

/// Has a panic leave a line in the log before it ends the VM.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let _ = log(LogLevel::Critical, &panic.to_string());
    }));
}

/// Writes a line.
pub fn log(level: LogLevel, message: &str) -> Result<(), Refused> {
    // SAFETY: the host only reads the message, during the call.
    done(unsafe { proxy_log(level as u32, message.as_ptr(), message.len()) })
}

/// The time.
pub fn current_time() -> Result<SystemTime, Refused> {
    let mut nanoseconds = 0;
    // SAFETY: the host writes the one number.
    done(unsafe { proxy_get_current_time_nanoseconds(&raw mut nanoseconds) })?;
    SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_nanos(nanoseconds))
        .ok_or(BAD_ARGUMENT)
}

/// Time since a moment of the host's choice, by its monotonic clock. It is the same moment for all VMs of one process of
/// most hosts, and no caller may rely on that.
///
/// The standard library's `Instant` panics where a host has no such clock; here it is an error (an `errno` of WASI).
pub fn monotonic_time() -> Result<Duration, Refused> {
    let mut nanoseconds = 0;
    // SAFETY: the host writes the one number.
    done(unsafe { clock_time_get(MONOTONIC, MILLISECOND, &raw mut nanoseconds) })?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// Has the root whose context is in effect ticked each `period`, good to a millisecond.
pub fn set_tick_period(period: Duration) -> Result<(), Refused> {
    let milliseconds = milliseconds(period)?;
    // SAFETY: only a number crosses.
    done(unsafe { proxy_set_tick_period_milliseconds(milliseconds) })
}

fn milliseconds(duration: Duration) -> Result<u32, Refused> {
    u32::try_from(duration.as_millis()).map_err(|_| BAD_ARGUMENT)
}

/// Puts another context in effect: the calls that follow are about it. Refused when it has ended.
pub fn set_effective_context(context: u32) -> Result<(), Refused> {
    // SAFETY: only a number crosses.
    done(unsafe { proxy_set_effective_context(context) })
}

/// Lets a paused request go on.
pub fn continue_request() -> Result<(), Refused> {
    // SAFETY: only a number crosses.
    done(unsafe { proxy_continue_stream(HTTP_REQUEST) })
}

/// The configuration of the plugin, while it is being configured.
pub fn plugin_configuration() -> Result<Vec<u8>, Refused> {
    buffer(Buffer::PluginConfiguration, usize::MAX)
}

/// The body of a response, at most `longest` bytes of it.
pub fn call_response_body(longest: usize) -> Result<Vec<u8>, Refused> {
    buffer(Buffer::CallResponseBody, longest)
}

fn buffer(buffer: Buffer, longest: usize) -> Result<Vec<u8>, Refused> {
    // SAFETY: the host writes where and how long the bytes are.
    returned(|bytes, size| unsafe {
        proxy_get_buffer_bytes(buffer as u32, 0, longest, bytes, size)
    })
}

/// All headers of the request, names in lower case.
pub fn request_headers() -> Result<Pairs, Refused> {
    // SAFETY: the host writes where and how long the bytes are.
    returned(|bytes, size| unsafe { proxy_get_header_map_pairs(Map::Request as u32, bytes, size) })
        .map(Pairs::new)
}

/// One header of a response.
pub fn call_response_header(name: &str) -> Result<Vec<u8>, Refused> {
    // SAFETY: the host only reads the name, during the call, and writes where and how long the bytes are.
    returned(|bytes, size| unsafe {
        proxy_get_header_map_value(
            Map::CallResponse as u32,
            name.as_ptr(),
            name.len(),
            bytes,
            size,
        )
    })
}

/// Adds a header to the request.
pub fn add_request_header(name: &str, value: &str) -> Result<(), Refused> {
    // SAFETY: the host only reads both, during the call.
    done(unsafe {
        proxy_add_header_map_value(
            Map::Request as u32,
            name.as_ptr(),
            name.len(),
            value.as_ptr(),
            value.len(),
        )
    })
}

/// Removes every header of this name from the request.
pub fn remove_request_header(name: &[u8]) -> Result<(), Refused> {
    // SAFETY: the host only reads the name, during the call.
    done(unsafe { proxy_remove_header_map_value(Map::Request as u32, name.as_ptr(), name.len()) })
}

/// Answers the request.
pub fn respond(status: u32, headers: &[(&str, &str)], body: &[u8]) -> Result<(), Refused> {
    let headers = pairs::encode(headers).ok_or(BAD_ARGUMENT)?;
    let details: &[u8] = &[];
    // SAFETY: the host only reads all of it, during the call.
    done(unsafe {
        proxy_send_local_response(
            status,
            details.as_ptr(),
            details.len(),
            body.as_ptr(),
            body.len(),
            headers.as_ptr(),
            headers.len(),
            NO_GRPC_STATUS,
        )
    })
}

/// Sends a request without a body to an upstream of the host. Returns the number of the call: with it, its end is told to
/// the context in effect.
pub fn call(upstream: &str, headers: &[(&str, &str)], timeout: Duration) -> Result<u32, Refused> {
    let headers = pairs::encode(headers).ok_or(BAD_ARGUMENT)?;
    let trailers = pairs::encode(&[]).ok_or(BAD_ARGUMENT)?;
    let timeout = milliseconds(timeout)?;
    let body: &[u8] = &[];
    let mut call = 0;
    // SAFETY: the host only reads all of it, during the call, and writes the one number.
    done(unsafe {
        proxy_http_call(
            upstream.as_ptr(),
            upstream.len(),
            headers.as_ptr(),
            headers.len(),
            body.as_ptr(),
            body.len(),
            trailers.as_ptr(),
            trailers.len(),
            timeout,
            &raw mut call,
        )
    })?;
    Ok(call)
}

/// Defines a metric and returns its number.
pub fn define_metric(kind: MetricType, name: &str) -> Result<u32, Refused> {
    let mut metric = 0;
    // SAFETY: the host only reads the name, during the call, and writes the one number.
    done(unsafe { proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &raw mut metric) })?;
    Ok(metric)
}

/// Sets a gauge.
pub fn record_metric(metric: u32, value: u64) -> Result<(), Refused> {
    // SAFETY: only numbers cross.
    done(unsafe { proxy_record_metric(metric, value) })
}

/// Adds to a counter, or to a gauge, from which a negative number subtracts.
pub fn increment_metric(metric: u32, by: i64) -> Result<(), Refused> {
    // SAFETY: only numbers cross.
    done(unsafe { proxy_increment_metric(metric, by) })
}

/// The value of a metric.
pub fn metric(metric: u32) -> Result<u64, Refused> {
    let mut value = 0;
    // SAFETY: the host writes the one number.
    done(unsafe { proxy_get_metric(metric, &raw mut value) })?;
    Ok(value)
}

/// Sets a property of the request, which has a name of one part.
pub fn set_property(name: &str, value: &[u8]) -> Result<(), Refused> {
    // SAFETY: the host only reads both, during the call.
    done(unsafe { proxy_set_property(name.as_ptr(), name.len(), value.as_ptr(), value.len()) })
}

/// Calls a function that this host has beyond the ABI.
pub fn call_foreign_function(name: &str, arguments: &[u8]) -> Result<Vec<u8>, Refused> {
    // SAFETY: the host only reads both, during the call, and writes where and how long the bytes are.
    returned(|bytes, size| unsafe {
        proxy_call_foreign_function(
            name.as_ptr(),
            name.len(),
            arguments.as_ptr(),
            arguments.len(),
            bytes,
            size,
        )
    })
}

/// `proxy_status_t`: there is no such thing.
const NOT_FOUND: u32 = 1;

/// `proxy_status_t`: the value is not of the version that was named.
const VERSION_MISMATCH: u32 = 8;

/// What every VM of the same `vm_id` can read under `key`, with the version of the value; `None` if there is nothing.
pub fn shared_data(key: &str) -> Result<Option<(Vec<u8>, u32)>, Refused> {
    let mut version = 0;
    // SAFETY: the host only reads the key, during the call, and writes the version, and where and how long the bytes are.
    let value = returned(|bytes, size| unsafe {
        proxy_get_shared_data(key.as_ptr(), key.len(), bytes, size, &raw mut version)
    });
    match value {
        Ok(value) => Ok(Some((value, version))),
        Err(Refused(NOT_FOUND)) => Ok(None),
        Err(refused) => Err(refused),
    }
}

/// Puts `value` under `key` for every VM of the same `vm_id`. With a version, only if the value has that version still;
/// returns whether it had.
pub fn set_shared_data(key: &str, value: &[u8], version: Option<u32>) -> Result<bool, Refused> {
    // No version is 0.
    let version = version.unwrap_or(0);
    // SAFETY: the host only reads both, during the call.
    let set = done(unsafe {
        proxy_set_shared_data(
            key.as_ptr(),
            key.len(),
            value.as_ptr(),
            value.len(),
            version,
        )
    });
    match set {
        Ok(()) => Ok(true),
        Err(Refused(VERSION_MISMATCH)) => Ok(false),
        Err(refused) => Err(refused),
    }
}
