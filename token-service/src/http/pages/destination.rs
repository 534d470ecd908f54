//! Where an application sends people, in words.

use url::Url;

use super::texts::{self, Texts};
use domain::{Client, IntegrationType};

/// A redirect URI in words: the host of a web address, otherwise the place of the app. A web server on this device is no app.
pub(super) fn in_words(redirect_uri: &str, client: &Client, texts: &Texts) -> String {
    let is_app = matches!(client.integration, IntegrationType::Installed { .. });
    // A registered one may leave the port open.
    let Ok(url) = Url::parse(&redirect_uri.replace(":*", "")) else {
        return redirect_uri.to_owned();
    };
    match (url.scheme(), url.host_str()) {
        ("http", Some(_)) if is_app => texts.app_on_this_device.to_owned(),
        ("https" | "http", Some(host)) => match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        },
        (scheme, _) => texts::plain(texts.app_that_opens, &[("scheme", scheme)]),
    }
}
