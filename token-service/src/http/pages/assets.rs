//! The files of the pages. The name of a file changes with its content, so browsers may cache it without limit.

use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::http::header;

use domain::digest::Digest;

pub(super) struct Asset {
    /// The path, which contains the first 64 bits of the content's digest.
    pub(super) path: String,
    content_type: &'static str,
    content: &'static str,
}

pub(super) static STYLESHEET: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("../../../static/style.css");
    Asset::new("style", "css", "text/css; charset=utf-8", content)
});

/// The icon of a browser's tab.
pub(super) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("../../../static/icon.svg");
    Asset::new("icon", "svg", "image/svg+xml", content)
});

impl Asset {
    fn new(name: &str, ending: &str, content_type: &'static str, content: &'static str) -> Self {
        let digest = Digest::of(content.as_bytes());
        let tag: String = digest
            .as_bytes()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            path: format!("/auth/static/{name}.{tag}.{ending}"),
            content_type,
            content,
        }
    }

    pub(super) fn answer(&self) -> HttpResponse {
        HttpResponse::Ok()
            .content_type(self.content_type)
            .insert_header((header::CACHE_CONTROL, "public, max-age=31536000, immutable"))
            .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
            .body(self.content)
    }
}
