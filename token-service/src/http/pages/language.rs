//! The language of the pages.

use actix_web::HttpRequest;
use actix_web::http::header;

use super::carried::carried;
use super::texts::{ALL, ENGLISH, Texts};
use protocol::oauth::parameters::Parameters;

/// The available language that the application prefers for the person (`ui_locales` of the request that the page
/// belongs to, OpenID Connect Core §3.1.2.1), else the one that the browser prefers; English if none matches.
pub(super) fn of(http: &HttpRequest) -> &'static Texts {
    if let Some(requested) = requested(&carried(http)) {
        return requested;
    }
    let accepted = http
        .headers()
        .get(header::ACCEPT_LANGUAGE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    preferred(accepted)
}

/// The language of a tag (RFC 5646), whatever its region.
fn available(tag: &str) -> Option<&'static Texts> {
    let language = tag.trim().split('-').next().unwrap_or_default();
    ALL.into_iter()
        .find(|texts| language.eq_ignore_ascii_case(texts.tag))
}

/// Reads `ui_locales` from the path and query of a request: tags separated by spaces, the most preferred first.
fn requested(request: &str) -> Option<&'static Texts> {
    let (_, query) = request.split_once('?')?;
    let (parameters, _) = Parameters::parse_unrepeated(query.as_bytes()).ok()?;
    parameters.get("ui_locales")?.split(' ').find_map(available)
}

/// Reads `Accept-Language` (RFC 9110 §12.5.4). Of languages with equal weight, the first wins.
fn preferred(accepted: &str) -> &'static Texts {
    let mut best: (f32, &'static Texts) = (0.0, &ENGLISH);
    for range in accepted.split(',') {
        let (tag, weight) = range.split_once(';').unwrap_or((range, "q=1"));
        // Names of parameters have no letter case (RFC 9110 §5.6.6).
        let weight = weight
            .trim()
            .strip_prefix(['q', 'Q'])
            .and_then(|weight| weight.strip_prefix('=')?.parse::<f32>().ok())
            .unwrap_or(0.0);
        if let Some(texts) = available(tag)
            && weight > best.0
        {
            best = (weight, texts);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LANGUAGES;

    #[test]
    fn every_language_has_texts() {
        assert_eq!(ALL.map(|texts| texts.tag), LANGUAGES);
    }

    #[test]
    fn the_browser_chooses_the_language() {
        for (accepted, tag) in [
            ("", "en"),
            ("de", "de"),
            ("DE-at", "de"),
            ("fr, de;q=0.5, en;q=0.4", "de"),
            ("en, de", "en"),
            ("de;q=0, fr", "en"),
            ("den, *", "en"),
            ("de;q=nonsense", "en"),
            ("en;Q=0.4, de;Q=0.5", "de"),
            ("de;Q=0, fr;Q=1", "en"),
            ("en;q=0.1, de;q=0.2", "de"),
        ] {
            assert_eq!(preferred(accepted).tag, tag, "{accepted}");
        }
    }

    #[test]
    fn the_application_may_choose_the_language() {
        for (locales, tag) in [
            ("de", Some("de")),
            ("fr-CA+de-AT+en", Some("de")),
            ("EN%20de", Some("en")),
            ("fr+it", None),
            ("", None),
        ] {
            let request = format!("/auth/authorize?client_id=web&ui_locales={locales}&state=1");
            assert_eq!(requested(&request).map(|texts| texts.tag), tag, "{locales}");
        }
        assert_eq!(requested("/auth/authorize"), None);
        assert_eq!(requested("/auth/authorize?ui_locales=%zz"), None);
    }
}
