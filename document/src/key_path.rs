//! Paths of keys and indices, such as `issuers[0].jwks.path`. A key with characters other than letters, digits,
//! `_` and `-` is quoted, so that every value has its own path and no path contains a line break.

/// The path of the member `key` of the table at `parent`.
pub(crate) fn member(parent: &str, key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let mut path = parent.to_owned();
    if !path.is_empty() {
        path.push('.');
    }
    if !key.is_empty() && key.bytes().all(is_bare) {
        path.push_str(key);
    } else {
        path.push_str(&format!("{key:?}"));
    }
    path
}

/// The path of the element `index` of the list at `parent`.
pub(crate) fn element(parent: &str, index: usize) -> String {
    format!("{parent}[{index}]")
}

/// The path of the table or list that contains the value at `path`; `None` for the whole document.
#[cfg(feature = "toml")]
pub(crate) fn parent(path: &str) -> Option<&str> {
    let end = path.rfind(['.', '[']).unwrap_or(0);
    path.get(..end).filter(|_| !path.is_empty())
}

/// The last key of `path`: for an element of a list, the key of the list.
pub(crate) fn last_key(path: &str) -> &str {
    let list = path
        .strip_suffix(']')
        .and_then(|path| path.rsplit_once('['));
    let path = list.map_or(path, |(list, _)| list);
    path.rsplit('.').next().unwrap_or(path)
}
