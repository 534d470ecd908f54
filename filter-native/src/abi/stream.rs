//! What belongs to a request.

use std::mem::MaybeUninit;
use std::slice;

use claims::Thumbprint;
use guard::access_log;
use guard::driver::Passing;
use guard::guard::Connection;

use super::{
    Buffer, CERTIFICATE_DIGEST, FilterPtr, Header, REQUEST_HEADERS, SchedulerPtr,
    envoy_dynamic_module_callback_http_add_header,
    envoy_dynamic_module_callback_http_clear_route_cache,
    envoy_dynamic_module_callback_http_filter_continue_decoding,
    envoy_dynamic_module_callback_http_filter_get_attribute_string,
    envoy_dynamic_module_callback_http_filter_get_worker_index,
    envoy_dynamic_module_callback_http_filter_scheduler_commit,
    envoy_dynamic_module_callback_http_filter_scheduler_delete,
    envoy_dynamic_module_callback_http_filter_scheduler_new,
    envoy_dynamic_module_callback_http_get_headers,
    envoy_dynamic_module_callback_http_get_headers_size,
    envoy_dynamic_module_callback_http_send_response,
    envoy_dynamic_module_callback_http_set_filter_state_bytes,
    envoy_dynamic_module_callback_http_set_header,
};

/// A request, during one of the calls about it.
#[derive(Debug)]
pub(crate) struct Stream {
    filter: FilterPtr,
    /// True if headers have changed since Envoy chose the route.
    has_changed: bool,
}

/// So many headers need no allocation.
const FEW: usize = 32;

/// Room for the headers of a request.
pub(crate) struct Room {
    few: [MaybeUninit<Header>; FEW],
    many: Vec<MaybeUninit<Header>>,
}

impl Room {
    pub(crate) const fn new() -> Self {
        Self {
            few: [const { MaybeUninit::uninit() }; FEW],
            many: Vec::new(),
        }
    }

    /// Room for this number of headers.
    fn of(&mut self, length: usize) -> &mut [MaybeUninit<Header>] {
        if length <= FEW {
            return &mut self.few;
        }
        self.many.resize(length, MaybeUninit::uninit());
        &mut self.many
    }
}

/// All headers of a request. They are Envoy's.
pub(crate) struct Headers<'a> {
    headers: &'a [Header],
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
    pub(crate) const fn of(filter: FilterPtr) -> Self {
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
    pub(crate) fn headers<'a>(&'a self, room: &'a mut Room) -> Option<Headers<'a>> {
        // SAFETY: the request exists during the call.
        let length = unsafe {
            envoy_dynamic_module_callback_http_get_headers_size(self.filter, REQUEST_HEADERS)
        };
        let headers: *mut Header = room.of(length).as_mut_ptr().cast();
        // SAFETY: Envoy writes as many headers as it said.
        let is_done = unsafe {
            envoy_dynamic_module_callback_http_get_headers(self.filter, REQUEST_HEADERS, headers)
        };
        if !is_done {
            return None;
        }
        Some(Headers {
            // SAFETY: Envoy has written them.
            headers: unsafe { slice::from_raw_parts(headers, length) },
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

    /// Goes on with the request, which was held.
    pub(crate) fn go_on(&self) {
        // SAFETY: the request exists during the call.
        unsafe { envoy_dynamic_module_callback_http_filter_continue_decoding(self.filter) }
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
        Thumbprint::parse_hexadecimal(unsafe { digits.bytes() })
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
