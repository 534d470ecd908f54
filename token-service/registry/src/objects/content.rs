//! Certificates and keys, which an entry contains or names the file of.

use std::io;
use std::path::PathBuf;

use document::{Located, Place, Section};

/// The text at `key`, or the content of the file that the entry names instead, with the key that gives it. `what` names
/// the content in messages.
pub(super) fn content<V: From<String>>(
    section: &mut Section<'_>,
    key: &'static str,
    what: &str,
    read: impl FnOnce(PathBuf) -> io::Result<V>,
) -> Option<(&'static str, Located<V>)> {
    if !section.has("file") && !section.has(key) {
        section.report(section.place(), format!("file or {key} is missing"));
    }
    if matches!(section.place(), Place::Json(_)) {
        let why = format!("the administration reads no files; send the text of {what} in {key}");
        section.refuse("file", &why);
    }
    let inline = section.text(key);
    let Some(Located { value, place }) = section.text("file") else {
        let Located { value, place } = inline?;
        let value = value.into();
        return Some((key, Located { value, place }));
    };
    if let Some(inline) = inline {
        let message = format!("{key}: file is there too; keep one of the two");
        section.report(&inline.place, message);
        return None;
    }
    match read(place.resolve(&value)) {
        Ok(value) => Some(("file", Located { value, place })),
        Err(error) => {
            section.report(&place, format!("file: {value} cannot be read: {error}"));
            None
        }
    }
}
