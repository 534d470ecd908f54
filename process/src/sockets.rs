//! Listening sockets that the parent of the program has opened and keeps open, such as systemd for a socket unit
//! (`sd_listen_fds(3)`).
//!
//! A restart then refuses no connection. While no process accepts connections, the kernel queues them at the socket, and the
//! next process accepts them.

use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;

/// Who has opened the sockets of the listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opener {
    /// The program itself. The sockets end with the process.
    Program,
    /// The parent. The next process gets the same sockets.
    Parent,
}

/// The passed sockets that no listener has taken yet.
#[derive(Debug, Default)]
pub struct PassedSockets(Vec<(SocketAddr, TcpListener)>);

impl PassedSockets {
    /// Takes the sockets that `LISTEN_FDS` and `LISTEN_PID` announce, and removes both variables. Call this before the first
    /// thread starts: other threads may read the environment.
    ///
    /// # Errors
    /// If a passed descriptor is not a TCP socket.
    pub fn from_environment() -> io::Result<Self> {
        let mut passed = ListenFd::from_env();
        let mut sockets = Vec::new();
        for index in 0..passed.len() {
            let socket = passed.take_tcp_listener(index).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("LISTEN_FDS passes no TCP socket: {error}"),
                )
            })?;
            if let Some(socket) = socket {
                sockets.push((socket.local_addr()?, socket));
            }
        }
        Ok(Self(sockets))
    }

    /// The sockets of `listeners`. A listener has a key in the configuration, and an address if it is
    /// configured. The addresses decide, and not `LISTEN_FDNAMES`: names could contradict the addresses. Without passed
    /// sockets, all are `None`.
    ///
    /// # Errors
    /// If the passed sockets have other addresses than the listeners. The message lists both.
    pub fn take<const COUNT: usize>(
        mut self,
        listeners: [(&str, Option<SocketAddr>); COUNT],
    ) -> io::Result<(Opener, [Option<TcpListener>; COUNT])> {
        if self.0.is_empty() {
            return Ok((Opener::Program, [const { None }; COUNT]));
        }
        let addresses: Vec<SocketAddr> = self.0.iter().map(|(address, _)| *address).collect();
        let sockets = listeners.map(|(_, wanted)| {
            let wanted = wanted?;
            let passed = self.0.iter().position(|(address, _)| *address == wanted)?;
            Some(self.0.swap_remove(passed).1)
        });
        let mut wanted = listeners.iter().zip(&sockets);
        let all_found = wanted.all(|((_, wanted), socket)| wanted.is_some() == socket.is_some());
        if self.0.is_empty() && all_found {
            return Ok((Opener::Parent, sockets));
        }
        Err(disagree(&addresses, &listeners))
    }
}

fn disagree(passed: &[SocketAddr], listeners: &[(&str, Option<SocketAddr>)]) -> io::Error {
    let mut message = "the passed sockets (LISTEN_FDS) have the addresses".to_owned();
    for address in passed {
        let _ = write!(message, " {address}");
    }
    message.push_str(", but the configuration says");
    for (key, address) in listeners {
        if let Some(address) = address {
            let _ = write!(message, " {key}={address}");
        }
    }
    message.push_str(
        ": set the same addresses in both, for systemd as ListenStream= of the socket unit",
    );
    io::Error::new(io::ErrorKind::AddrNotAvailable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(count: usize) -> (PassedSockets, Vec<SocketAddr>) {
        let sockets: Vec<_> = (0..count)
            .map(|_| {
                let socket = TcpListener::bind("127.0.0.1:0").unwrap();
                (socket.local_addr().unwrap(), socket)
            })
            .collect();
        let addresses = sockets.iter().map(|(address, _)| *address).collect();
        (PassedSockets(sockets), addresses)
    }

    #[test]
    fn each_listener_gets_the_socket_with_its_address() {
        let (sockets, addresses) = passed(2);
        let listeners = [
            ("listen", Some(addresses[1])),
            ("not_configured", None),
            ("internal_listen", Some(addresses[0])),
        ];
        let (opener, taken) = sockets.take(listeners).unwrap();
        let taken = taken.map(|socket| socket.map(|socket| socket.local_addr().unwrap()));
        assert_eq!(opener, Opener::Parent);
        assert_eq!(taken, [Some(addresses[1]), None, Some(addresses[0])]);
        let (opener, taken) = PassedSockets::default().take(listeners).unwrap();
        assert_eq!(opener, Opener::Program);
        assert!(taken.iter().all(Option::is_none));
    }

    #[test]
    fn sockets_and_configuration_that_disagree_are_both_told() {
        let elsewhere: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let told = |count: usize, wanted: fn(&[SocketAddr], SocketAddr) -> [SocketAddr; 2]| {
            let (sockets, addresses) = passed(count);
            let wanted = wanted(&addresses, elsewhere);
            let listeners = [
                ("listen", Some(wanted[0])),
                ("internal_listen", Some(wanted[1])),
            ];
            let error = sockets.take(listeners).unwrap_err().to_string();
            for address in addresses.iter().chain(&wanted) {
                assert!(error.contains(&address.to_string()), "{error}");
            }
        };
        told(1, |passed, elsewhere| [passed[0], elsewhere]);
        told(2, |passed, elsewhere| [elsewhere, passed[1]]);
        // Connections to a socket that no listener takes would wait forever.
        told(3, |passed, _| [passed[0], passed[1]]);
        // One socket serves one listener.
        told(1, |passed, _| [passed[0], passed[0]]);
    }
}
