//! The functions of the host.

use std::error::Error;

use wasmi::{Caller, Linker, Memory};

use super::{Headers, HttpCall, NOT_FOUND, State};

/// Names of `proxy_log_level_t`, in its order.
const LOG_LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "critical"];

const OK: u32 = 0;
/// The monotonic clock of WASI.
const MONOTONIC: u32 = 1;
/// Kinds of buffers and maps of the ABI.
const CALL_RESPONSE_BODY: u32 = 4;
const PLUGIN_CONFIGURATION: u32 = 7;
const REQUEST_HEADERS: u32 = 0;
const CALL_RESPONSE_HEADERS: u32 = 6;

type HostError = Box<dyn Error>;

/// The filter's memory, in a host function.
trait Guest {
    fn memory(&self) -> Memory;
    fn bytes(&self, at: u32, size: u32) -> Vec<u8>;
    fn text(&self, at: u32, size: u32) -> String;
    fn pairs(&self, at: u32, size: u32) -> Headers;
    fn put(&mut self, at: u32, bytes: &[u8]);
    /// Passes bytes to the filter. The filter allocates the memory, as the ABI requires.
    fn give(&mut self, bytes: &[u8], pointer_at: u32, size_at: u32) -> Result<u32, wasmi::Error>;
}

impl Guest for Caller<'_, State> {
    fn memory(&self) -> Memory {
        self.get_export("memory").unwrap().into_memory().unwrap()
    }

    fn bytes(&self, at: u32, size: u32) -> Vec<u8> {
        let mut bytes = vec![0; size as usize];
        self.memory().read(self, at as usize, &mut bytes).unwrap();
        bytes
    }

    fn text(&self, at: u32, size: u32) -> String {
        String::from_utf8(self.bytes(at, size)).unwrap()
    }

    fn pairs(&self, at: u32, size: u32) -> Headers {
        let bytes = self.bytes(at, size);
        let number =
            |place: usize| u32::from_le_bytes(bytes[place..place + 4].try_into().unwrap()) as usize;
        let count = number(0);
        let mut place = 4 + 8 * count;
        let mut take = |length: usize| {
            let start = place;
            place += length + 1;
            bytes[start..start + length].to_vec()
        };
        (0..count)
            .map(|pair| {
                let name = take(number(4 + 8 * pair));
                let value = take(number(8 + 8 * pair));
                (String::from_utf8(name).unwrap(), value)
            })
            .collect()
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        self.memory().write(self, at as usize, bytes).unwrap();
    }

    fn give(&mut self, bytes: &[u8], pointer_at: u32, size_at: u32) -> Result<u32, wasmi::Error> {
        let size = u32::try_from(bytes.len()).unwrap();
        let mut at = 0;
        if size > 0 {
            let allocate = self.get_export("proxy_on_memory_allocate").unwrap();
            let allocate = allocate.into_func().unwrap().typed::<u32, u32>(&*self)?;
            at = allocate.call(&mut *self, size)?;
            self.put(at, bytes);
        }
        self.put(pointer_at, &at.to_le_bytes());
        self.put(size_at, &size.to_le_bytes());
        Ok(OK)
    }
}

fn serialize(headers: &Headers) -> Vec<u8> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
    let mut bytes = u32::try_from(headers.len()).unwrap().to_le_bytes().to_vec();
    for (name, value) in headers {
        bytes.extend(length(name.as_bytes()));
        bytes.extend(length(value));
    }
    for (name, value) in headers {
        bytes.extend([name.as_bytes(), &[0], value, &[0]].concat());
    }
    bytes
}

impl State {
    fn map(&mut self, kind: u32) -> Option<&mut Headers> {
        match kind {
            REQUEST_HEADERS => self.requests.get_mut(&self.context),
            CALL_RESPONSE_HEADERS => Some(&mut self.call_response.0),
            _ => None,
        }
    }
}

type C<'a> = Caller<'a, State>;

/// Defines functions of the host. Returns their names.
macro_rules! functions {
    ($linker:ident, $module:literal; $($name:literal = $function:expr;)*) => {{
        $($linker.func_wrap($module, $name, $function)?;)*
        vec![$($name),*]
    }};
}

/// Defines the functions of this host. Returns their names.
pub(super) fn link(linker: &mut Linker<State>) -> Result<Vec<&'static str>, HostError> {
    let known = [
        link_wasi(linker)?,
        link_system(linker)?,
        link_data(linker)?,
        link_actions(linker)?,
    ];
    Ok(known.concat())
}

/// The part of WASI that Rust's standard library needs.
fn link_wasi(linker: &mut Linker<State>) -> Result<Vec<&'static str>, HostError> {
    Ok(functions! { linker, "wasi_snapshot_preview1";
        "environ_sizes_get" = |mut host: C, count: u32, size: u32| {
            host.put(count, &[0; 4]);
            host.put(size, &[0; 4]);
            OK
        };
        "environ_get" = |_: C, _: u32, _: u32| OK;
        "random_get" = |mut host: C, at: u32, size: u32| {
            let random = host.data().random.wrapping_add(1);
            host.data_mut().random = random;
            host.put(at, &vec![random; size as usize]);
            OK
        };
        "clock_time_get" = |mut host: C, clock: u32, _: u64, at: u32| {
            let state = host.data();
            let seconds = if clock == MONOTONIC { state.monotonic } else { state.seconds };
            host.put(at, &(seconds * 1_000_000_000).to_le_bytes());
            OK
        };
    })
}

