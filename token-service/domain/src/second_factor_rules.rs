//! Who must use a second factor (D-56).

use std::collections::BTreeMap;

use strum::{EnumString, IntoStaticStr};
use unicode_normalization::UnicodeNormalization as _;

use crate::{Client, User, amr};

/// `second_factor` in configuration and registrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SecondFactorRule {
    Optional,
    Required,
}

impl SecondFactorRule {
    /// Reads the rule of a file.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        text.parse().map_err(|_| "expected optional or required")
    }

    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// The rules of the configuration. The registration of a client has a rule too, and the strictest counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecondFactorRules {
    /// Whether every user must use a second factor.
    pub everybody: bool,
    /// Whether the users of an organization must, by its [folded](Self::folded) name.
    pub organizations: BTreeMap<String, bool>,
}

impl SecondFactorRules {
    /// The name of an organization, whatever its case and the spelling of its accents: a rule must not miss those whom it means.
    pub fn folded(organization: &str) -> String {
        organization.nfkc().collect::<String>().to_lowercase()
    }

    /// True if `user` needs a second factor. `client`: for which the user authorizes something; `None` for the user's own page.
    pub fn require(&self, user: &User, client: Option<&Client>) -> bool {
        let organization = user.organization.as_deref().map(Self::folded);
        self.everybody
            || organization.is_some_and(|name| self.organizations.get(&name) == Some(&true))
            || client.is_some_and(|client| client.requires_second_factor)
    }

    /// True if a sign-in of `user` by the methods `amr` is enough for tokens of `client`.
    pub fn accept(&self, amr: &[String], user: &User, client: &Client) -> bool {
        amr::has_second_factor(amr) || !self.require(user, Some(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{installed, user};

    #[test]
    fn the_strictest_rule_counts() {
        let (strict, lax) = ("Contoso".to_owned(), "Fabrikam".to_owned());
        let mut rules = SecondFactorRules {
            everybody: false,
            organizations: [(&strict, true), (&lax, false)]
                .map(|(name, required)| (SecondFactorRules::folded(name), required))
                .into(),
        };
        let of = |organization: Option<&String>| User {
            organization: organization.cloned(),
            ..user("ada", &[])
        };
        let asking = |requires_second_factor| Client {
            requires_second_factor,
            ..installed("app", &[])
        };
        for (organization, client, expected) in [
            (None, false, false),
            (None, true, true),
            (Some(&strict), false, true),
            (Some(&lax), false, false),
            (Some(&lax), true, true),
        ] {
            let required = rules.require(&of(organization), Some(&asking(client)));
            assert_eq!(required, expected, "{organization:?} {client}");
        }
        assert!(!rules.require(&of(Some(&lax)), None));
        rules.everybody = true;
        assert!(rules.require(&of(Some(&lax)), None));
    }
}
