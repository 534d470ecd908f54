//! The functions that Envoy calls, of the same ABI as [`abi`].

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::slice;

use crate::abi::{
    self, Action, Buffer, Config, ConfigPtr, FilterPtr, Header, Level, SUCCESS, Stream,
};
use crate::gate::{self, Gate};
use crate::version;

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
    std::panic::set_hook(Box::new(|panic| {
        abi::log(Level::Critical, &panic.to_string())
    }));
    match catch_unwind(version::check) {
        Ok(Ok(())) => CStr::as_ptr(version::VERSION),
        Ok(Err(problem)) => {
            abi::log(Level::Critical, &problem);
            null()
        }
        Err(_) => null(),
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
    match catch_unwind(|| Gate::configure(Config::of(config), text)) {
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
    let body = || {
        let mut body = Vec::new();
        for chunk in chunks {
            // SAFETY: the chunks are valid during the call.
            body.extend_from_slice(unsafe { chunk.bytes() });
        }
        body
    };
    let status = headers.iter().find_map(|header| {
        // SAFETY: the headers are valid during the call.
        let name = unsafe { header.name.bytes() };
        // SAFETY: as above.
        (name == b":status").then(|| unsafe { header.value.bytes() })
    });
    let status = status.filter(|_| result == SUCCESS);
    let _ = guarded(gate, || gate.fetched(call, status, body()));
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
            // The request exists, because the module has not answered it.
            Stream::of(envoy).go_on();
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
