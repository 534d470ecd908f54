//! Everything that deals with the proxy-wasm host. It decides nothing: [`guard`] does.

mod crypto;
mod data;
mod log;
mod metrics;
mod request;
mod root;
mod shared;

use std::cell::RefCell;
use std::rc::Rc;

use abi::{Action, Plugin};
use rustc_hash::FxHashMap;

use self::root::Root;

abi::export!(Vm);

/// One VM: a root for each configuration, and the requests of all.
#[derive(Default)]
struct Vm {
    roots: RefCell<FxHashMap<u32, Rc<Root>>>,
    requests: RefCell<FxHashMap<u32, Rc<Root>>>,
}

impl Vm {
    fn root(&self, context: u32) -> Option<Rc<Root>> {
        self.roots.borrow().get(&context).cloned()
    }
}

impl Plugin for Vm {
    fn on_context_create(&self, context: u32, root: Option<u32>) {
        if let Some(root) = root.and_then(|root| self.root(root)) {
            self.requests.borrow_mut().insert(context, root);
        }
    }

    fn on_configure(&self, root: u32, _: usize) -> bool {
        match Root::configure(root) {
            Some(configured) => {
                self.roots.borrow_mut().insert(root, Rc::new(configured));
                true
            }
            None => false,
        }
    }

    fn on_tick(&self, root: u32) {
        if let Some(root) = self.root(root) {
            root.tick();
        }
    }

    fn on_http_call_response(&self, root: u32, call: u32, body_size: usize) {
        if let Some(root) = self.root(root) {
            root.call_ended(call, body_size);
        }
    }

    fn on_request_headers(&self, context: u32) -> Action {
        let root = self.requests.borrow().get(&context).cloned();
        match root {
            Some(root) => root.decide(context),
            None => request::refuse_unconfigured(),
        }
    }

    fn on_delete(&self, context: u32) {
        let request = self.requests.borrow_mut().remove(&context);
        match request {
            Some(root) => root.shared().forget(context),
            None => {
                let root = self.roots.borrow_mut().remove(&context);
                if let Some(root) = root {
                    root.end();
                }
            }
        }
    }
}
