//! What surrounds the content of each page.

use super::texts::Texts;
use crate::branding::Branding;
use crate::config::Config;

/// Whose page it is, and where people find help.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub texts: &'static Texts,
    pub service: &'a str,
    /// The host of the issuer, which people find in the address bar.
    pub host: &'a str,
    pub branding: &'a Branding,
}

impl<'a> Frame<'a> {
    pub(super) fn of(config: &'a Config, texts: &'static Texts) -> Self {
        Self {
            texts,
            service: &config.protocol.name,
            host: host_of(&config.protocol.issuer),
            branding: &config.branding,
        }
    }

    /// The path of the logo.
    pub(super) fn logo(&self) -> &'a str {
        let branding = self.branding;
        &branding.logo.as_ref().unwrap_or(&branding.icon).path
    }

    /// Where people find help, as a message says it.
    pub(super) fn help(&self) -> Option<&'a str> {
        let url = self.branding.help_url.as_deref()?;
        Some(url.strip_prefix("mailto:").unwrap_or(url))
    }

    /// The path of the logo in dark mode, if there is another one.
    pub(super) fn dark_logo(&self) -> Option<&'a str> {
        self.branding.dark_logo.as_ref().map(|logo| &*logo.path)
    }

    /// The addresses below each page, with their names.
    pub(super) fn links(&self) -> Vec<(&'a str, &'a str)> {
        let (texts, branding) = (self.texts, self.branding);
        let links = [
            (texts.help, &branding.help_url),
            (texts.privacy, &branding.privacy_url),
            (texts.imprint, &branding.imprint_url),
        ];
        links
            .into_iter()
            .filter_map(|(name, url)| Some((name, url.as_deref()?)))
            .collect()
    }
}

/// The host of an issuer, with a port that is not the usual one.
fn host_of(issuer: &str) -> &str {
    let (_, rest) = issuer.split_once("://").unwrap_or(("", issuer));
    rest.split('/').next().unwrap_or(rest)
}
