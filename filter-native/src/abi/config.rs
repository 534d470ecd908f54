//! What belongs to a configuration.

use std::ptr::null;

use guard::guard::Fetch;

use super::{
    Buffer, ConfigPtr, Header, SUCCESS, SchedulerPtr,
    envoy_dynamic_module_callback_http_filter_config_define_counter,
    envoy_dynamic_module_callback_http_filter_config_define_gauge,
    envoy_dynamic_module_callback_http_filter_config_http_callout,
    envoy_dynamic_module_callback_http_filter_config_increment_counter,
    envoy_dynamic_module_callback_http_filter_config_scheduler_commit,
    envoy_dynamic_module_callback_http_filter_config_scheduler_delete,
    envoy_dynamic_module_callback_http_filter_config_scheduler_new,
    envoy_dynamic_module_callback_http_filter_config_set_gauge,
};

/// A counter of one configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter(usize);

/// A gauge of one configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gauge(usize);

/// Envoy's side of a configuration. It lives as long as the module's side.
#[derive(Debug)]
pub(crate) struct Config(ConfigPtr);

// SAFETY: the main thread alone uses it, but for its creation of a scheduler, which is before the workers know it.
unsafe impl Send for Config {}
// SAFETY: as above.
unsafe impl Sync for Config {}

impl Config {
    pub(crate) const fn of(config: ConfigPtr) -> Self {
        Self(config)
    }

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
