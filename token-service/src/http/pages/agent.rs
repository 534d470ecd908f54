//! The browser and the operating system of a request, from `User-Agent`: a hint for the person, which anybody can forge.

use actix_web::HttpRequest;
use actix_web::http::header::USER_AGENT;

/// Parts of the header and names. The header of a browser may contain the parts of later ones too.
const BROWSERS: [(&str, &str); 9] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
];

const SYSTEMS: [(&str, &str); 7] = [
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iPadOS"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
];

/// Browser and system; each is empty if it is unknown.
pub(super) fn of(http: &HttpRequest) -> (&'static str, &'static str) {
    let header = http.headers().get(USER_AGENT);
    let header = header.and_then(|value| value.to_str().ok());
    let header = header.unwrap_or_default();
    (first(&BROWSERS, header), first(&SYSTEMS, header))
}

fn first(names: &[(&str, &'static str)], header: &str) -> &'static str {
    let mut names = names.iter();
    let found = names.find(|(part, _)| header.contains(part));
    found.map_or("", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn common_browsers_have_names() {
        for (header, expected) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
                ("Firefox", "Linux"),
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0",
                ("Edge", "Windows"),
            ),
            (
                "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36",
                ("Chrome", "Android"),
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
                ("Safari", "iOS"),
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15",
                ("Safari", "macOS"),
            ),
            ("<b>", ("", "")),
        ] {
            let http = TestRequest::default().insert_header((USER_AGENT, header));
            assert_eq!(of(&http.to_http_request()), expected, "{header}");
        }
        assert_eq!(of(&TestRequest::default().to_http_request()), ("", ""));
    }
}
