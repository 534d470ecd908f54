//! Sends messages to people by SMTP.
//!
//! A request of a stranger leaves a task in a bounded queue in memory, and does not wait for it: how long an answer takes does not show
//! whether there is somebody to write to. What is lost when the process ends is a message that a person can ask for again. Notices of
//! changes are in the store: [`notices`](crate::service::notices).

mod requests;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use lettre::address::{Address, Envelope};
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::AsyncSmtpTransportBuilder;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::config::{Mail, MailTls};
use crate::telemetry::metrics::MailMetrics;
use domain::random;
use requests::{Added, Requests};
use secrets::text_file;
use system::OsRandom;

/// Longest wait for the greeting of the server, which comes first unless the server waits for TLS.
const GREETING: Duration = Duration::from_secs(3);

/// Messages on their way at once.
const AT_ONCE: usize = 4;

type Transport = AsyncSmtpTransport<Tokio1Executor>;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) struct Mailer {
    transport: Transport,
    tls: MailTls,
    /// For [`Self::other_tls`].
    implicit: Transport,
    host: String,
    port: u16,
    sender: Mailbox,
    timeout: Duration,
    requests: Requests<Task>,
    /// True since a message failed, until one is sent.
    failing: AtomicBool,
    metrics: MailMetrics,
}

impl Mailer {
    /// # Errors
    /// If a file of the configuration cannot be read.
    pub(crate) fn new(mail: &Mail, metrics: MailMetrics) -> anyhow::Result<Self> {
        let sender = Mailbox {
            email: with_a_labels(mail.sender.email.clone()),
            name: mail.sender.name.clone(),
        };
        Ok(Self {
            transport: transport(mail, &sender)?,
            tls: mail.tls,
            implicit: builder(mail, MailTls::Implicit, &sender)?.build(),
            host: mail.host.clone(),
            port: mail.port,
            sender,
            timeout: mail.timeout,
            requests: Requests::new(),
            failing: AtomicBool::new(false),
            metrics,
        })
    }