/// Logs, time and metrics.
fn link_system(linker: &mut Linker<State>) -> Result<Vec<&'static str>, HostError> {
    Ok(functions! { linker, "env";
        "proxy_log" = |mut host: C, level: u32, at: u32, size: u32| {
            let line = host.text(at, size);
            let level = LOG_LEVELS.get(level as usize).copied().unwrap_or("?");
            host.data_mut().log.push(format!("{level} {line}"));
            OK
        };
        "proxy_get_current_time_nanoseconds" = |mut host: C, at: u32| {
            let nanoseconds = host.data().seconds * 1_000_000_000;
            host.put(at, &nanoseconds.to_le_bytes());
            OK
        };
        "proxy_set_tick_period_milliseconds" = |mut host: C, period: u32| {
            host.data_mut().tick_milliseconds = period;
            OK
        };
        "proxy_define_metric" = |mut host: C, _: u32, at: u32, size: u32, id: u32| {
            let name = host.text(at, size);
            // All VMs share the metrics with the same name.
            let metrics = &mut host.data_mut().metrics;
            let known = metrics.iter().position(|(known, _)| *known == name);
            let number = known.unwrap_or(metrics.len());
            if known.is_none() {
                metrics.push((name, 0));
            }
            host.put(id, &u32::try_from(number).unwrap().to_le_bytes());
            OK
        };
        "proxy_increment_metric" = |mut host: C, id: u32, by: i64| {
            let value = &mut host.data_mut().metrics[id as usize].1;
            *value = value.checked_add_signed(by).unwrap();
            OK
        };
        "proxy_get_metric" = |mut host: C, id: u32, at: u32| {
            let value = host.data().metrics[id as usize].1;
            host.put(at, &value.to_le_bytes());
            OK
        };
        "proxy_record_metric" = |mut host: C, id: u32, value: u64| {
            host.data_mut().metrics[id as usize].1 = value;
            OK
        };
    })
}

/// Buffers and header maps.
fn link_data(linker: &mut Linker<State>) -> Result<Vec<&'static str>, HostError> {
    Ok(functions! { linker, "env";
        "proxy_get_buffer_bytes" =
            |mut host: C, kind: u32, start: u32, most: u32, pointer_at: u32, size_at: u32| {
                let state = host.data();
                let buffer = match kind {
                    PLUGIN_CONFIGURATION => &state.configuration,
                    CALL_RESPONSE_BODY => &state.call_response.1,
                    _ => return Ok(NOT_FOUND),
                };
                let bytes = buffer.iter().skip(start as usize).take(most as usize);
                let bytes: Vec<u8> = bytes.copied().collect();
                host.give(&bytes, pointer_at, size_at)
            };
        "proxy_get_header_map_pairs" = |mut host: C, kind: u32, pointer_at: u32, size_at: u32| {
            let Some(pairs) = host.data_mut().map(kind).map(|map| serialize(map)) else {
                return Ok(NOT_FOUND);
            };
            host.give(&pairs, pointer_at, size_at)
        };
        "proxy_get_header_map_value" =
            |mut host: C, kind: u32, at: u32, size: u32, pointer_at: u32, size_at: u32| {
                let name = host.text(at, size);
                let map = host.data_mut().map(kind);
                let found = map.and_then(|map| map.iter().find(|(known, _)| *known == name).cloned());
                match found {
                    Some((_, value)) => host.give(&value, pointer_at, size_at),
                    None => Ok(NOT_FOUND),
                }
            };
        "proxy_add_header_map_value" =
            |mut host: C, kind: u32, name: u32, name_size: u32, value: u32, value_size: u32| {
                let pair = (host.text(name, name_size), host.bytes(value, value_size));
                let map = host.data_mut().map(kind);
                map.map_or(NOT_FOUND, |map| {
                    map.push(pair);
                    OK
                })
            };
        "proxy_remove_header_map_value" = |mut host: C, kind: u32, at: u32, size: u32| {
            let name = host.text(at, size);
            let map = host.data_mut().map(kind);
            map.map_or(NOT_FOUND, |map| {
                map.retain(|(known, _)| *known != name);
                OK
            })
        };
    })
}

/// Fetches, answers, and the effective context.
fn link_actions(linker: &mut Linker<State>) -> Result<Vec<&'static str>, HostError> {
    Ok(functions! { linker, "env";
        "proxy_http_call" =
            |mut host: C, cluster: u32, cluster_size: u32, headers: u32, headers_size: u32,
             _: u32, _: u32, _: u32, _: u32, _: u32, token_at: u32| {
                let cluster = host.text(cluster, cluster_size);
                let headers = host.pairs(headers, headers_size);
                let path = headers.into_iter().find(|(name, _)| name == ":path");
                let path = String::from_utf8(path.unwrap().1).unwrap();
                let state = host.data_mut();
                state.calls_made += 1;
                let (root, token) = (state.context, state.calls_made);
                state.calls.push(HttpCall { root, token, cluster, path });
                host.put(token_at, &token.to_le_bytes());
                OK
            };
        "proxy_send_local_response" =
            |mut host: C, status: u32, _: u32, _: u32, body: u32, body_size: u32,
             _: u32, _: u32, _: u32| {
                let body = host.text(body, body_size);
                let state = host.data_mut();
                let earlier = state.answers.insert(state.context, (status, body));
                assert_eq!(earlier, None, "answered twice");
                state.decided.push(state.context);
                OK
            };
        "proxy_continue_stream" = |mut host: C, _: u32| {
            let state = host.data_mut();
            state.resumed.push(state.context);
            state.decided.push(state.context);
            OK
        };
        "proxy_set_effective_context" = |mut host: C, context: u32| {
            host.data_mut().context = context;
            OK
        };
    })
}
