//! Reads the start tags of our own pages. Their templates put the values of attributes in double quotes, and write the
//! characters that HTML reserves as numbers (`&#38;`). Anything else panics.

/// A start tag with the text up to the next tag.
pub(crate) struct Tag<'a> {
    tag: &'a str,
    text: &'a str,
}

/// The start tags of a page or of a part.
pub(crate) fn tags(page: &str) -> impl Iterator<Item = Tag<'_>> {
    let tags = page.split('<').skip(1);
    let starts = tags.filter(|tag| tag.starts_with(|first: char| first.is_ascii_alphabetic()));
    starts.map(|tag| {
        let (tag, text) = tag.split_once('>').unwrap();
        Tag { tag, text }
    })
}

impl Tag<'_> {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.tag.split_whitespace().next() == Some(name)
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        let (_, rest) = self.tag.split_once(&format!(" {name}=\""))?;
        let (value, _) = rest.split_once('"').unwrap();
        Some(decoded(value))
    }

    pub(crate) fn text(&self) -> String {
        decoded(self.text)
    }
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('&');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let character = part.split_once(';').and_then(|(reference, rest)| {
            let number = reference.strip_prefix('#')?.parse().ok()?;
            Some((char::from_u32(number)?, rest))
        });
        let (character, rest) = character.unwrap_or_else(|| panic!("&{part} in {text}"));
        decoded.push(character);
        decoded.push_str(rest);
    }
    decoded
}
