//! A mail server (aiosmtpd).

use std::process::Command;

use serde::Deserialize;
use tempfile::TempDir;
use tests::tls::Authority;
use tests::{Artifacts, Process, free_port};

/// A message as received.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Message {
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    pub(crate) encrypted: bool,
    pub(crate) login: bool,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Message {
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("{name}: {self:?}")).1
    }

    /// The only URL in the text.
    #[track_caller]
    pub(crate) fn link(&self) -> &str {
        let mut links = self.text.lines().filter(|line| line.starts_with("http"));
        let link = links.next().unwrap_or_else(|| panic!("{self:?}"));
        assert_eq!(links.next(), None, "{self:?}");
        link
    }
}

/// The server. Ends when it is dropped.
pub(crate) struct MailServer {
    pub(crate) port: u16,
    pub(crate) folder: TempDir,
    mode: &'static str,
    process: Option<Process>,
}

impl MailServer {
    /// `mode`: see `tests/clients/smtp_server.py`.
    pub(crate) fn start(mode: &'static str) -> Self {
        let (folder, port) = (TempDir::new().unwrap(), free_port().unwrap());
        let authority = Authority::new().unwrap();
        let file = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        file("ca.pem", &authority.pem());
        file("password", "mail-password\n");
        file("server.pem", &authority.issue("localhost").unwrap().pem);
        let mut server = Self {
            port,
            folder,
            mode,
            process: None,
        };
        server.resume();
        server
    }

    /// Nobody listens at its port until it resumes.
    pub(crate) fn stop(&mut self) {
        self.process = None;
    }

    pub(crate) fn resume(&mut self) {
        let repository = Artifacts::find().unwrap().repository;
        let pem = self.folder.path().join("server.pem");
        let (port, mode) = (self.port, self.mode);
        let mut command = Command::new(repository.join(".cache/venv/bin/python"));
        command
            .arg(repository.join("tests/clients/smtp_server.py"))
            .args([&port.to_string(), mode])
            .args((mode != "plain").then_some(pem));
        let log = self.folder.path().join("log");
        let mut process = Process::start("aiosmtpd", &command, &log).unwrap();
        process.until_listening(port).unwrap();
        self.process = Some(process);
    }

    /// The configuration of a service that sends by this server.
    pub(crate) fn configuration(&self) -> String {
        let (folder, port, mode) = (self.folder.path().display(), self.port, self.mode);
        let more = match mode {
            "plain" => "tls = \"none\"\n".to_owned(),
            "implicit" => format!("tls = \"implicit\"\nca_file = \"{folder}/ca.pem\"\n"),
            _ => format!(
                "ca_file = \"{folder}/ca.pem\"\nusername = \"service\"\npassword_file = \"{folder}/password\"\n"
            ),
        };
        format!(
            "\n[mail]\nhost = \"localhost\"\nport = {port}\nsender = \"Gatepass <no-reply@example.com>\"\n{more}"
        )
    }

    /// What it has written with this word before.
    fn written<T: for<'de> Deserialize<'de>>(&self, word: &str) -> Vec<T> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        // The last line may be on its way.
        let lines = log
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let lines = lines.filter_map(|line| line.strip_prefix(word));
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The sizes of messages that arrived, taken or not.
    pub(crate) fn received(&self) -> usize {
        self.written::<usize>("RECEIVED ").len()
    }

    /// All messages, when there are `count`.
    #[track_caller]
    pub(crate) fn messages(&self, count: usize) -> Vec<Message> {
        let all = || self.written::<Message>("MESSAGE ");
        crate::api::until("a message", || all().len() >= count);
        let all = all();
        assert_eq!(all.len(), count, "{all:?}");
        all
    }

    /// The first message to this address.
    #[track_caller]
    pub(crate) fn message_to(&self, address: &str) -> Message {
        let find = || {
            let all = self.written::<Message>("MESSAGE ");
            all.into_iter().find(|message| message.to == [address])
        };
        crate::api::until("a message", || find().is_some());
        find().unwrap()
    }

    /// The newest message, when there are `count`.
    #[track_caller]
    pub(crate) fn message(&self, count: usize) -> Message {
        self.messages(count).pop().unwrap()
    }
}
