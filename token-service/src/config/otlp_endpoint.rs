//! `otlp_endpoint`.

use url::Url;

pub(super) fn parse(text: &str) -> Result<String, &'static str> {
    const EXPECTED: &str = "expected an http URL, such as http://127.0.0.1:4318";
    let url = Url::parse(text).map_err(|_| EXPECTED)?;
    if url.scheme() == "http" && url.host().is_some() {
        Ok(text.to_owned())
    } else {
        Err(EXPECTED)
    }
}
