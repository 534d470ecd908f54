//! Values of claims that a rule requires, such as roles.

use serde_json::{Map, Value};

/// A value that a claim of the token must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredClaim {
    /// Names of the objects that hold the claim, outermost first. Empty for a claim of the token itself.
    pub within: Vec<String>,
    pub claim: String,
    pub value: String,
}

impl RequiredClaim {
    /// True if the claim is this text, or a list with this text.
    pub(super) fn is_in(&self, claims: &Map<String, Value>) -> bool {
        let mut object = claims;
        for name in &self.within {
            let Some(Value::Object(inner)) = object.get(name) else {
                return false;
            };
            object = inner;
        }
        let is_value = |value: &Value| value.as_str() == Some(self.value.as_str());
        match object.get(&self.claim) {
            Some(Value::Array(list)) => list.iter().any(is_value),
            Some(value) => is_value(value),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_a_text_or_an_element_of_a_list() {
        let claims = json!({
            "roles": ["admin", 7, null, ["nested"]],
            "role": "admin guest",
            "https://example.com/roles": ["auditor"],
            "realm_access": {"roles": ["manager"], "realm_access": {"roles": ["deep"]}},
            "realm_access.roles": ["dotted"],
            "list": [{"roles": ["in a list"]}],
        });
        for (within, claim, value, expected) in [
            (&[] as &[&str], "roles", "admin", true),
            (&[], "roles", "Admin", false),
            (&[], "roles", "7", false),
            (&[], "roles", "nested", false),
            (&[], "role", "admin guest", true),
            (&[], "role", "admin", false),
            (&[], "https://example.com/roles", "auditor", true),
            (&["realm_access"], "roles", "manager", true),
            (&["realm_access"], "roles", "dotted", false),
            (&["realm_access", "realm_access"], "roles", "deep", true),
            (&[], "realm_access.roles", "dotted", true),
            (&[], "realm_access", "manager", false),
            (&["roles"], "roles", "admin", false),
            (&["list"], "roles", "in a list", false),
            (&["absent"], "roles", "admin", false),
            (&[], "absent", "", false),
        ] {
            let required = RequiredClaim {
                within: within.iter().map(|name| (*name).to_owned()).collect(),
                claim: claim.to_owned(),
                value: value.to_owned(),
            };
            let object = claims.as_object().unwrap();
            assert_eq!(required.is_in(object), expected, "{required:?}");
        }
    }
}
