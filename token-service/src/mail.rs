//! Sends messages to people by SMTP.
//!
//! A request leaves a task in a bounded queue in memory, and does not wait for it: how long an answer takes does not show whether
//! there is somebody to write to. What is lost when the process ends is a message that a person can ask for again.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use lettre::address::{Address, Envelope};
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use tokio::sync::{Mutex, mpsc};

use crate::config::{Mail, MailTls};
use crate::telemetry::metrics::MailMetrics;
use domain::random;
use system::OsRandom;

/// Most tasks that wait.
const MOST_WAITING: usize = 1_000;

/// Messages on their way at once.
const AT_ONCE: usize = 4;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    /// The server, for the log.
    place: String,
    sender: Mailbox,
    timeout: Duration,
    queue: mpsc::Sender<Task>,
    waiting: Mutex<mpsc::Receiver<Task>>,
    /// True since a message failed, until one is sent.
    failing: AtomicBool,
    metrics: MailMetrics,
}

impl Mailer {
    /// # Errors
    /// If a file of the configuration cannot be read.
    pub(crate) fn new(mail: &Mail, metrics: MailMetrics) -> anyhow::Result<Self> {
        let (queue, waiting) = mpsc::channel(MOST_WAITING);
        Ok(Self {
            transport: transport(mail)?,
            place: format!("{}:{}", mail.host, mail.port),
            sender: mail.sender.clone(),
            timeout: mail.timeout,
            queue,
            waiting: Mutex::new(waiting),
            failing: AtomicBool::new(false),
            metrics,
        })
    }

    /// Leaves `task` in the queue. Returns `false`, without the task, if the queue is full.
    #[must_use]
    pub(crate) fn later(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let has_room = self.queue.try_send(Box::pin(task)).is_ok();
        if !has_room {
            self.metrics.dropped.inc();
        }
        has_room
    }

    /// Carries out the tasks of the queue until aborted.
    pub(crate) async fn run(&self) {
        if let Err(error) = self.try_connection().await {
            tracing::warn!(error = format!("{error:#}"), "mail cannot be sent");
        }
        let work = || async {
            while let Some(task) = { self.waiting.lock().await.recv().await } {
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
        let connected = self.in_time(connected).await;
        connected.with_context(|| format!("cannot connect to {}", self.place))
    }

    /// The error says its cause alone: those of the transport repeat it.
    async fn in_time(&self, task: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
        match tokio::time::timeout(self.timeout, task).await {
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
                    tracing::error!(server = self.place, error, "mail cannot be sent");
                }
            }
        }
        sent.is_ok()
    }

    async fn try_to_send(&self, to: Address, subject: &str, text: String) -> anyhow::Result<()> {
        let envelope = Envelope::new(Some(self.sender.email.clone()), vec![to.clone()])?;
        let message = message(&self.sender, to, subject, text)?.formatted();
        self.transport.send_raw(&envelope, &message).await?;
        Ok(())
    }
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

fn transport(mail: &Mail) -> anyhow::Result<AsyncSmtpTransport<Tokio1Executor>> {
    let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&mail.host);
    let domain = mail.sender.email.domain().to_owned();
    let builder = builder
        .port(mail.port)
        .timeout(Some(mail.timeout))
        .hello_name(ClientId::Domain(domain))
        .tls(match mail.tls {
            MailTls::Implicit => Tls::Wrapper(tls(mail)?),
            MailTls::StartTls => Tls::Required(tls(mail)?),
            MailTls::None => Tls::None,
        });
    let builder = match &mail.login {
        Some(login) => {
            let path = &login.password_file;
            let password = std::fs::read_to_string(path)
                .with_context(|| format!("mail.password_file {}", path.display()))?;
            let password = password.trim_end_matches(['\r', '\n']).to_owned();
            builder.credentials(Credentials::new(login.username.clone(), password))
        }
        None => builder,
    };
    Ok(builder.build())
}

fn tls(mail: &Mail) -> anyhow::Result<TlsParameters> {
    let builder = TlsParameters::builder(mail.host.clone());
    let builder = match &mail.ca_file {
        Some(path) => {
            let read = || format!("mail.ca_file {}", path.display());
            let pem = std::fs::read(path).with_context(read)?;
            let certificate = Certificate::from_pem(&pem).with_context(read)?;
            let builder = builder.certificate_store(CertificateStore::None);
            builder.add_root_certificate(certificate)
        }
        None => builder,
    };
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Whoever asks for very many links fills the queue, and not the memory.
    #[test]
    fn the_queue_is_bounded() {
        let text = "[mail]\nhost = 'localhost'\nsender = 'g@example.com'\ntls = 'none'\n";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        let config = Config::load(Some(&path), []).unwrap();
        let mailer = Mailer::new(&config.mail.unwrap(), MailMetrics::default()).unwrap();
        let taken = (0..MOST_WAITING + 2)
            .filter(|_| mailer.later(async {}))
            .count();
        assert_eq!(taken, MOST_WAITING);
        assert_eq!(mailer.metrics.dropped.get(), 2);
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
