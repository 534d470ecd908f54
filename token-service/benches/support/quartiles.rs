//! Quartiles, here and in `tests/`.

#![allow(unreachable_pub, reason = "public in the crate of `tests/` only")]

/// The lower quartile, the median and the upper quartile.
#[must_use]
pub fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| {
        let place = values.len().saturating_sub(1) * quarter / 4;
        values.get(place).copied().unwrap_or(f64::NAN)
    })
}
