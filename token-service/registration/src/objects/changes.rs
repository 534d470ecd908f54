//! What views have in addition to the object: its owner, and in answers to changes what changed.

use crate::describe::{Field, Shape};

/// Keys of views.
pub const MANAGED_KEY: &str = "managed_by";
pub const CHANGES_KEY: &str = "changes";
pub const WARNINGS_KEY: &str = "warnings";
pub const LOSING_GRANTS: &str = "losing_grants";

pub(super) const MANAGED: Field = Field::shown(
    MANAGED_KEY,
    "Managed by",
    "File and line that define the object (D-27); absent if commands define the object.",
);

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
