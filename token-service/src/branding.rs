//! How the pages show the company that runs the service: logo, colour, addresses.

use std::collections::BTreeMap;
use std::fmt;

use actix_web::HttpResponse;
use actix_web::http::header;
use actix_web::web::Bytes;
use domain::digest::Digest;

const STYLESHEET: &str = include_str!("../static/style.css");
const SCRIPT: &str = include_str!("../static/pages.js");
const ICON: &str = include_str!("../static/icon.svg");

/// The accent of the icon and the stylesheet, in light mode.
const DEFAULT_ACCENT: &str = "#0b57d0";

/// The cards of the stylesheet, on which buttons have the accent. The text on a button is about as light or dark as the card.
const LIGHT_CARD: Colour = Colour([0xff, 0xff, 0xff]);
const DARK_CARD: Colour = Colour([0x1f, 0x24, 0x29]);

/// The least contrast of text (WCAG 2.2 §1.4.3).
const LEAST_CONTRAST: f64 = 4.5;

/// A logo that runs scripts or loads anything can do so nowhere, not even if a person opens its address.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// A file of the pages. Its name changes with its content, so browsers may cache it without limit.
#[derive(Clone, PartialEq, Eq)]
pub struct Asset {
    /// The path, which contains the first 64 bits of the content's digest.
    pub path: String,
    content_type: &'static str,
    content: Bytes,
}

impl fmt::Debug for Asset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.path)
    }
}

impl Asset {
    fn new(name: &str, (ending, content_type): (&str, &'static str), content: Bytes) -> Self {
        let digest = Digest::of(&content);
        let tag: String = digest
            .as_bytes()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            path: format!("{}{name}.{tag}.{ending}", Self::FOLDER),
            content_type,
            content,
        }
    }

    pub const FOLDER: &str = "/auth/static/";

    /// The logo in the content of a file.
    ///
    /// # Errors
    /// If the file is too large, or neither an SVG nor a PNG picture.
    pub fn logo(content: Vec<u8>) -> Result<Self, String> {
        const LARGEST: usize = 256 * 1024;
        if content.len() > LARGEST {
            return Err(format!(
                "has {} bytes; a logo has at most {LARGEST}",
                content.len()
            ));
        }
        let kind = if content.starts_with(b"\x89PNG\r\n\x1a\n") {
            ("png", "image/png")
        } else if std::str::from_utf8(&content).is_ok_and(|text| text.contains("<svg")) {
            SVG
        } else {
            return Err("is neither an SVG nor a PNG picture".to_owned());
        };
        Ok(Self::new("logo", kind, content.into()))
    }

    pub fn answer(&self) -> HttpResponse {
        HttpResponse::Ok()
            .content_type(self.content_type)
            .insert_header((header::CACHE_CONTROL, "public, max-age=31536000, immutable"))
            .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
            .insert_header((header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
            .body(self.content.clone())
    }
}

const SVG: (&str, &str) = ("svg", "image/svg+xml");

/// `[branding]`, and the files of the pages that follow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branding {
    pub stylesheet: Asset,
    /// Shows passwords, copies and prints recovery codes.
    pub script: Asset,
    /// The icon of a browser's tab.
    pub icon: Asset,
    /// Stands above each page; the icon in place of none.
    pub logo: Option<Asset>,
    /// The logo in dark mode. Without it, the logo has a light plate there.
    pub dark_logo: Option<Asset>,
    /// The logos of clients, by Client ID.
    pub client_logos: BTreeMap<String, Asset>,
    /// Where people find help.
    pub help_url: Option<String>,
    pub privacy_url: Option<String>,
    pub imprint_url: Option<String>,
}

impl Default for Branding {
    fn default() -> Self {
        Self::with_accent(None)
    }
}

impl Branding {
    pub fn with_accent(accent: Option<Accent>) -> Self {
        let (mut stylesheet, mut icon) = (STYLESHEET.to_owned(), ICON.to_owned());
        if let Some(Accent { light, dark }) = accent {
            stylesheet.push_str(&format!(
                ":root{{--accent:{};--on-accent:#fff}}\
                 @media(prefers-color-scheme:dark){{:root{{--accent:{};--on-accent:#14171a}}}}",
                light.css(),
                dark.css()
            ));
            icon = icon.replace(DEFAULT_ACCENT, &light.css());
        }
        let css = ("css", "text/css; charset=utf-8");
        Self {
            stylesheet: Asset::new("style", css, stylesheet.into()),
            script: Asset::new(
                "pages",
                ("js", "text/javascript; charset=utf-8"),
                SCRIPT.into(),
            ),
            icon: Asset::new("icon", SVG, icon.into()),
            logo: None,
            dark_logo: None,
            client_logos: BTreeMap::new(),
            help_url: None,
            privacy_url: None,
            imprint_url: None,
        }
    }

