//! Files that people write and that may contain secrets: keys, passwords, addresses with passwords.

use std::io::{self, Read as _};
use std::path::Path;

use claims::json::{BYTE_ORDER_MARK, is_utf_16};
use zeroize::Zeroizing;

/// Reads the file at `path`, or standard input if `path` is `-`, without a byte order mark.
///
/// # Errors
/// The file cannot be read, or is UTF-16.
pub fn bytes(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::new());
    if path == Path::new("-") {
        io::stdin().read_to_end(&mut bytes)?;
    } else {
        bytes = Zeroizing::new(std::fs::read(path)?);
    }
    if is_utf_16(&bytes) {
        return Err(invalid("is UTF-16: save it as UTF-8"));
    }
    if bytes.starts_with(BYTE_ORDER_MARK.as_bytes()) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// [`bytes`] as text.
///
/// # Errors
/// As for [`bytes`], or the file is not UTF-8.
pub fn text(path: &Path) -> io::Result<Zeroizing<String>> {
    let mut bytes = bytes(path)?;
    let text = String::from_utf8(std::mem::take(&mut *bytes));
    text.map(Zeroizing::new).map_err(|error| {
        drop(Zeroizing::new(error.into_bytes()));
        invalid("is not UTF-8: save it as UTF-8")
    })
}

/// The secret in a file: one line, with or without the line end that editors add.
///
/// # Errors
/// As for [`text`], or the file is empty or has several lines.
pub fn secret(path: &Path) -> io::Result<Zeroizing<String>> {
    let text = text(path)?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(invalid("is empty"));
    }
    if secret.contains(['\r', '\n']) {
        return Err(invalid("has several lines; a secret is one"));
    }
    Ok(Zeroizing::new(secret.to_owned()))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_what_a_person_wrote_and_not_what_an_editor_added() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("secret");
        for (content, expected) in [
            (&b"\xef\xbb\xbfs3cret\r\n"[..], Ok("s3cret")),
            (b" s3 cret \n", Ok(" s3 cret ")),
            // Only the first mark is the editor's.
            (b"\xef\xbb\xbf\xef\xbb\xbfs", Ok("\u{feff}s")),
            (b"\xef\xbb\xbf\n", Err("is empty")),
            (b"one\ntwo\n", Err("several lines")),
            (b"\xff\xfes\0", Err("UTF-16")),
            (b"\xfe\xff\0s", Err("UTF-16")),
            (b"s\xfc", Err("not UTF-8")),
        ] {
            std::fs::write(&path, content).unwrap();
            match (secret(&path), expected) {
                (Ok(found), expected) => assert_eq!(Ok(&**found), expected, "{content:?}"),
                (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{error}"),
                (Err(error), Ok(_)) => panic!("{content:?}: {error}"),
            }
        }
    }
}
