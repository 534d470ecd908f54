//! Everything that calls the proxy-wasm host. It decides nothing: [`Guard`] does.

mod crypto;
mod log;
mod metrics;
mod request;
mod root;
mod shared;

use proxy_wasm::traits::RootContext;
use proxy_wasm::types::LogLevel;

use self::root::Root;

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|context_id| -> Box<dyn RootContext> { Box::new(Root::new(context_id)) });
}}