    /// The server, for the log.
    fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Leaves a task of a stranger from `network` in the queue, to begin after `wait`. Returns `false`, without the
    /// task, if there is no room.
    #[must_use]
    pub(crate) fn later(
        &self,
        network: &[u8],
        wait: Duration,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> bool {
        let at = Instant::now() + wait;
        let added = self.requests.add(network, at, Box::pin(task));
        if added != Added::Waits {
            self.metrics.dropped.inc();
        }
        added != Added::NoRoom
    }

    /// Carries out the tasks of the queue until aborted.
    pub(crate) async fn run(&self) {
        if let Err(error) = self.try_connection().await {
            tracing::warn!(error = format!("{error:#}"), "mail cannot be sent");
        }
        let work = || async {
            loop {
                let task = self.requests.next().await;
                if let Err(error) = tokio::spawn(task).await {
                    tracing::error!(%error, "a message could not be made");
                }
            }
        };
        futures_util::future::join_all((0..AT_ONCE).map(|_| work())).await;
    }

    /// Connects to the server as for a message, and sends none.
    ///
    /// # Errors
    /// Why no message would be sent.
    pub(crate) async fn try_connection(&self) -> anyhow::Result<()> {
        let connected = async {
            self.transport.test_connection().await?;
            Ok(())
        };
        let mut connected = std::pin::pin!(self.in_time(connected));
        let other = self.other_tls();
        // A server that waits for TLS says nothing, and the answer would be that there is none in time.
        let connected = tokio::select! {
            connected = &mut connected => match connected {
                Err(error) if self.tls == MailTls::Implicit => match self.other_tls().await {
                    Some(other) => Err(other),
                    None => Err(error),
                },
                connected => connected,
            },
            Some(other) = other => Err(other),
            else => connected.await,
        };
        connected.with_context(|| format!("cannot connect to {}", self.place()))
    }

    /// The other value of `mail.tls`, if the server speaks it.
    async fn other_tls(&self) -> Option<anyhow::Error> {
        let mut greeting = [0; 3];
        let greets = async {
            let mut stream = TcpStream::connect((self.host.as_str(), self.port))
                .await
                .ok()?;
            stream.read_exact(&mut greeting).await.ok()
        };
        let greets = timeout(GREETING, greets).await;
        let greeted = matches!(greets, Ok(Some(_))) && greeting == *b"220";
        let (now, other, how) = match (self.tls, greeted) {
            (MailTls::Implicit, true) => ("implicit", "starttls", "without TLS first"),
            (MailTls::StartTls | MailTls::None, false) if greets.is_err() => {
                let spoken = timeout(GREETING, self.implicit.test_connection())
                    .await
                    .ok()?;
                if spoken.is_err_and(|error| !is_of_tls(error)) {
                    return None;
                }
                let now = match self.tls {
                    MailTls::None => "none",
                    MailTls::StartTls | MailTls::Implicit => "starttls",
                };
                (now, "implicit", "TLS from the first byte")
            }
            _ => return None,
        };
        Some(anyhow::anyhow!(
            "the server speaks {how}, and mail.tls is {now}: set mail.tls = \"{other}\""
        ))
    }

    /// The error says only its root cause, because each error of the transport repeats it.
    async fn in_time(&self, task: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
        match timeout(self.timeout, task).await {
            Ok(done) => done.map_err(|error| anyhow::anyhow!("{}", error.root_cause())),
            Err(_) => Err(anyhow::anyhow!("no answer in time")),
        }
    }

    /// Sends a message and returns whether the server took it. The log has the first failure of a row.
    pub(crate) async fn send(&self, to: Address, subject: &str, text: String) -> bool {
        let sent = self.in_time(self.try_to_send(to, subject, text)).await;
        match &sent {
            Ok(()) => {
                self.metrics.sent.inc();
                self.failing.store(false, Ordering::Relaxed);
            }
            Err(error) => {
                self.metrics.failed.inc();
                if !self.failing.swap(true, Ordering::Relaxed) {
                    let error = format!("{error:#}");
                    tracing::error!(server = self.place(), error, "mail cannot be sent");
                }
            }
        }
        sent.is_ok()
    }

    async fn try_to_send(&self, to: Address, subject: &str, text: String) -> anyhow::Result<()> {
        let to = with_a_labels(to);
        let envelope = Envelope::new(Some(self.sender.email.clone()), vec![to.clone()])?;
        let message = message(&self.sender, to, subject, text)?.formatted();
        self.transport.send_raw(&envelope, &message).await?;
        Ok(())
    }
}

/// True if the server has begun TLS before the error: it shows a certificate, or answers within TLS.
fn is_of_tls(error: lettre::transport::smtp::Error) -> bool {
    let answers = error.is_response() || error.status().is_some();
    let cause = anyhow::Error::from(error).root_cause().to_string();
    answers || cause.contains("certificate")
}

/// RFC 3834 §5: nobody's absence note answers.
const AUTO_SUBMITTED: &str = "Auto-Submitted";

fn message(sender: &Mailbox, to: Address, subject: &str, text: String) -> anyhow::Result<Message> {
    let id = random::text::<16>(&OsRandom)?;
    let automatic = HeaderName::new_from_ascii_str(AUTO_SUBMITTED);
    Ok(Message::builder()
        .from(sender.clone())
        .to(Mailbox::new(None, to))
        .subject(subject)
        .date_now()
        .message_id(Some(format!("<{id}@{}>", sender.email.domain())))
        .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
        .header(ContentType::TEXT_PLAIN)
        .body(text)?)
}

/// The address with the domain in ASCII (RFC 5891 §4.4): every server takes it, with or without SMTPUTF8.
fn with_a_labels(address: Address) -> Address {
    if address.domain().is_ascii() {
        return address;
    }
    match url::Host::parse(address.domain()) {
        Ok(url::Host::Domain(domain)) => Address::new(address.user(), domain).unwrap_or(address),
        Ok(_) | Err(_) => address,
    }
}

fn builder(
    mail: &Mail,
    kind: MailTls,
    sender: &Mailbox,
) -> anyhow::Result<AsyncSmtpTransportBuilder> {
    let builder = Transport::builder_dangerous(&mail.host);
    let domain = sender.email.domain().to_owned();
    Ok(builder
        .port(mail.port)
        .timeout(Some(mail.timeout))
        .hello_name(ClientId::Domain(domain))
        .tls(match kind {
            MailTls::Implicit => Tls::Wrapper(tls(mail)?),
            MailTls::StartTls => Tls::Required(tls(mail)?),
            MailTls::None => Tls::None,
        }))
}

fn transport(mail: &Mail, sender: &Mailbox) -> anyhow::Result<Transport> {
    let builder = builder(mail, mail.tls, sender)?;
    let builder = match &mail.login {
        Some(login) => {
            let path = &login.password_file;
            let password = text_file::secret(path)
                .with_context(|| format!("mail.password_file {}", path.display()))?;
            builder.credentials(Credentials::new(
                login.username.clone(),
                password.to_string(),
            ))
        }
        None => builder,
    };
    Ok(builder.build())
}

fn tls(mail: &Mail) -> anyhow::Result<TlsParameters> {
    let builder = TlsParameters::builder(mail.host.clone());
    let builder = match &mail.ca_file {
        Some(path) => {
            let certificates = process::fetch::certificates(path).context("mail.ca_file")?;
            let builder = builder.certificate_store(CertificateStore::None);
            certificates.into_iter().try_fold(builder, |builder, one| {
                let certificate = Certificate::from_der(one.to_vec()).context("mail.ca_file")?;
                anyhow::Ok(builder.add_root_certificate(certificate))
            })?
        }
        None => builder,
    };
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_file_of_authorities_is_pem_and_has_some() {
        let folder = tempfile::tempdir().unwrap();
        let (path, ca_file) = (
            folder.path().join("config.toml"),
            folder.path().join("ca.pem"),
        );
        let text = "[mail]\nhost = 'localhost'\nsender = 'g@example.com'\nca_file = 'ca.pem'\n";
        std::fs::write(&path, text).unwrap();
        let mail = Config::load(Some(&path), []).unwrap().mail.unwrap();
        let pem = include_str!("../domain/src/testdata/rsa-4096.pem");
        let lines = pem.lines().filter(|line| !line.starts_with('-'));
        let der = STANDARD.decode(lines.collect::<String>()).unwrap();
        let marked = format!("\u{feff}{pem}{pem}");
        for (content, is_right) in [(marked.as_bytes(), true), (&der, false), (b"", false)] {
            std::fs::write(&ca_file, content).unwrap();
            let made = Mailer::new(&mail, MailMetrics::default());
            let problem = made.err().map(|error| format!("{error:#}"));
            assert_eq!(problem.is_none(), is_right, "{problem:?}");
            assert!(problem.is_none_or(|text| text.starts_with("mail.ca_file: cannot read")));
        }
    }

    fn mailer(text: &str) -> Mailer {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, format!("[mail]\nhost = 'localhost'\n{text}")).unwrap();
        let mail = Config::load(Some(&path), []).unwrap().mail.unwrap();
        Mailer::new(&mail, MailMetrics::default()).unwrap()
    }

