//! The functions that Envoy calls.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

use guard::answers::Answer;

use crate::abi::{
    self, Action, Buffer, EnvoyConfig, EnvoyFilter, Header, Kept, Level, List, SUCCESS,
    envoy_dynamic_module_callback_http_filter_continue_decoding as go_on,
    envoy_dynamic_module_callback_http_filter_get_worker_index as worker_of,
};
use crate::gate::{Gate, Reply, refusal};
use crate::stream::Stream;
use crate::version;

/// The filter in one request. Envoy ends all requests of a configuration before the configuration.
#[derive(Clone, Copy)]
struct Filter<'a> {
    gate: &'a Gate,
    worker: usize,
    /// The number of the request while it waits.
    held: Option<u32>,
}

/// `None`: a panic has left none.
type KeptFilter<'a> = Option<Kept<Filter<'a>>>;

abi::exported! {
    envoy_dynamic_module_on_program_init() -> *const c_char = load;
    envoy_dynamic_module_on_http_filter_config_new(
        config: &'static EnvoyConfig, name: Buffer<'_>, text: Buffer<'_>
    ) -> Option<Kept<Gate>> = |config, _, text| configure(config, text);
    envoy_dynamic_module_on_http_filter_config_destroy(gate: Kept<Gate>) = end;
    envoy_dynamic_module_on_http_filter_config_scheduled(config: &EnvoyConfig, gate: &Gate, event: u64) = |_, gate, _| tick(gate);
    envoy_dynamic_module_on_http_filter_config_http_callout_done(
        config: &EnvoyConfig, gate: &Gate, call: u64, result: u32,
        headers: List<'_, Header<'_>>, headers_length: usize, chunks: List<'_, Buffer<'_>>, chunks_length: usize
    ) = |_, gate, call, result, headers: List<'_, _>, headers_length, chunks: List<'_, _>, chunks_length| {
        fetched(gate, call, result, headers.of_length(headers_length), chunks.of_length(chunks_length));
    };
    envoy_dynamic_module_on_http_filter_new<'a>(gate: &'a Gate, envoy: &EnvoyFilter) -> KeptFilter<'a> = arrive;
    envoy_dynamic_module_on_http_filter_request_headers(
        envoy: &mut EnvoyFilter, filter: KeptFilter<'_>, is_last: bool
    ) -> Action = |envoy, filter, _| decide(envoy, filter);
    envoy_dynamic_module_on_http_filter_scheduled(
        envoy: &mut EnvoyFilter, filter: KeptFilter<'_>, event: u64
    ) = |envoy, filter, _| resume(envoy, filter);
    envoy_dynamic_module_on_http_filter_destroy(filter: KeptFilter<'_>) = leave;
}

/// Runs a part of a call. A panic must not leave the module: Envoy would end.
fn guarded<T>(gate: &Gate, part: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(part));
    if result.is_err() {
        // The hook of panics has logged it.
        gate.panicked();
    }
    result.ok()
}

/// Envoy loads the module. Null refuses.
fn load() -> *const c_char {
    let loaded = catch_unwind(|| {
        std::panic::set_hook(Box::new(|panic| {
            abi::log(Level::Critical, &panic.to_string());
        }));
        version::check()
    });
    match loaded {
        Ok(Ok(())) => CStr::as_ptr(version::VERSION),
        Ok(Err(problem)) => {
            abi::log(Level::Critical, &problem);
            null()
        }
        Err(_) => null(),
    }
}

/// A new configuration, on the main thread. `None` refuses it.
fn configure(config: &'static EnvoyConfig, text: Buffer<'_>) -> Option<Kept<Gate>> {
    let gate = catch_unwind(AssertUnwindSafe(|| {
        Gate::configure(config, text.bytes()).map(Kept::new)
    }));
    gate.ok().flatten()
}

/// The end of a configuration, on any thread. No request uses it any more.
fn end(gate: Kept<Gate>) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // The main thread may be about to leave it.
        gate.get().end();
        drop(gate.end());
    }));
}

/// The main thread was called.
fn tick(gate: &Gate) {
    let _ = guarded(gate, || gate.tick());
}

