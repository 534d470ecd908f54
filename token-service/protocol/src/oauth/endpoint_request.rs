//! First step of all endpoints with client authentication: read the form, find the client.

use super::client_authentication::{self, PresentedClient, Served};
use super::connection::{Connection, Shown};
use super::error::TokenError;
use super::parameter::Parameter;
use super::parameters::Parameters;
use crate::Context;

/// The parts of an HTTP request that these endpoints read.
#[derive(Clone)]
pub struct EndpointRequest<'a> {
    /// All `Authorization` headers, as sent.
    pub authorization: Vec<&'a [u8]>,
    /// All `DPoP` headers, as sent.
    pub dpop: Vec<&'a [u8]>,
    pub connection: Connection<'a>,
    /// The `Content-Type` header, as sent.
    pub content_type: Option<&'a [u8]>,
    /// The query string of the URL, without `?`.
    pub query: &'a str,
    pub body: &'a [u8],
}

impl<'a> EndpointRequest<'a> {
    /// Reads the form and authenticates the client.
    ///
    /// # Errors
    /// The first [`TokenError`] of connection, content type, URL, form and client authentication, in this order.
    pub async fn open(
        &self,
        context: &Context<'_>,
        served: Served<'_>,
    ) -> Result<(Parameters<'a>, PresentedClient), TokenError> {
        check_connection(self.connection)?;
        check_content_type(self.content_type)?;
        check_query(self.query)?;
        let form = Parameters::parse(self.body)?;
        let certificate = self.connection.certificate();
        let client = client_authentication::authenticate(
            context,
            served,
            &self.authorization,
            certificate,
            &form,
        )
        .await?;
        Ok((form, client))
    }
}

fn check_connection(connection: Connection<'_>) -> Result<(), TokenError> {
    match connection {
        Connection::MutualTls {
            certificate: Shown::Unreadable(reason),
            ..
        } => Err(TokenError::CertificateUnreadable(reason)),
        Connection::MutualTls {
            certificate: Shown::Untrusted,
            ..
        } => Err(TokenError::CertificateUntrusted),
        Connection::MutualTls { .. } | Connection::Public => Ok(()),
    }
}

/// protocol.md §4.2 rule 5: a charset parameter is allowed if its value is UTF-8.
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
            let value = value.trim().trim_matches('"');
            // Some libraries leave out the hyphen.
            value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("utf8")
        }
        _ => true,
    });
    (form && utf8).then_some(()).ok_or(TokenError::ContentType)
}

/// Refuses known parameters in the URL, which servers and proxies log (RFC 6749 §2.3.1).
fn check_query(query: &str) -> Result<(), TokenError> {
    let query = Parameters::parse(query.as_bytes())?;
    if Parameter::ALL.iter().any(|name| query.contains(name)) {
        return Err(TokenError::ParameterInUrl);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_s4_2_rule_5_charset_may_be_utf8() {
        for good in [
            "application/x-www-form-urlencoded",
            "application/x-www-form-urlencoded;charset=UTF-8",
            "Application/X-WWW-Form-Urlencoded ; charset=\"utf-8\"",
            "application/x-www-form-urlencoded; charset=utf8",
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

    #[test]
    fn rfc6749_s2_3_1_nothing_of_ours_in_the_url() {
        assert_eq!(check_query("tenant=1"), Ok(()));
        assert_eq!(check_query("code=&client_secret"), Ok(()), "omitted (D-31)");
        assert_eq!(
            check_query("client_secret=x"),
            Err(TokenError::ParameterInUrl)
        );
        assert_eq!(
            check_query("client%5Fsecret=x"),
            Err(TokenError::ParameterInUrl)
        );
    }
}