    /// A server that says `greeting`, and writes what it hears, a line at a time, with an answer to each.
    async fn server(greeting: &'static str) -> (u16, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heard, hears) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (from, mut to) = stream.into_split();
                let heard = heard.clone();
                tokio::spawn(async move {
                    let mut lines = BufReader::new(from).lines();
                    let _ = to.write_all(greeting.as_bytes()).await;
                    while let Ok(Some(line)) = lines.next_line().await {
                        let code = if line == "DATA" { "354 go" } else { "250 OK" };
                        let _ = heard.send(line);
                        let _ = to.write_all(format!("{code}\r\n").as_bytes()).await;
                    }
                });
            }
        });
        (port, hears)
    }

    #[tokio::test]
    async fn international_domains_are_written_in_ascii() {
        let (port, mut hears) = server("220 mail\r\n").await;
        let sender = "sender = 'Gatepass <no-reply@b\u{fc}cher.example>'";
        let mailer = mailer(&format!("{sender}\nport = {port}\ntls = 'none'\n"));
        let to = "Ann@B\u{dc}CHER.example".parse().unwrap();
        assert!(mailer.send(to, "Hello", String::new()).await);
        let mut heard = Vec::new();
        while let Ok(line) = hears.try_recv() {
            assert!(line.is_ascii(), "{line}");
            heard.push(line);
        }
        for expected in [
            "EHLO xn--bcher-kva.example",
            "MAIL FROM:<no-reply@xn--bcher-kva.example>",
            "RCPT TO:<Ann@xn--bcher-kva.example>",
        ] {
            assert!(heard.iter().any(|line| line == expected), "{heard:?}");
        }
    }

    #[tokio::test]
    async fn the_wrong_kind_of_tls_names_itself() {
        let (port, _hears) = server("220 mail\r\n").await;
        let mailer = mailer(&format!(
            "sender = 'g@example.com'\nport = {port}\ntls = 'implicit'\n"
        ));
        let error = format!("{:#}", mailer.try_connection().await.unwrap_err());
        let expected = "the server speaks without TLS first, and mail.tls is implicit: set mail.tls = \"starttls\"";
        assert_eq!(
            error,
            format!("cannot connect to localhost:{port}: {expected}")
        );
    }

    #[test]
    fn a_message_is_plain_text_whatever_the_names_are() {
        let sender: Mailbox = "\"B\u{f6}b, Inc.\" <no-reply@example.com>".parse().unwrap();
        let subject = "Passwort\r\nBcc: eve@example.com";
        let text = "Zo\u{eb}\n.\nBcc: eve@example.com\n".to_owned();
        let message = message(&sender, "ada@example.com".parse().unwrap(), subject, text).unwrap();
        let formatted = String::from_utf8(message.formatted()).unwrap();
        let (head, _) = formatted.split_once("\r\n\r\n").unwrap();
        let mut names: Vec<&str> = head
            .split("\r\n")
            .filter(|line| !line.starts_with(' '))
            .map(|line| line.split(':').next().unwrap())
            .collect();
        names.sort_unstable();
        let expected = [
            AUTO_SUBMITTED,
            "Content-Transfer-Encoding",
            "Content-Type",
            "Date",
            "From",
            "Message-ID",
            "Subject",
            "To",
        ];
        assert_eq!(names, expected, "{formatted}");
        for bad in [
            "ada@example.com\r\nBcc: eve@example.com",
            "ada@example.com, eve@example.com",
            "Ada <ada@example.com>",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
