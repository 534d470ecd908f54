//! The part of the filter that deals with the proxy-wasm host. All decisions come from [`guard`].

#[expect(unsafe_code, reason = "calls of the host are unsafe")]
mod calls;
mod clock;
mod crypto;
mod data;
mod log;
mod metrics;
mod request;
mod root;

use std::panic;
use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType, LogLevel};

use self::root::Root;

proxy_wasm::main! {{
    // The SDK's own hook comes with a logger, and panics if the host refuses to log.
    panic::set_hook(Box::new(|panic| self::log::write(LogLevel::Critical, &panic.to_string())));
    proxy_wasm::set_root_context(|context| Box::new(Plugin { context, root: None }));
}}

/// A root context: one configuration of the filter in this VM.
struct Plugin {
    context: u32,
    /// `None` until the plugin has a valid configuration.
    root: Option<Rc<Root>>,
}

impl Context for Plugin {
    fn on_http_call_response(&mut self, call: u32, _: usize, body_size: usize, _: usize) {
        if let Some(root) = &self.root {
            root.call_ended(call, body_size);
        }
    }
}

impl RootContext for Plugin {
    fn on_configure(&mut self, _: usize) -> bool {
        let configuration = self.get_plugin_configuration().unwrap_or_default();
        self.root = Root::configure(self.context, &configuration).map(Rc::new);
        self.root.is_some()
    }

    fn on_tick(&mut self) {
        if let Some(root) = &self.root {
            root.tick();
        }
    }

    fn create_http_context(&self, context: u32) -> Option<Box<dyn HttpContext>> {
        let root = self.root.clone();
        Some(Box::new(Stream { context, root }))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

/// The SDK drops a context when it ends.
impl Drop for Plugin {
    fn drop(&mut self) {
        if let Some(root) = &self.root {
            root.end();
        }
    }
}

/// One request.
struct Stream {
    context: u32,
    root: Option<Rc<Root>>,
}

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        match &self.root {
            Some(root) => root.decide(self.context),
            None => request::refuse_unconfigured(),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(root) = &self.root {
            root.forget(self.context);
        }
    }
}
