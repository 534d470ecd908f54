//! What the host calls.

/// What becomes of a request for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It goes on.
    Continue = 0,
    /// It stays until it is continued or answered.
    Pause = 1,
}

/// A plugin. One value serves one VM, which has one thread and may hold several configurations of the plugin, each with a
/// root context; requests have contexts of their own. The host may call it again before a call that it made to the host
/// has returned, hence no `&mut`.
pub trait Plugin: Default {
    /// A context begins. A root has no root itself.
    fn on_context_create(&self, context: u32, root: Option<u32>);

    /// The configuration of a root is there, so many bytes long. `false` refuses it.
    fn on_configure(&self, root: u32, size: usize) -> bool;

    /// The period that was set last is over.
    fn on_tick(&self, root: u32);

    /// A call that this root made has ended; its response can be read until this function returns. The body is so many
    /// bytes long.
    fn on_http_call_response(&self, root: u32, call: u32, body_size: usize);

    /// The headers of a request can be read and changed.
    fn on_request_headers(&self, context: u32) -> Action;

    /// A context has ended.
    fn on_delete(&self, context: u32);
}

/// Exports a [`Plugin`] under the names of the ABI. The host calls every callback that is exported, for each request, and
/// each call costs: these are all that there are.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        ::std::thread_local! {
            static PLUGIN: $plugin = ::std::default::Default::default();
        }

        unsafe extern "C" {
            fn __wasm_call_ctors();
        }

        #[unsafe(no_mangle)]
        extern "C" fn _initialize() {
            // SAFETY: the linker makes this function, and the host calls `_initialize` once, before all others.
            unsafe { __wasm_call_ctors() }
            $crate::host::log_panics();
        }

        #[unsafe(no_mangle)]
        const extern "C" fn proxy_abi_version_0_2_1() {}

        #[unsafe(no_mangle)]
        extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
            $crate::host::allocate(size)
        }

        #[unsafe(no_mangle)]
        const extern "C" fn proxy_on_vm_start(_: u32, _: usize) -> u32 {
            1
        }

        #[unsafe(no_mangle)]
        extern "C" fn proxy_on_context_create(context: u32, parent: u32) {
            let root = (parent != 0).then_some(parent);
            PLUGIN.with(|plugin| $crate::Plugin::on_context_create(plugin, context, root));
        }

        #[unsafe(no_mangle)]
        extern "C" fn proxy_on_configure(root: u32, size: usize) -> u32 {
            PLUGIN.with(|plugin| u32::from($crate::Plugin::on_configure(plugin, root, size)))
        }

        #[unsafe(no_mangle)]
        extern "C" fn proxy_on_tick(root: u32) {
            PLUGIN.with(|plugin| $crate::Plugin::on_tick(plugin, root));
        }

        #[unsafe(no_mangle)]
        extern "C" fn proxy_on_http_call_response(
            root: u32,
            call: u32,
            _: usize,
            body_size: usize,
            _: usize,
        ) {
            PLUGIN.with(|plugin| {
                $crate::Plugin::on_http_call_response(plugin, root, call, body_size);
            });
        }

        #[unsafe(no_mangle)]
        extern "C" fn proxy_on_request_headers(context: u32, _: usize, _: u32) -> u32 {
            PLUGIN.with(|plugin| $crate::Plugin::on_request_headers(plugin, context) as u32)
        }

        #[unsafe(no_mangle)]
        extern "C" fn proxy_on_delete(context: u32) {
            PLUGIN.with(|plugin| $crate::Plugin::on_delete(plugin, context));
        }
    };
}
