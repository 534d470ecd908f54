//! Choice of the linked account for a token request without a browser (protocol.md §4.2 rule 2, D-6, D-7).

use unicode_normalization::UnicodeNormalization as _;

use super::error_code::ErrorCode;
use domain::LinkedAccount;

/// The `user_id` and `user_site` of a request or an assertion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamedAccount<'a> {
    pub user_id: Option<&'a str>,
    /// `user_site`, compared as text.
    pub user_site: Option<&'a str>,
}

impl NamedAccount<'_> {
    pub const fn is_empty(&self) -> bool {
        self.user_id.is_none() && self.user_site.is_none()
    }
}

/// Reason why no linked account can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountError {
    /// The user has no linked account (D-7).
    NoneLinked,
    /// The user has several linked accounts, and the request names none.
    Ambiguous,
    /// The user has several linked accounts, and the request has only one of `user_id` and `user_site`.
    HalfNamed,
    /// The named account is not linked to the user.
    NotLinked,
    /// `user_site` and the site of the linked account differ only by slashes at the end.
    TrailingSlash,
    /// The assertion and the body both name an account (protocol.md §4.2 rule 2).
    NamedTwice,
}

impl AccountError {
    /// The value of `error` for the client (D-6).
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::NoneLinked | Self::NotLinked | Self::TrailingSlash => ErrorCode::InvalidGrant,
            Self::Ambiguous | Self::HalfNamed | Self::NamedTwice => ErrorCode::InvalidRequest,
        }
    }

    /// Tells the integrator what to change.
    pub const fn description(self) -> &'static str {
        match self {
            Self::NoneLinked => "The user has no linked account",
            Self::Ambiguous => {
                "The user has several linked accounts: name one with user_id and user_site"
            }
            Self::HalfNamed => {
                "The user has several linked accounts: user_id and user_site must be given together"
            }
            Self::NotLinked => "The account of user_id and user_site is not linked to the user",
            Self::TrailingSlash => {
                "user_site differs from the site of the linked account by a slash at its end; both must be equal \
                 character by character"
            }
            Self::NamedTwice => {
                "user_id and user_site must not be given both in the assertion and in the body"
            }
        }
    }
}

/// The account that either the assertion or the body names.
///
/// # Errors
/// [`AccountError::NamedTwice`] if both name an account.
pub const fn one_place<'a>(
    assertion: NamedAccount<'a>,
    body: NamedAccount<'a>,
) -> Result<NamedAccount<'a>, AccountError> {
    match (assertion.is_empty(), body.is_empty()) {
        (false, false) => Err(AccountError::NamedTwice),
        (false, true) => Ok(assertion),
        (true, _) => Ok(body),
    }
}

/// Chooses one of the user's `linked` accounts. Each of `user_id` and `user_site` may be omitted if there is only one.
///
/// # Errors
/// An [`AccountError`] if the choice is not unique or the named account is not linked.
pub fn select<'a>(
    linked: &'a [LinkedAccount],
    named: NamedAccount<'_>,
) -> Result<&'a LinkedAccount, AccountError> {
    // Registration normalizes the User ID in the same way (D-33).
    let user_id: Option<String> = named.user_id.map(|id| id.trim().nfc().collect());
    let (user_id, user_site) = match (linked, user_id, named.user_site) {
        ([], ..) => return Err(AccountError::NoneLinked),
        ([only], user_id, user_site) => (
            user_id.unwrap_or_else(|| only.user_id.clone()),
            user_site.unwrap_or(&only.site),
        ),
        (_, Some(user_id), Some(user_site)) => (user_id, user_site),
        (_, None, None) => return Err(AccountError::Ambiguous),
        (_, Some(_), None) | (_, None, Some(_)) => return Err(AccountError::HalfNamed),
    };
    linked
        .iter()
        .find(|account| account.user_id == user_id && account.site == user_site)
        .ok_or_else(|| not_linked(linked, &user_id, user_site))
}

fn not_linked(linked: &[LinkedAccount], user_id: &str, user_site: &str) -> AccountError {
    let site = |site: &str| site.trim_end_matches('/').to_owned();
    let same_but_for_slash = linked
        .iter()
        .any(|account| account.user_id == user_id && site(&account.site) == site(user_site));
    if same_but_for_slash {
        AccountError::TrailingSlash
    } else {
        AccountError::NotLinked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(count: usize) -> Vec<LinkedAccount> {
        (1..=count)
            .map(|number| LinkedAccount {
                user_id: number.to_string(),
                username: format!("user{number}"),
                site: format!("https://us{number}.example.com"),
            })
            .collect()
    }

    fn named<'a>(user_id: Option<&'a str>, user_site: Option<&'a str>) -> NamedAccount<'a> {
        NamedAccount { user_id, user_site }
    }

    #[test]
    fn an_unnamed_account_must_be_the_only_one() {
        let none = NamedAccount::default();
        assert_eq!(select(&[], none), Err(AccountError::NoneLinked));
        assert_eq!(select(&accounts(1), none), Ok(&accounts(1)[0]));
        assert_eq!(select(&accounts(2), none), Err(AccountError::Ambiguous));
    }

    #[test]
    fn of_the_only_account_each_part_may_be_omitted() {
        let one = accounts(1);
        let site = Some("https://us1.example.com");
        for right in [
            named(Some("1"), None),
            named(None, site),
            named(Some("1"), site),
        ] {
            assert_eq!(select(&one, right), Ok(&one[0]));
        }
        for (wrong, error) in [
            (named(Some("2"), None), AccountError::NotLinked),
            (
                named(None, Some("https://us2.example.com")),
                AccountError::NotLinked,
            ),
            (
                named(None, Some("https://us1.example.com/")),
                AccountError::TrailingSlash,
            ),
        ] {
            assert_eq!(select(&one, wrong), Err(error));
        }
        assert_eq!(
            select(&[], named(Some("1"), None)),
            Err(AccountError::NoneLinked)
        );
    }

    #[test]
    fn one_of_several_accounts_must_be_named_whole_and_be_linked() {
        let three = accounts(3);
        let site = Some("https://us2.example.com");
        assert_eq!(select(&three, named(Some("2"), site)), Ok(&three[1]));
        assert_eq!(
            select(&three, named(Some("2"), None)),
            Err(AccountError::HalfNamed)
        );
        assert_eq!(
            select(&three, named(None, site)),
            Err(AccountError::HalfNamed)
        );
        assert_eq!(
            select(&three, named(Some("1"), site)),
            Err(AccountError::NotLinked)
        );
        assert_eq!(
            select(&accounts(1), named(Some("2"), site)),
            Err(AccountError::NotLinked)
        );
        assert_eq!(
            select(&three, named(Some("2"), Some("https://us2.example.com/"))),
            Err(AccountError::TrailingSlash)
        );
        assert_eq!(
            select(&[], named(Some("2"), site)),
            Err(AccountError::NoneLinked)
        );
    }

    #[test]
    fn assertion_and_body_must_not_both_name_one() {
        let full = named(Some("2"), Some("https://us2.example.com"));
        let none = NamedAccount::default();
        assert_eq!(one_place(full, none), Ok(full));
        assert_eq!(one_place(none, full), Ok(full));
        assert_eq!(one_place(none, none), Ok(none));
        assert_eq!(one_place(full, full), Err(AccountError::NamedTwice));
        assert_eq!(
            one_place(named(Some("2"), None), named(None, Some("x"))),
            Err(AccountError::NamedTwice)
        );
    }
}