/// The end of a fetch, on the main thread.
fn fetched(gate: &Gate, call: u64, result: u32, headers: &[Header<'_>], chunks: &[Buffer<'_>]) {
    let _ = guarded(gate, || {
        let mut headers = headers.iter();
        let status = headers
            .find(|header| header.name.bytes() == b":status")
            .filter(|_| result == SUCCESS)
            .map(|header| header.value.bytes());
        let chunks: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.bytes()).collect();
        gate.fetched(call, status, chunks.concat());
    });
}

/// A new request.
fn arrive<'a>(gate: &'a Gate, envoy: &EnvoyFilter) -> KeptFilter<'a> {
    guarded(gate, || {
        Kept::new(Filter {
            gate,
            worker: worker_of(envoy) as usize,
            held: None,
        })
    })
}

/// Answers a request. The request may have ended afterwards, so a panic here is not the reason for another answer.
#[cold]
fn answer(kept: &KeptFilter<'_>, envoy: &mut EnvoyFilter, answer: &Answer) {
    let answer = || Stream::of(envoy).answer(answer);
    let _ = match kept.as_ref().map(|kept| kept.get().gate) {
        Some(gate) => guarded(gate, answer),
        None => catch_unwind(AssertUnwindSafe(answer)).ok(),
    };
}

/// The headers of a request have arrived.
fn decide(envoy: &mut EnvoyFilter, kept: KeptFilter<'_>) -> Action {
    let reply = kept.as_ref().and_then(|kept| {
        let filter = *kept.get();
        let decide = || filter.gate.decide(Stream::of(envoy), filter.worker);
        let reply = guarded(filter.gate, decide);
        if let Some(Reply::Hold(number)) = reply {
            let held = Some(number);
            kept.change(Filter { held, ..filter });
        }
        reply
    });
    match reply.unwrap_or_else(|| Reply::Answer(refusal())) {
        Reply::Pass => Action::Continue,
        Reply::Hold(_) => Action::Hold,
        Reply::Answer(refusal) => {
            answer(&kept, envoy, &refusal);
            Action::Stop
        }
    }
}

/// A request that is held may continue.
fn resume(envoy: &mut EnvoyFilter, kept: KeptFilter<'_>) {
    let Some(kept_filter) = &kept else {
        return;
    };
    let filter = *kept_filter.get();
    let Some(number) = filter.held else {
        return;
    };
    let held = None;
    kept_filter.change(Filter { held, ..filter });
    let resume = || filter.gate.resume(Stream::of(envoy), filter.worker, number);
    match guarded(filter.gate, resume).unwrap_or_else(|| Reply::Answer(refusal())) {
        Reply::Answer(refusal) => answer(&kept, envoy, &refusal),
        _ => go_on(envoy),
    }
}

/// A request has ended.
fn leave(kept: KeptFilter<'_>) {
    let Some(filter) = kept.map(Kept::end) else {
        return;
    };
    if let Some(number) = filter.held {
        let _ = guarded(filter.gate, || filter.gate.forget(filter.worker, number));
    }
}

// Calls about which the filter does nothing: Envoy continues. It looks for all of them when it loads the module. Callers pass
// arguments, which a function of the C ABI may leave where they are.
abi::ignored! {
    envoy_dynamic_module_on_http_filter_request_body -> u32;
    envoy_dynamic_module_on_http_filter_request_trailers -> u32;
    envoy_dynamic_module_on_http_filter_response_headers -> u32;
    envoy_dynamic_module_on_http_filter_response_body -> u32;
    envoy_dynamic_module_on_http_filter_response_trailers -> u32;
    envoy_dynamic_module_on_http_filter_stream_complete -> ();
    envoy_dynamic_module_on_http_filter_http_callout_done -> ();
    envoy_dynamic_module_on_http_filter_http_stream_headers -> ();
    envoy_dynamic_module_on_http_filter_http_stream_data -> ();
    envoy_dynamic_module_on_http_filter_http_stream_trailers -> ();
    envoy_dynamic_module_on_http_filter_http_stream_complete -> ();
    envoy_dynamic_module_on_http_filter_http_stream_reset -> ();
    envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark -> ();
    envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark -> ();
    envoy_dynamic_module_on_http_filter_local_reply -> u32;
}
