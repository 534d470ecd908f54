//! `second_factor`, and `[organizations]` with the same key.

use std::collections::BTreeMap;

use document::Section;
use domain::{SecondFactorRule, SecondFactorRules, ambiguity};
use serde_json::Value;

const KEY: &str = "second_factor";

pub(super) fn read(root: &mut Section<'_>) -> SecondFactorRules {
    SecondFactorRules {
        everybody: is_required(root),
        organizations: organizations(root.section("organizations")),
    }
}

fn organizations(mut table: Section<'_>) -> BTreeMap<String, bool> {
    let mut organizations = BTreeMap::new();
    while let Some((name, value)) = table.take_any() {
        if let Some(problem) = ambiguity(&name) {
            table.problem(&name, problem);
        }
        let Value::Object(members) = value else {
            table.problem(&name, &format!("expected a table ([organizations.{name}])"));
            continue;
        };
        let mut organization = table.within(&name, members);
        let required = is_required(&mut organization);
        *organizations
            .entry(SecondFactorRules::folded(&name))
            .or_default() |= required;
        organization.finish();
    }
    organizations
}

fn is_required(section: &mut Section<'_>) -> bool {
    let rule = section.parsed(KEY, SecondFactorRule::parse);
    rule.is_some_and(|rule| rule.value == SecondFactorRule::Required)
}

#[cfg(test)]
mod tests {
    use crate::config::tests::load;

    #[test]
    fn the_service_and_organizations_have_a_rule() {
        let text = "second_factor = \"optional\"\n[organizations.\"Contoso Ltd.\"]\nsecond_factor = \"required\"\n\
            [organizations.Fabrikam]\nsecond_factor = \"optional\"\n";
        let rules = load(text, &[]).unwrap().protocol.second_factor;
        assert!(!rules.everybody);
        let organizations = [("contoso ltd.", true), ("fabrikam", false)];
        let organizations = organizations.map(|(name, required)| (name.to_owned(), required));
        assert_eq!(rules.organizations, organizations.into());
        let by_variable = load("", &[("TOKEN_SERVICE__SECOND_FACTOR", "required")]);
        assert!(by_variable.unwrap().protocol.second_factor.everybody);
        for (text, problem) in [
            (
                "second_factor = \"always\"",
                "config.toml:1: second_factor: expected optional or required",
            ),
            (
                "[organizations]\nContoso = \"required\"",
                "config.toml:2: Contoso: expected a table ([organizations.Contoso])",
            ),
            (
                "[organizations.\"Contoso  Ltd.\"]\nsecond_factor = \"required\"",
                "config.toml:1: Contoso  Ltd.: has other white space than single spaces between words: correct it",
            ),
            (
                "[organizations.Contoso]\nsecond_facto = \"required\"",
                "config.toml:2: second_facto: unknown key; did you mean second_factor?",
            ),
        ] {
            assert_eq!(load(text, &[]).unwrap_err(), [problem]);
        }
    }
}
