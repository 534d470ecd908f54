//! What answers to changes of objects have in addition to the object.

use crate::describe::{Field, Shape};

/// Keys of views.
pub const CHANGES_KEY: &str = "changes";
pub const WARNINGS_KEY: &str = "warnings";
pub const LOSING_GRANTS: &str = "losing_grants";

pub(super) const CHANGES: Field = Field {
    shape: Shape::Texts,
    ..Field::shown(
        CHANGES_KEY,
        "Changes",
        "In the answer to a change: the changed fields, each with the old and the new value unless they are secret.",
    )
};

pub(super) const WARNINGS: Field = Field {
    shape: Shape::Texts,
    ..Field::shown(
        WARNINGS_KEY,
        "Warnings",
        "In the answer to a change: what is allowed but may surprise.",
    )
};
