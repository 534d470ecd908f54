//! The keys of a kind of object, each described once: for files and JSON, OpenAPI, differences, and the commands.

use super::Rule;

/// A key of a kind of object.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Key in files and JSON. Differences and the audit log use it too.
    pub key: &'static str,
    pub part: Part,
    /// The doc comment, in Markdown.
    pub meaning: &'static str,
    /// What is true of registrations only: bounds, the default, and the integration types that have the key.
    pub bounds: &'static str,
    pub(crate) rule: Rule,
    /// Name in the cards of commands; empty if cards lack the value.
    pub label: &'static str,
    pub flag: Flag,
}

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// In registrations and views, with the same value.
    Both,
    /// Only in registrations. A change that does not name the key keeps the value.
    Registration,
    View,
}

/// The flags of a key, in commands that register and change objects: names and placeholders of values.
#[derive(Debug, Clone, Copy)]
pub enum Flag {
    None,
    Text(&'static str, &'static str),
    /// A text that new objects need.
    Required(&'static str, &'static str),
    /// In a change, an empty text removes the value.
    Optional(&'static str, &'static str),
    /// A file with a secret, or `-` for standard input.
    SecretFile(&'static str, &'static str),
    /// A flag with its help, the value that it sets, and the opposite flag of changes.
    Switch([&'static str; 2], bool, [&'static str; 2]),
    /// A list: in changes also with flags that add and remove single values.
    Values([&'static str; 3], &'static str),
    /// A list of objects `NAME=FILE`: name and content have these keys.
    Files([&'static str; 3], &'static str, [&'static str; 2]),
}

impl Field {
    pub(crate) const fn new(
        name: &'static str,
        part: Part,
        meaning: &'static str,
        bounds: &'static str,
    ) -> Self {
        let key = match name.as_bytes() {
            [b'r', b'#', ..] => name.split_at(2).1,
            _ => name,
        };
        Self {
            key,
            part,
            meaning,
            bounds,
            rule: Rule::Ignored,
            label: "",
            flag: Flag::None,
        }
    }
}

/// Makes the types of a kind of object in files and JSON, and the constant `FIELDS`. A row has a doc comment, a key with its type,
/// a second doc comment that is true of registrations only, and members of [`Field`]. The word before the key says where the key is:
///
/// | word | registrations | views |
/// |---|---|---|
/// | `needed` | all | all |
/// | `preset` | some | all |
/// | `optional` | some | some |
/// | `given` | some | none |
/// | `shown` | none | all |
/// | `noted` | none | some |
macro_rules! described {
    ($registration:ident: $registered:tt, $view:ident: $viewed:tt, $($rows:tt)*) => {
        $crate::describe::fields::described! { @ [$registration $registered $view $viewed] [] [] [] $($rows)*
            #[doc = "File and line that define the object; absent if commands define the object."]
            noted managed_by: String => { label: "Managed by", };
            #[doc = "In the answer to a change: the changed fields, each with the old and the new value unless they are secret."]
            noted changes: Vec<String> => { label: "Changes", };
            #[doc = "In the answer to a change: what is allowed but may surprise."]
            noted warnings: Vec<String> => { label: "Warnings", };
        }
    };
    (@ [$registration:ident $registered:tt $view:ident $viewed:tt] [$($in:tt)*] [$($out:tt)*] [$($fields:tt)*]) => {
        #[doc = $registered]
        #[derive(utoipa::ToSchema)]
        pub struct $registration { $($in)* }

        #[doc = $viewed]
        #[derive(Debug, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        pub struct $view { $($out)* }

        const FIELDS: &[$crate::describe::fields::Field] = &[$($fields)*];
    };
    (@ $names:tt [$($in:tt)*] [$($out:tt)*] [$($fields:tt)*] $(#[doc = $doc:tt])*
        needed $key:ident: $type:ident $(<$item:ident>)? $(#[doc = $bounds:tt])* => { $($member:tt)* }; $($rows:tt)*) => {
        $crate::describe::fields::described! { @ $names
            [$($in)* $(#[doc = $doc])* $(#[doc = $bounds])* pub $key: $type $(<$item>)?,]
            [$($out)* $(#[doc = $doc])* pub $key: $type $(<$item>)?,]
            [$($fields)* $crate::describe::fields::field!($key Both [$($doc)*] [$($bounds)*] $($member)*),]
            $($rows)*
        }
    };
    (@ $names:tt [$($in:tt)*] [$($out:tt)*] [$($fields:tt)*] $(#[doc = $doc:tt])*
        preset $key:ident: $type:ident $(<$item:ident>)? $(#[doc = $bounds:tt])* => { $($member:tt)* }; $($rows:tt)*) => {
        $crate::describe::fields::described! { @ $names
            [$($in)* $(#[doc = $doc])* $(#[doc = $bounds])* pub $key: Option<$type $(<$item>)?>,]
            [$($out)* $(#[doc = $doc])* pub $key: $type $(<$item>)?,]
            [$($fields)* $crate::describe::fields::field!($key Both [$($doc)*] [$($bounds)*] $($member)*),]
            $($rows)*
        }
    };
    (@ $names:tt [$($in:tt)*] [$($out:tt)*] [$($fields:tt)*] $(#[doc = $doc:tt])*
        optional $key:ident: $type:ident $(<$item:ident>)? $(#[doc = $bounds:tt])* => { $($member:tt)* }; $($rows:tt)*) => {
        $crate::describe::fields::described! { @ $names
            [$($in)* $(#[doc = $doc])* $(#[doc = $bounds])* pub $key: Option<$type $(<$item>)?>,]
            [$($out)* $(#[doc = $doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $key: Option<$type $(<$item>)?>,]
            [$($fields)* $crate::describe::fields::field!($key Both [$($doc)*] [$($bounds)*] $($member)*),]
            $($rows)*
        }
    };
    (@ $names:tt [$($in:tt)*] [$($out:tt)*] [$($fields:tt)*] $(#[doc = $doc:tt])*
        given $key:ident: $type:ident $(<$item:ident>)? $(#[doc = $bounds:tt])* => { $($member:tt)* }; $($rows:tt)*) => {
        $crate::describe::fields::described! { @ $names
            [$($in)* $(#[doc = $doc])* $(#[doc = $bounds])* pub $key: Option<$type $(<$item>)?>,]
            [$($out)*]
            [$($fields)* $crate::describe::fields::field!($key Registration [$($doc)*] [$($bounds)*] $($member)*),]
            $($rows)*
        }
    };
    (@ $names:tt [$($in:tt)*] [$($out:tt)*] [$($fields:tt)*] $(#[doc = $doc:tt])*
        shown $key:ident: $type:ident $(<$item:ident>)? => { $($member:tt)* }; $($rows:tt)*) => {
        $crate::describe::fields::described! { @ $names [$($in)*]
            [$($out)* $(#[doc = $doc])* pub $key: $type $(<$item>)?,]
            [$($fields)* $crate::describe::fields::field!($key View [$($doc)*] [] $($member)*),]
            $($rows)*
        }
    };
    (@ $names:tt [$($in:tt)*] [$($out:tt)*] [$($fields:tt)*] $(#[doc = $doc:tt])*
        noted $key:ident: $type:ident $(<$item:ident>)? => { $($member:tt)* }; $($rows:tt)*) => {
        $crate::describe::fields::described! { @ $names [$($in)*]
            [$($out)* $(#[doc = $doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $key: Option<$type $(<$item>)?>,]
            [$($fields)* $crate::describe::fields::field!($key View [$($doc)*] [] $($member)*),]
            $($rows)*
        }
    };
}

macro_rules! field {
    ($key:ident $part:ident [$($doc:tt)*] [$($bounds:tt)*] $($member:tt)*) => {
        $crate::describe::fields::Field {
            $($member)*
            ..$crate::describe::fields::Field::new(
                stringify!($key),
                $crate::describe::fields::Part::$part,
                concat!($($doc),*),
                concat!($($bounds),*),
            )
        }
    };
}

pub(crate) use {described, field};
