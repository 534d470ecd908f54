//! The ways to sign in that the sign-in page offers.

use crate::config::SignInForm;
use protocol::identity_provider::IdentityProvider;

/// The ways, in the order of the page.
pub(super) struct Offer<'a> {
    /// The provider whose people have names like the one on the page, and the domain of this name.
    pub(super) company: Option<(&'a IdentityProvider, &'a str)>,
    /// The providers above the form.
    pub(super) first: Vec<&'a IdentityProvider>,
    /// True if the page has the form with the password.
    pub(super) has_form: bool,
    /// The providers below the form.
    pub(super) then: Vec<&'a IdentityProvider>,
}

impl<'a> Offer<'a> {
    /// The offer for `username`, as typed or suggested. Depends only on the name and the configuration, so it does not reveal who is
    /// registered. `keeps_form`: the person has just sent the form.
    pub(super) fn of(
        providers: &[&'a IdentityProvider],
        form: SignInForm,
        username: &str,
        keeps_form: bool,
    ) -> Self {
        let mut of_name = providers.iter();
        let company = of_name.find_map(|provider| Some((*provider, provider.domain_of(username)?)));
        let is_company = |provider: &&IdentityProvider| {
            company.is_some_and(|(company, _)| company.id == provider.id)
        };
        let (mut first, mut then): (Vec<_>, Vec<_>) =
            providers.iter().partition(|one| is_company(one));
        if form != SignInForm::PasswordFirst {
            first.append(&mut then);
        }
        Self {
            company,
            has_form: form != SignInForm::ProvidersOnly || first.is_empty() || keeps_form,
            first,
            then,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(id: &str) -> IdentityProvider {
        IdentityProvider {
            id: id.to_owned(),
            issuer: format!("https://{id}.test"),
            name: id.to_owned(),
            algorithms: [].into(),
            email_domains: vec![format!("{id}.test"), format!("xn--bcher-kva.{id}.test")],
            link_by_email: false,
            client_id: Some("c".to_owned()),
        }
    }

    #[test]
    fn the_company_of_a_name_comes_first() {
        use SignInForm::{PasswordFirst, ProvidersFirst, ProvidersOnly};
        let (contoso, fabrikam) = (provider("contoso"), provider("fabrikam"));
        let both = [&contoso, &fabrikam];
        let ids = |providers: &[&IdentityProvider]| {
            let ids = providers.iter().map(|provider| &*provider.id);
            ids.collect::<Vec<_>>().join(" ")
        };
        for (form, name, domain, first, has_form, then) in [
            (PasswordFirst, "", None, "", true, "contoso fabrikam"),
            (PasswordFirst, "ada", None, "", true, "contoso fabrikam"),
            (
                PasswordFirst,
                "ada@other.test",
                None,
                "",
                true,
                "contoso fabrikam",
            ),
            (
                PasswordFirst,
                "ada@x.contoso.test",
                None,
                "",
                true,
                "contoso fabrikam",
            ),
            (
                PasswordFirst,
                " A@B@Fabrikam.TEST ",
                Some("fabrikam.test"),
                "fabrikam",
                true,
                "contoso",
            ),
            (
                PasswordFirst,
                "ada@Bücher.contoso.test",
                Some("xn--bcher-kva.contoso.test"),
                "contoso",
                true,
                "fabrikam",
            ),
            (ProvidersFirst, "", None, "contoso fabrikam", true, ""),
            (
                ProvidersFirst,
                "ada@fabrikam.test",
                Some("fabrikam.test"),
                "fabrikam contoso",
                true,
                "",
            ),
            (
                ProvidersOnly,
                "ada@other.test",
                None,
                "contoso fabrikam",
                false,
                "",
            ),
        ] {
            let offer = Offer::of(&both, form, name, false);
            assert_eq!(
                offer.company.map(|(_, domain)| domain),
                domain,
                "{form:?} {name}"
            );
            let shown = (ids(&offer.first), offer.has_form, ids(&offer.then));
            assert_eq!(
                shown,
                (first.to_owned(), has_form, then.to_owned()),
                "{form:?} {name}"
            );
        }
        // Nobody is left without a way to sign in, or without an answer.
        assert!(Offer::of(&[], ProvidersOnly, "", false).has_form);
        assert!(Offer::of(&both, ProvidersOnly, "", true).has_form);
    }
}
