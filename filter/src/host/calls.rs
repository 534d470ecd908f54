//! Calls of the host that the filter makes without the SDK.
//!
//! The SDK panics when the host refuses one of these calls, and a panic ends the VM of a whole worker. The
//! functions here return the refusal as an error.

use std::ptr::null_mut;
use std::time::Duration;

use proxy_wasm::types::{LogLevel, MapType, StreamType};

use crate::pairs::{self, Pairs};

/// The host refused the call. The number is the host's status (`proxy_status_t`), or an `errno` of WASI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostError(u32);

/// `proxy_status_t`: not found.
const NOT_FOUND: HostError = HostError(1);

/// `proxy_status_t`: the value has another version than the call named.
const VERSION_MISMATCH: HostError = HostError(8);

/// `proxy_status_t`: the arguments do not fit the ABI.
const BAD_ARGUMENT: HostError = HostError(2);

/// `grpc_status` of a response that is not gRPC.
const NO_GRPC_STATUS: i32 = -1;

/// `clockid::monotonic` of WASI.
const MONOTONIC: u32 = 1;

/// Precision for reading the clock, in nanoseconds.
const MILLISECOND: u64 = 1_000_000;

const REQUEST: u32 = MapType::HttpRequestHeaders as u32;
const RESPONSE: u32 = MapType::HttpCallResponseHeaders as u32;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_get_header_map_pairs(map: u32, bytes: *mut *mut u8, size: *mut usize) -> u32;
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
    safe fn proxy_continue_stream(stream: u32) -> u32;
    fn proxy_get_property(
        path: *const u8,
        path_size: usize,
        bytes: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    fn proxy_set_property(
        path: *const u8,
        path_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    fn proxy_log(level: u32, line: *const u8, size: usize) -> u32;
    safe fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
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

#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    fn clock_time_get(clock: u32, precision: u64, time: *mut u64) -> u32;
}

const fn done(status: u32) -> Result<(), HostError> {
    match status {
        0 => Ok(()),
        status => Err(HostError(status)),
    }
}

/// Calls a function of the host that returns bytes.
fn returned(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Result<Vec<u8>, HostError> {
    let (mut bytes, mut size) = (null_mut(), 0);
    done(call(&raw mut bytes, &raw mut size))?;
    if bytes.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: by the ABI, the host returns memory that the SDK's `proxy_on_memory_allocate` allocated as a
    // boxed slice of this size, with every byte written. Nothing else refers to that memory.
    Ok(unsafe { Vec::from_raw_parts(bytes, size, size) })
}

fn pairs(map: u32) -> Result<Pairs, HostError> {
    // SAFETY: the host writes the address and the size of the bytes.
    returned(|bytes, size| unsafe { proxy_get_header_map_pairs(map, bytes, size) }).map(Pairs::new)
}

/// Returns all headers of the request, names in lower case. If the host refuses, the filter refuses the
/// request.
pub(super) fn request_headers() -> Result<Pairs, HostError> {
    pairs(REQUEST)
}

/// Returns all headers of the response to a fetch. Envoy refuses if the fetch had no response.
pub(super) fn response_headers() -> Result<Pairs, HostError> {
    pairs(RESPONSE)
}

/// Adds a header to the request. If the host refuses, the filter refuses the request.
pub(super) fn add_request_header(name: &str, value: &str) -> Result<(), HostError> {
    // SAFETY: the host only reads both texts, during the call.
    done(unsafe {
        proxy_add_header_map_value(
            REQUEST,
            name.as_ptr(),
            name.len(),
            value.as_ptr(),
            value.len(),
        )
    })
}

/// Removes every header of this name from the request. If the host refuses, the filter refuses the request.
pub(super) fn remove_request_header(name: &[u8]) -> Result<(), HostError> {
    // SAFETY: the host only reads the name, during the call.
    done(unsafe { proxy_remove_header_map_value(REQUEST, name.as_ptr(), name.len()) })
}

/// Answers the request. If the host refuses, the request stays paused and never passes.
pub(super) fn respond(status: u32, headers: &[(&str, &str)], body: &[u8]) -> Result<(), HostError> {
    let headers = pairs::encode(headers).ok_or(BAD_ARGUMENT)?;
    let details: &[u8] = &[];
    // SAFETY: the host only reads the arguments, during the call.
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

/// Resumes a paused request, which the host may have ended.
pub(super) fn continue_request() -> Result<(), HostError> {
    done(proxy_continue_stream(StreamType::HttpRequest as u32))
}

/// Reads a property of the request or its connection; `path` has its parts separated by a zero byte. Hosts without the
/// property refuse.
pub(super) fn property(path: &str) -> Result<Vec<u8>, HostError> {
    // SAFETY: the host only reads the path, during the call, and writes the address and the size of the bytes.
    returned(|bytes, size| unsafe { proxy_get_property(path.as_ptr(), path.len(), bytes, size) })
}

/// Sets a property of the request; `name` is a path of one part. Envoy refuses if another plugin made the
/// property read-only.
pub(super) fn set_property(name: &str, value: &[u8]) -> Result<(), HostError> {
    // SAFETY: the host only reads both texts, during the call.
    done(unsafe { proxy_set_property(name.as_ptr(), name.len(), value.as_ptr(), value.len()) })
}

/// Writes a line to the host's log. Any client can cause a line by a refused request.
pub(super) fn log(level: LogLevel, line: &str) -> Result<(), HostError> {
    // SAFETY: the host only reads the line, during the call.
    done(unsafe { proxy_log(level as u32, line.as_ptr(), line.len()) })
}

/// Requests a tick every `period`, in whole milliseconds, for the root whose context is in effect.
pub(super) fn set_tick_period(period: Duration) -> Result<(), HostError> {
    let milliseconds = u32::try_from(period.as_millis()).map_err(|_| BAD_ARGUMENT)?;
    done(proxy_set_tick_period_milliseconds(milliseconds))
}

/// Time of the host's monotonic clock. In most hosts, the start of this clock is the same for all VMs of a
/// process; in others, VMs do not take over what they share. The standard library's `Instant` panics in a host without such a
/// clock.
pub(super) fn monotonic_time() -> Result<Duration, HostError> {
    let mut nanoseconds = 0;
    // SAFETY: the host only writes the number.
    done(unsafe { clock_time_get(MONOTONIC, MILLISECOND, &raw mut nanoseconds) })?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// Reads the value of `key`, which all VMs of the same `vm_id` share, with its version; `None` if there is no
/// value. Hosts without shared data refuse.
pub(super) fn shared_data(key: &str) -> Result<Option<(Vec<u8>, u32)>, HostError> {
    let mut version = 0;
    // SAFETY: the host only reads the key, during the call, and writes the version, the address and the size of
    // the bytes.
    let value = returned(|bytes, size| unsafe {
        proxy_get_shared_data(key.as_ptr(), key.len(), bytes, size, &raw mut version)
    });
    match value {
        Ok(value) => Ok(Some((value, version))),
        Err(NOT_FOUND) => Ok(None),
        Err(refused) => Err(refused),
    }
}

/// Sets the value of `key` for all VMs of the same `vm_id`. With a version, sets it only if the stored value
/// still has that version. Returns true if the value was set.
pub(super) fn set_shared_data(
    key: &str,
    value: &[u8],
    version: Option<u32>,
) -> Result<bool, HostError> {
    // 0 stands for no version.
    let version = version.unwrap_or(0);
    // SAFETY: the host only reads both texts, during the call.
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
        Err(VERSION_MISMATCH) => Ok(false),
        Err(refused) => Err(refused),
    }
}
