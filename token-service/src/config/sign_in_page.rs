//! `[sign_in_page]`: which way to sign in the page offers first, for all clients and for single ones.

use std::collections::BTreeMap;

use document::Section;
use domain::ClientId;
use serde_json::Value;

/// What the sign-in page offers. Changes the page only: a client's `identity_providers` say with whom its people sign in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SignInForm {
    /// The form with the password stands above the buttons of the identity providers.
    #[default]
    PasswordFirst,
    ProvidersFirst,
    /// The page has no form with a password.
    ProvidersOnly,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignInForms {
    pub all: SignInForm,
    /// By Client ID.
    pub clients: BTreeMap<String, SignInForm>,
}

impl SignInForms {
    /// The form for the people of a client, or for their own pages.
    pub fn of(&self, client: Option<&ClientId>) -> SignInForm {
        let own = client.and_then(|client| self.clients.get(client.as_str()));
        own.copied().unwrap_or(self.all)
    }
}

pub(super) fn read(mut section: Section<'_>) -> SignInForms {
    let all = section.parsed("offer", form);
    let mut clients = BTreeMap::new();
    let mut of_clients = section.section("clients");
    while let Some((client, value)) = of_clients.take_any() {
        let read = match &value {
            _ if ClientId::parse(&client).is_none() => Err("is no Client ID"),
            Value::String(text) => form(text),
            _ => Err(EXPECTED),
        };
        match read {
            Ok(form) => drop(clients.insert(client, form)),
            Err(problem) => of_clients.problem(&client, problem),
        }
    }
    section.finish();
    SignInForms {
        all: all.map_or_else(SignInForm::default, |form| form.value),
        clients,
    }
}

const EXPECTED: &str = "expected password_first, providers_first or providers_only";

fn form(text: &str) -> Result<SignInForm, &'static str> {
    match text {
        "password_first" => Ok(SignInForm::PasswordFirst),
        "providers_first" => Ok(SignInForm::ProvidersFirst),
        "providers_only" => Ok(SignInForm::ProvidersOnly),
        _ => Err(EXPECTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::load;

    #[test]
    fn a_client_may_have_another_form_than_all() {
        let of = |text: &str, client: &str| {
            let forms = load(text, &[]).unwrap().sign_in_page;
            forms.of(ClientId::parse(client).as_ref())
        };
        assert_eq!(of("", "web"), SignInForm::PasswordFirst);
        let text = "[sign_in_page]\noffer = 'providers_first'\n[sign_in_page.clients]\nweb = 'providers_only'\n";
        assert_eq!(of(text, "web"), SignInForm::ProvidersOnly);
        assert_eq!(of(text, "other"), SignInForm::ProvidersFirst);
        assert_eq!(of(text, ""), SignInForm::ProvidersFirst, "own pages");
        let wrong = "[sign_in_page]\noffer = 'none'\n[sign_in_page.clients]\nweb = 1\n'a b' = 'providers_only'\n";
        let problems = load(wrong, &[]).unwrap_err();
        let expected = [
            format!("config.toml:2: offer: {EXPECTED}"),
            format!("config.toml:4: web: {EXPECTED}"),
            "config.toml:5: a b: is no Client ID".to_owned(),
        ];
        assert_eq!(problems, expected);
    }
}
