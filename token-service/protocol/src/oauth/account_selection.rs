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

/// Reason why no linked account can be chosen, with what the integrator has to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// The user has no linked account (D-7).
    #[error("The user has no linked account")]
    NoneLinked,
    #[error("The user has several linked accounts: name one with user_id and user_site")]
    Ambiguous,
    /// The user has several linked accounts, and the request has only one of `user_id` and `user_site`.
    #[error("The user has several linked accounts: user_id and user_site must be given together")]
    HalfNamed,
    #[error("The account of user_id and user_site is not linked to the user")]
    NotLinked,
    #[error(
        "user_site differs from the site of the linked account by a slash at its end; both must be equal character by \
         character"
    )]
    TrailingSlash,
    /// The assertion and the body both name an account (protocol.md §4.2 rule 2).
    #[error("user_id and user_site must not be given both in the assertion and in the body")]
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

    /// If a user has one account, a request may omit each part. If a user has several, the request must name the whole account.
    #[test]
    fn the_account_is_linked_and_the_only_one_that_can_be_meant() {
        use AccountError as E;
        let [one, two, slash] = ["us1.example.com", "us2.example.com", "us2.example.com/"]
            .map(|site| Some(format!("https://{site}")));
        for (linked, user_id, user_site, chosen) in [
            (0, None, &None, Err(E::NoneLinked)),
            (0, Some("1"), &None, Err(E::NoneLinked)),
            (0, Some("2"), &two, Err(E::NoneLinked)),
            (1, None, &None, Ok(0)),
            (1, Some("1"), &None, Ok(0)),
            (1, Some(" 1 "), &None, Ok(0)),
            (1, None, &one, Ok(0)),
            (1, Some("1"), &one, Ok(0)),
            (1, Some("2"), &None, Err(E::NotLinked)),
            (1, Some("2"), &two, Err(E::NotLinked)),
            (1, None, &two, Err(E::NotLinked)),
            (2, None, &None, Err(E::Ambiguous)),
            (3, Some("2"), &two, Ok(1)),
            (3, Some("2"), &None, Err(E::HalfNamed)),
            (3, None, &two, Err(E::HalfNamed)),
            (3, Some("1"), &two, Err(E::NotLinked)),
            (3, Some("2"), &slash, Err(E::TrailingSlash)),
        ] {
            let accounts = accounts(linked);
            let selected = select(&accounts, named(user_id, user_site.as_deref()));
            let expected = chosen.map(|index: usize| &accounts[index]);
            assert_eq!(selected, expected, "{linked} {user_id:?} {user_site:?}");
        }
        let slash = named(None, Some("https://us1.example.com/"));
        assert_eq!(select(&accounts(1), slash), Err(E::TrailingSlash));
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
