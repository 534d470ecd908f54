//! Lists of unforgeable tags in cookies, joined by dots, the newest first.

use domain::digest::Digest;

/// The tags of a cookie's value. Malformed tags are left out.
pub(super) fn read(text: &str) -> impl Iterator<Item = Digest> {
    text.split('.').filter_map(Digest::from_base64url)
}

/// The value with `newest` first, and at most `most` tags.
pub(super) fn with_newest(newest: Digest, earlier: &str, most: usize) -> String {
    let earlier = read(earlier).filter(|tag| *tag != newest);
    let tags = std::iter::once(newest).chain(earlier).take(most);
    let texts: Vec<String> = tags.map(|tag| tag.to_base64url()).collect();
    texts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_tag_is_first_and_once() {
        let [one, two, three] = [b"1", b"2", b"3"].map(|text| Digest::of(text));
        let list = |tags: &[Digest]| -> String {
            tags.iter()
                .rev()
                .fold(String::new(), |text, tag| with_newest(*tag, &text, 2))
        };
        assert_eq!(
            list(&[one, two]),
            format!("{}.{}", one.to_base64url(), two.to_base64url())
        );
        assert_eq!(list(&[one, two, one]), list(&[one, two]));
        assert_eq!(list(&[one, two, three]), list(&[one, two]), "two at most");
        assert_eq!(
            with_newest(one, "..x.", 2),
            list(&[one]),
            "malformed ones go"
        );
    }
}
