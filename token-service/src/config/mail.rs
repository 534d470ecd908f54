//! `[mail]`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use document::Section;
use lettre::message::Mailbox;

use super::duration::{DAY, HOUR, MINUTE, SECOND, duration};
use super::paths::absolute;

/// How the service sends messages to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// Name or address of the SMTP server. With TLS, the name in its certificate.
    pub host: String,
    pub port: u16,
    pub tls: MailTls,
    /// CA certificates in PEM that the service trusts for this server; `None` for the system's.
    pub ca_file: Option<PathBuf>,
    pub login: Option<Login>,
    pub sender: Mailbox,
    /// Time for which the link in a message works.
    pub link_lifetime: Duration,
    /// Longest time for one message, from the connection to the answer of the server.
    pub timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailTls {
    /// From the first byte.
    Implicit,
    /// After `STARTTLS`, without which nothing is sent.
    StartTls,
    None,
}

/// How the service signs in to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub username: String,
    pub password_file: PathBuf,
}

/// `None` without the table.
pub(super) fn read(root: &mut Section<'_>, allow_insecure_http: bool) -> Option<Mail> {
    root.optional("mail", |section| {
        section.required("host");
        section.required("sender");
        let host = section.parsed("host", host);
        let port = section.number("port", 1..=65535);
        let tls = section.choice("tls", &["starttls", "implicit", "none"]);
        let tls = match tls {
            Some(1) => MailTls::Implicit,
            Some(2) => MailTls::None,
            _ => MailTls::StartTls,
        };
        let sender = section.parsed("sender", |text| match text.parse::<Mailbox>() {
            Ok(sender) if sender.email.user().is_ascii() => Ok(sender),
            Ok(_) => Err("the part before @ must be ASCII: not every mail server takes others"),
            Err(_) => Err("expected an address such as Gatepass <no-reply@example.com>"),
        });
        let ca_file = section.path("ca_file").map(absolute);
        let username = section.text("username").map(|name| name.value);
        let password_file = section.path("password_file").map(absolute);
        let login = match (username, password_file) {
            (Some(username), Some(password_file)) => Some(Login {
                username,
                password_file,
            }),
            (None, None) => None,
            (Some(_), None) => {
                section.required("password_file");
                None
            }
            (None, Some(_)) => {
                section.required("username");
                None
            }
        };
        let link_lifetime = duration(section, "link_lifetime", HOUR, 5 * MINUTE..=DAY);
        let timeout = duration(section, "timeout", 30 * SECOND, SECOND..=5 * MINUTE);
        let host = host?.value;
        if tls == MailTls::None && !allow_insecure_http && !is_this_machine(&host) {
            let message =
                "none is for a server on this machine: others on the network could read the links";
            section.problem("tls", message);
        }
        let port = port.and_then(|port| u16::try_from(port.value).ok());
        Some(Mail {
            port: port.unwrap_or(match tls {
                MailTls::Implicit => 465,
                MailTls::StartTls => 587,
                MailTls::None => 25,
            }),
            host,
            tls,
            ca_file,
            login,
            sender: sender?.value,
            link_lifetime,
            timeout,
        })
    })
}

fn host(text: &str) -> Result<String, &'static str> {
    let is_name =
        || url::Host::parse(text).is_ok_and(|host| host.to_string().eq_ignore_ascii_case(text));
    match text.parse::<IpAddr>().is_ok() || is_name() {
        true => Ok(text.to_owned()),
        false => {
            Err("expected a host name such as smtp.example.com, or an IP address, without a port")
        }
    }
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost"
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::load;

    #[test]
    fn the_table_is_optional_and_has_defaults() {
        assert_eq!(load("", &[]).unwrap().mail, None);
        let mail = |tls: &str| {
            let text = format!("[mail]\nhost = 'localhost'\nsender = 'G <g@example.com>'\n{tls}");
            load(&text, &[]).unwrap().mail.unwrap()
        };
        let expected = Mail {
            host: "localhost".to_owned(),
            port: 587,
            tls: MailTls::StartTls,
            ca_file: None,
            login: None,
            sender: "G <g@example.com>".parse().unwrap(),
            link_lifetime: HOUR,
            timeout: 30 * SECOND,
        };
        assert_eq!(mail(""), expected);
        assert_eq!(mail("tls = 'implicit'").port, 465);
        assert_eq!(mail("tls = 'none'").port, 25);
        assert_eq!(mail("tls = 'none'\nport = 2525").port, 2525);
    }

    #[test]
    fn every_wrong_value_is_told() {
        let text = "[mail]\nhost = 'smtp.example.com:587'\nport = 0\ntls = 'ssl'\nsender = 'nobody'\n\
                    link_lifetime = '2d'\nusername = 'u'\n";
        assert_eq!(
            load(text, &[]).unwrap_err(),
            [
                "config.toml:1: password_file is missing",
                "config.toml:2: host: expected a host name such as smtp.example.com, or an IP address, without a port",
                "config.toml:3: port: must be a whole number from 1 to 65535",
                "config.toml:4: tls: must be starttls or implicit or none",
                "config.toml:5: sender: expected an address such as Gatepass <no-reply@example.com>",
                "config.toml:6: link_lifetime: must be from 5m to 1d",
            ]
        );
    }

    #[test]
    fn links_cross_no_network_in_the_clear_unless_asked_for() {
        let load = |host: &str, more: &str| {
            let text =
                format!("{more}[mail]\nhost = '{host}'\ntls = 'none'\nsender = 'g@example.com'\n");
            load(&text, &[])
        };
        for host in ["localhost", "127.0.0.1", "::1"] {
            assert!(load(host, "").is_ok(), "{host}");
        }
        for host in ["smtp.example.com", "10.1.2.3"] {
            let problems = load(host, "").unwrap_err().join("\n");
            assert!(
                problems.contains("none is for a server on this machine"),
                "{problems}"
            );
            assert!(load(host, "allow_insecure_http = true\n").is_ok());
        }
    }
}