    /// The file at `path`.
    pub fn asset(&self, path: &str) -> Option<&Asset> {
        let own = [&self.stylesheet, &self.script, &self.icon].into_iter();
        let mut assets = own
            .chain(&self.logo)
            .chain(&self.dark_logo)
            .chain(self.client_logos.values());
        assets.find(|asset| asset.path == path)
    }
}

/// The colour of the button that goes on, for each colour scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accent {
    light: Colour,
    dark: Colour,
}

impl Accent {
    /// Reads `#rrggbb`, the colour in the light scheme. The colour in the dark scheme is a lighter one of the same hue.
    ///
    /// # Errors
    /// If the text is no such colour, or if white text on it could not be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        let light = Colour::parse(text).ok_or("expected a colour as #rrggbb")?;
        let contrast = light.contrast(LIGHT_CARD);
        if contrast < LEAST_CONTRAST {
            // Rounded down, so that the message never says 4.5.
            let contrast = (contrast * 10.0).floor() / 10.0;
            return Err(format!(
                "has a contrast of {contrast:.1} on white, and text needs {LEAST_CONTRAST}: choose a darker colour"
            ));
        }
        let lighter = (0..=100).map(|percent| light.mixed_with_white(percent));
        let dark = lighter
            .into_iter()
            .find(|colour| colour.contrast(DARK_CARD) >= LEAST_CONTRAST + 1.0);
        let dark = dark.unwrap_or(LIGHT_CARD);
        Ok(Self { light, dark })
    }
}

/// Red, green and blue (sRGB).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Colour([u8; 3]);

impl Colour {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#')?;
        if digits.len() != 6 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let [_, red, green, blue] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
        Some(Self([red, green, blue]))
    }

    fn css(self) -> String {
        let Self([red, green, blue]) = self;
        format!("#{red:02x}{green:02x}{blue:02x}")
    }

    fn mixed_with_white(self, percent: u16) -> Self {
        let mix = |part: u8| u16::from(part) + (255 - u16::from(part)) * percent / 100;
        Self(
            self.0
                .map(|part| u8::try_from(mix(part)).unwrap_or(u8::MAX)),
        )
    }

    /// Relative luminance (WCAG 2.2).
    fn luminance(self) -> f64 {
        let [red, green, blue] = self.0.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// Contrast ratio, 1 to 21 (WCAG 2.2).
    fn contrast(self, other: Self) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accent_can_be_read_in_both_colour_schemes() {
        for text in ["#000000", "#0b57d0", "#A3120B", "#006400", "#767676"] {
            let accent = Accent::parse(text).unwrap();
            assert_eq!(accent.light.css(), text.to_lowercase());
            assert!(accent.dark.contrast(DARK_CARD) >= 5.5, "{accent:?}");
        }
        for (text, problem) in [
            ("#777777", "has a contrast of 4.4 on white"),
            ("#ffcc00", "has a contrast of 1.5 on white"),
            ("red", "expected a colour as #rrggbb"),
            ("#fff", "expected a colour as #rrggbb"),
            ("#+12345", "expected a colour as #rrggbb"),
            ("#ä1234", "expected a colour as #rrggbb"),
        ] {
            let error = Accent::parse(text).unwrap_err();
            assert!(error.starts_with(problem), "{text}: {error}");
        }
    }

    /// The stylesheet has the colours with which the contrast is computed.
    #[test]
    fn the_stylesheet_has_the_cards_and_the_accent() {
        let (light, dark) = STYLESHEET
            .split_once("prefers-color-scheme: dark")
            .expect("two colour schemes");
        assert!(light.contains(&format!("--card: {};", LIGHT_CARD.css())));
        assert!(light.contains(&format!("--accent: {DEFAULT_ACCENT};")));
        assert!(dark.contains(&format!("--card: {};", DARK_CARD.css())));
        assert!(ICON.contains(DEFAULT_ACCENT));
    }

    #[test]
    fn a_logo_is_a_small_picture() {
        for (content, path) in [
            (
                b"<?xml version=\"1.0\"?><svg xmlns=\"http://www.w3.org/2000/svg\"/>".as_slice(),
                ".svg",
            ),
            (b"\x89PNG\r\n\x1a\n...", ".png"),
        ] {
            let logo = Asset::logo(content.to_vec()).unwrap();
            assert!(logo.path.ends_with(path), "{}", logo.path);
        }
        for content in [
            b"GIF89a".to_vec(),
            b"<html>".to_vec(),
            b"<svg \xff".to_vec(),
            b"<svg>".repeat(60_000),
        ] {
            assert!(Asset::logo(content).is_err());
        }
    }
}
