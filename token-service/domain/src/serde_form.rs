//! Reading of types in compact rows.

use serde::{Deserialize, Deserializer};

/// Reads a field that was added at the end of a compact row. Older rows end before this field, and get its default.
/// Earlier versions of the program ignore the field.
///
/// # Errors
/// None.
pub(crate) fn added<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(T::deserialize(deserializer).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Before {
        name: String,
        at: u64,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Now {
        name: String,
        at: u64,
        #[serde(deserialize_with = "added")]
        version: u64,
        #[serde(deserialize_with = "added")]
        names: Vec<String>,
    }

    #[test]
    fn rows_from_before_a_field_was_added_are_read_and_earlier_programs_read_later_rows() {
        let before = Before {
            name: "ada".into(),
            at: 300,
        };
        let read: Now = postcard::from_bytes(&postcard::to_stdvec(&before).unwrap()).unwrap();
        let mut now = Now {
            name: "ada".into(),
            at: 300,
            version: 0,
            names: vec![],
        };
        assert_eq!(read, now);
        now.version = 70_000;
        now.names = vec!["a".into(), "b".into()];
        let row = postcard::to_stdvec(&now).unwrap();
        assert_eq!(postcard::from_bytes::<Now>(&row).unwrap(), now);
        assert_eq!(postcard::from_bytes::<Before>(&row).unwrap(), before);
        assert!(
            postcard::from_bytes::<Now>(&row[..3]).is_err(),
            "a torn row"
        );
    }
}
