//! How a fetch is sent.

use guard::fetch::Fetch;

use crate::abi::{Buffer, EnvoyConfig, Header};

/// Sends a fetch. Returns the number of the call; `None` if Envoy does not send it.
pub(super) fn call(envoy: &EnvoyConfig, fetch: &Fetch) -> Option<u64> {
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
    envoy.call(&endpoint.cluster, &headers, body, fetch.timeout * 1000)
}
