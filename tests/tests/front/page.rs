//! The commands of `docs/front.md`, with nginx.

use std::fs;

use tempfile::TempDir;
use tests::front::{Front, HOST};
use tests::gateways::Kind;
use tests::tls::Identity;
use tests::{Process, follow, free_port};

use crate::examples::bash;
use crate::support::file;

/// The address from which curl asks.
const CLIENT: &str = "127.1.200.7";

/// The block of this kind after `before`.
fn block<'a>(page: &'a str, before: &str, kind: &str) -> &'a str {
    let (_, rest) = page.split_once(before).unwrap();
    let (_, block) = rest.split_once(&format!("```{kind}\n")).unwrap();
    block.split_once("```").unwrap().0
}

/// Two seconds.
#[test]
fn the_commands_of_the_page_work() {
    let page = file("docs/front.md");
    let folder = TempDir::new().unwrap();
    let [public, internal] = [(); 2].map(|()| free_port().unwrap());
    let listeners =
        format!("listen = \"127.0.0.1:{public}\"\ninternal_listen = \"127.0.0.1:{internal}\"\n");
    let config = block(&page, "Write `config.toml`", "toml");
    fs::write(
        folder.path().join("config.toml"),
        format!("{listeners}{config}"),
    )
    .unwrap();

    let [variable, service, _, add, invite] = block(&page, "Start the service", "sh")
        .lines()
        .collect::<Vec<_>>()[..]
    else {
        panic!("the block has five lines");
    };
    let mut serving = bash(folder.path());
    // The shell becomes the service, which so ends with this test.
    let service = service.replace("&& ", "&& exec ");
    serving.args(["-c", &format!("{variable}; {service}")]);
    let log = folder.path().join("log");
    let mut serving = Process::start("token-service", &serving, &log).unwrap();
    serving.until_listening(internal).unwrap();
    let mut adding = bash(folder.path());
    adding.args(["-c", &format!("{variable}; {add} && {invite}")]);
    let added = adding.output().unwrap();
    let link = "\nhttps://id.example.com/auth/new-password?link=";
    assert!(
        String::from_utf8_lossy(&added.stdout).contains(link),
        "{added:?}"
    );

    let server = Identity::named(HOST).unwrap();
    let front = Front::start(Kind::Nginx, [public, free_port().unwrap()], &[], &server).unwrap();
    server.write_to(folder.path()).unwrap();
    let curl = format!(
        "connect-to = {HOST}:80:127.0.0.1:{}\nconnect-to = {HOST}:443:127.0.0.1:{}\ncacert = server.pem\n\
         interface = {CLIENT}\n",
        front.http, front.https
    );
    fs::write(folder.path().join(".curlrc"), curl).unwrap();
    let mut shell = bash(folder.path());
    shell.env("HOME", folder.path());
    let here = |text: &str| text.replace("192.0.2.7", CLIENT);
    follow("docs/front.md", &page, shell, here).unwrap_or_else(|error| panic!("{error:?}"));
}
