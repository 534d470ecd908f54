//! What belongs to a request.

use std::mem::MaybeUninit;

use claims::Thumbprint;
use guard::Connection;
use guard::access_log;
use guard::answers::Answer;
use guard::driver::Passing;

use crate::abi::{
    Buffer, CERTIFICATE_DIGEST, EnvoyFilter, Header, REQUEST_HEADERS, Resumer,
    envoy_dynamic_module_callback_http_add_header,
    envoy_dynamic_module_callback_http_clear_route_cache,
    envoy_dynamic_module_callback_http_filter_get_attribute_string,
    envoy_dynamic_module_callback_http_set_filter_state_bytes,
    envoy_dynamic_module_callback_http_set_header,
};

/// A request, during one of the calls about it.
#[derive(Debug)]
pub(crate) struct Stream<'a> {
    filter: &'a mut EnvoyFilter,
    /// True if headers have changed since Envoy chose the route.
    has_changed: bool,
}

/// So many headers need no allocation.
const FEW: usize = 32;

/// Room for the headers of a request.
pub(crate) struct Room<'a> {
    few: [MaybeUninit<Header<'a>>; FEW],
    many: Vec<MaybeUninit<Header<'a>>>,
}

impl<'a> Room<'a> {
    pub(crate) const fn new() -> Self {
        Self {
            few: [const { MaybeUninit::uninit() }; FEW],
            many: Vec::new(),
        }
    }

    /// Room for this number of headers.
    fn of(&mut self, length: usize) -> &mut [MaybeUninit<Header<'a>>] {
        if length <= FEW {
            return &mut self.few;
        }
        self.many.resize(length, MaybeUninit::uninit());
        &mut self.many
    }
}

impl<'a> Stream<'a> {
    pub(crate) const fn of(filter: &'a mut EnvoyFilter) -> Self {
        Self {
            filter,
            has_changed: false,
        }
    }

    /// Lets Envoy choose the route again, by headers that no client has set, if headers have changed.
    pub(crate) fn choose_route(&mut self) {
        if std::mem::take(&mut self.has_changed) {
            envoy_dynamic_module_callback_http_clear_route_cache(self.filter);
        }
    }

    /// All headers of the request, names in lower case; `None` if Envoy refuses.
    pub(crate) fn headers<'s, 'room>(
        &'s self,
        room: &'room mut Room<'s>,
    ) -> Option<&'room [Header<'s>]> {
        self.filter.headers(|length| room.of(length))
    }

    /// Removes every header of this name. Returns false if Envoy refuses.
    pub(crate) fn remove_header(&mut self, name: &[u8]) -> bool {
        self.has_changed = true;
        let name = Buffer::of(name);
        envoy_dynamic_module_callback_http_set_header(
            self.filter,
            REQUEST_HEADERS,
            name,
            Buffer::NONE,
        )
    }

    pub(crate) fn answer(self, answer: &Answer) {
        let headers = answer.headers.iter();
        let headers: Vec<Header<'_>> = headers
            .map(|(name, value)| Header::of(name, value))
            .collect();
        self.filter
            .respond(answer.status, &headers, answer.body.as_bytes());
    }

    /// A way to the worker of this request.
    pub(crate) fn resumer(&self) -> Resumer {
        Resumer::of(self.filter)
    }
}

impl Connection for Stream<'_> {
    fn certificate(&self) -> Option<Thumbprint> {
        let mut digits = Buffer::NONE;
        let is_there = envoy_dynamic_module_callback_http_filter_get_attribute_string(
            self.filter,
            CERTIFICATE_DIGEST,
            &mut digits,
        );
        is_there
            .then(|| Thumbprint::parse_hexadecimal(digits.bytes()))
            .flatten()
    }
}

impl Passing for Stream<'_> {
    fn remove(&mut self, name: &str) -> bool {
        self.remove_header(name.as_bytes())
    }

    fn add(&mut self, name: &str, value: &str) -> bool {
        self.has_changed = true;
        let (name, value) = (Buffer::of(name.as_bytes()), Buffer::of(value.as_bytes()));
        envoy_dynamic_module_callback_http_add_header(self.filter, REQUEST_HEADERS, name, value)
    }

    fn tell_access_log(&mut self, entry: &str) {
        // The name under which Envoy keeps the property of the filter in WebAssembly.
        let key = format!("wasm.{}", access_log::PROPERTY);
        let (key, value) = (Buffer::of(key.as_bytes()), Buffer::of(entry.as_bytes()));
        envoy_dynamic_module_callback_http_set_filter_state_bytes(self.filter, key, value);
    }
}
