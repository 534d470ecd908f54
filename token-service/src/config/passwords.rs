//! `[passwords]`.

use document::Section;
use secrets::password_rules::{LEAST, Lengths, MOST};

pub(super) fn read(mut section: Section<'_>, default: Lengths) -> Lengths {
    let mut read = |key, default| match section.number(key, LEAST as u64..=MOST as u64) {
        Some(number) => usize::try_from(number.value).unwrap_or(MOST),
        None => default,
    };
    let lengths = Lengths {
        alone: read("min_length", default.alone),
        with_second_factor: read("min_length_with_second_factor", default.with_second_factor),
    };
    section.finish();
    lengths
}
