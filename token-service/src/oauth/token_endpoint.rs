//! The token endpoint's steps, in their order (spec §4.2): each takes what the one before returned.

use super::Context;
use super::client_authentication::{self, PresentedClient};
use super::error::TokenError;
use super::grants::{GrantType, authorization_code, client_credentials, jwt_bearer, refresh_token};
use super::parameters::Parameters;
use super::token_response::TokenResponse;

/// Everything of an HTTP request that the token endpoint reads.
#[derive(Clone, Copy)]
pub struct TokenRequest<'a> {
    /// All `Authorization` headers, as sent.
    pub authorization: &'a [&'a [u8]],
    /// The `Content-Type` header, as sent.
    pub content_type: Option<&'a [u8]>,
    /// The query string of the URL, without `?`.
    pub query: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// What the log may know of a request: nothing that is secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// The client, once one is known.
    pub client_id: Option<String>,
    /// The grant, once one is known.
    pub grant_type: Option<GrantType>,
}

/// Parameters that must never stand in a URL, where servers and proxies log them (RFC 6749 §2.3.1).
const BODY_ONLY: [&str; 11] = [
    "assertion",
    "client_id",
    "client_secret",
    "code",
    "code_verifier",
    "grant_type",
    "redirect_uri",
    "refresh_token",
    "scope",
    "user_id",
    "user_site",
];

/// Answers one token request. `trace` is filled as the request becomes known.
///
/// # Errors
/// A [`TokenError`], the first that a step finds.
pub async fn answer(
    context: &Context<'_>,
    request: TokenRequest<'_>,
    trace: &mut Trace,
) -> Result<TokenResponse, TokenError> {
    check_content_type(request.content_type)?;
    check_query(request.query)?;
    let form = Parameters::parse(request.body)?;
    let client =
        client_authentication::authenticate(request.authorization, &form, context.registry)?;
    trace.client_id = Some(client.client().client_id.to_string());
    let grant_type = read_grant_type(&form)?;
    trace.grant_type = Some(grant_type);
    issue(context, grant_type, &client, &form).await
}

async fn issue(
    context: &Context<'_>,
    grant_type: GrantType,
    client: &PresentedClient,
    form: &Parameters<'_>,
) -> Result<TokenResponse, TokenError> {
    match grant_type {
        GrantType::AuthorizationCode => authorization_code::exchange(context, client, form).await,
        GrantType::RefreshToken => refresh_token::refresh(context, client, form).await,
        GrantType::JwtBearer => jwt_bearer::exchange(context, client, form).await,
        GrantType::ClientCredentials => client_credentials::issue(context, client, form),
    }
}

/// spec §4.2 rule 5: a charset parameter is fine when it is UTF-8.
fn check_content_type(content_type: Option<&[u8]>) -> Result<(), TokenError> {
    let text = content_type
        .and_then(|value| std::str::from_utf8(value).ok())
        .ok_or(TokenError::ContentType)?;
    let mut parts = text.split(';').map(str::trim);
    let form = parts
        .next()
        .is_some_and(|media| media.eq_ignore_ascii_case("application/x-www-form-urlencoded"));
    let utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    });
    if form && utf8 {
        Ok(())
    } else {
        Err(TokenError::ContentType)
    }
}

fn check_query(query: &str) -> Result<(), TokenError> {
    let query = Parameters::parse(query.as_bytes())?;
    if BODY_ONLY.iter().any(|name| query.contains(name)) {
        return Err(TokenError::ParameterInUrl);
    }
    Ok(())
}

/// D-4: an unknown `grant_type` is `invalid_grant`; an absent one is a malformed request.
fn read_grant_type(form: &Parameters<'_>) -> Result<GrantType, TokenError> {
    let name = form
        .get("grant_type")
        .ok_or(TokenError::Missing("grant_type"))?;
    GrantType::from_name(name).ok_or(TokenError::UnknownGrantType)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spec_s4_2_rule_5_charset_may_be_utf8() {
        for good in [
            "application/x-www-form-urlencoded",
            "application/x-www-form-urlencoded;charset=UTF-8",
            "Application/X-WWW-Form-Urlencoded ; charset=\"utf-8\"",
        ] {
            assert_eq!(check_content_type(Some(good.as_bytes())), Ok(()), "{good}");
        }
        for bad in [
            "application/json",
            "application/x-www-form-urlencoded; charset=latin1",
            "",
            "\u{e9}",
        ] {
            let refused = Err(TokenError::ContentType);
            assert_eq!(check_content_type(Some(bad.as_bytes())), refused, "{bad}");
        }
        assert_eq!(check_content_type(None), Err(TokenError::ContentType));
    }

    /// Checklist row 14.
    #[test]
    fn rfc6749_s2_3_1_nothing_of_ours_in_the_url() {
        assert_eq!(check_query("tenant=1"), Ok(()));
        assert_eq!(
            check_query("client_secret=x"),
            Err(TokenError::ParameterInUrl)
        );
        assert_eq!(
            check_query("client%5Fsecret="),
            Err(TokenError::ParameterInUrl)
        );
    }
}
