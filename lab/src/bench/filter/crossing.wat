;; The least that a filter can do which removes headers that clients must not set: it is called for each request, reads all
;; headers in one call, and lets the request pass. What this costs is the price of the crossings into WebAssembly.
(module
  (import "env" "proxy_get_header_map_pairs" (func $headers (param i32 i32 i32) (result i32)))
  (memory (export "memory") 3)
  (func (export "proxy_abi_version_0_2_1"))
  ;; The host writes the headers to the second page.
  (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 65536))
  (func (export "proxy_on_context_create") (param i32 i32))
  (func (export "proxy_on_vm_start") (param i32 i32) (result i32) (i32.const 1))
  (func (export "proxy_on_configure") (param i32 i32) (result i32) (i32.const 1))
  (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
    (drop (call $headers (i32.const 0) (i32.const 0) (i32.const 4)))
    (i32.const 0))
  (func (export "proxy_on_delete") (param i32)))
