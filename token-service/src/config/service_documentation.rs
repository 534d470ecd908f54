//! `service_documentation`.

use url::Url;

pub(super) fn parse(text: &str) -> Result<String, &'static str> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "https" | "http") && url.host().is_some() => {
            Ok(text.to_owned())
        }
        _ => Err("expected an https or http URL"),
    }
}
