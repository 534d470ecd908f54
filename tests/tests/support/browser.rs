//! A person's browser: keeps cookies, reads pages, and submits their forms unchanged.

use tests::browsing::FORM;
use tests::visitor::Visitor;
use ureq::AsSendBody;
use url::Url;

use super::form_body;
use super::html::tags;
use super::http::Reply;
use super::{Client, Pkce};

/// A browser with its cookies.
pub(crate) struct Browser {
    visitor: Visitor,
    lobby: String,
    host: Option<String>,
    address: Option<String>,
}

/// The form of a page, with its hidden fields.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    pub(crate) action: String,
    pub(crate) hidden: Vec<(String, String)>,
    pub(crate) fields: Vec<String>,
    pub(crate) buttons: Vec<(String, String)>,
}

impl Form {
    /// The first form of a page.
    pub(crate) fn of(page: &Reply) -> Self {
        Self::that_begins(page, "<form ")
    }

    /// The first form of a page that is sent by POST.
    pub(crate) fn posted(page: &Reply) -> Self {
        Self::that_begins(page, "<form method=\"post\"")
    }

    fn that_begins(page: &Reply, start: &str) -> Self {
        let form = page.body.find(start).map(|start| &page.body[start..]);
        let form = form.and_then(|rest| rest.split_once("</form>"));
        let (form, _) = form.unwrap_or_else(|| panic!("no form in {}: {}", page.status, page.body));
        let mut read = Self {
            action: tags(form).next().unwrap().attribute("action").unwrap(),
            hidden: vec![],
            fields: vec![],
            buttons: vec![],
        };
        for tag in tags(form) {
            let attribute = |name: &str| tag.attribute(name).unwrap_or_default();
            let pair = (attribute("name"), attribute("value"));
            if tag.is("input") && attribute("type") == "hidden" {
                read.hidden.push(pair);
            } else if tag.is("input") {
                read.fields.push(pair.0);
            } else if tag.is("button") && !pair.0.is_empty() {
                read.buttons.push(pair);
            }
        }
        read
    }

    /// The address to which a form leads that is sent by GET.
    pub(crate) fn address(&self) -> String {
        let path = self.action.split('?').next().unwrap();
        let fields = self.hidden.iter();
        let fields: Vec<_> = fields.map(|(name, value)| (&**name, &**value)).collect();
        format!("{path}?{}", form_body(&fields))
    }
}

impl Browser {
    pub(crate) fn new(lobby: &str) -> Self {
        Self {
            visitor: Visitor::default(),
            lobby: lobby.to_owned(),
            host: None,
            address: None,
        }
    }

    /// A browser at `address`, as reported by a trusted proxy to the token service with the public listener `service`.
    pub(crate) fn from_address(service: &str, address: &str) -> Self {
        Self {
            address: Some(address.to_owned()),
            ..Self::new(service)
        }
    }

    /// A browser that resolves `host` to `address`.
    pub(crate) fn on_host(address: &str, host: &str) -> Self {
        Self {
            host: Some(host.to_owned()),
            ..Self::new(address)
        }
    }

    pub(crate) fn open(&self, address: &str) -> Reply {
        let url = Url::parse(&self.lobby).unwrap().join(address).unwrap();
        self.send("GET", url.as_str(), None, ())
    }

    /// Sends a request with the cookies and `header`, without opening the page.
    pub(crate) fn look(&self, method: &str, address: &str, header: (&str, &str)) -> Reply {
        let url = Url::parse(&self.lobby).unwrap().join(address).unwrap();
        self.send(method, url.as_str(), Some(header), ())
    }

    /// Opens an address of the authorization endpoint.
    pub(crate) fn authorize(&self, parameters: &[(&str, &str)]) -> Reply {
        self.open(&format!("/auth/authorize?{}", form_body(parameters)))
    }

    /// Submits `form` with `fields` added to its hidden ones.
    pub(crate) fn submit(&self, form: &Form, fields: &[(&str, &str)]) -> Reply {
        let action = format!("{}{}", self.lobby, form.action);
        let form = Form {
            action,
            ..form.clone()
        };
        self.submit_to(&form, fields)
    }

    /// Like [`Self::submit`], for a form whose action is an absolute URL.
    pub(crate) fn submit_to(&self, form: &Form, fields: &[(&str, &str)]) -> Reply {
        let hidden = form
            .hidden
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let all: Vec<(&str, &str)> = hidden.chain(fields.iter().copied()).collect();
        let kind = ("content-type", FORM);
        self.send("POST", &form.action, Some(kind), form_body(&all))
    }

    fn send(
        &self,
        method: &str,
        url: &str,
        header: Option<(&str, &str)>,
        body: impl AsSendBody,
    ) -> Reply {
        let own = [("host", &self.host), ("x-forwarded-for", &self.address)];
        let own = own
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let headers: Vec<_> = header.into_iter().chain(own).collect();
        let answer = self.visitor.send(method, url, &headers, body);
        answer.unwrap().into()
    }

    /// Submits the sign-in form on `page`, and follows the redirect.
    pub(crate) fn sign_in(&self, page: &Reply, username: &str, password: &str) -> Reply {
        let form = Form::of(page);
        assert_eq!(form.fields, ["username", "password"]);
        let reply = self.submit(&form, &[("username", username), ("password", password)]);
        self.follow(&reply)
    }

    /// Follows the redirect after a form.
    pub(crate) fn follow(&self, reply: &Reply) -> Reply {
        assert_eq!(reply.status, 303, "{}", reply.body);
        self.open(reply.header("location").unwrap())
    }

    /// Signs in as Ada, who has one account, and returns the parameters of the response.
    pub(crate) fn code_for(&self, client: &Client, pkce: Option<&Pkce>) -> String {
        self.code_with(client, pkce, &[])
    }

    /// Like [`Self::code_for`], with these parameters too.
    pub(crate) fn code_with(
        &self,
        client: &Client,
        pkce: Option<&Pkce>,
        more: &[(&str, &str)],
    ) -> String {
        let mut parameters = client.request(more);
        if let Some(pkce) = pkce {
            parameters.push(("code_challenge", pkce.challenge.as_str()));
            parameters.push(("code_challenge_method", "S256"));
        }
        let page = self.authorize(&parameters);
        let done = match page.status {
            200 if Form::of(&page).fields.is_empty() => self.submit(&Form::of(&page), &[]),
            200 => self.sign_in(&page, "ada@example.com", "demo-password-of-ada"),
            _ => page,
        };
        answered(&done, client.redirect_uri, "code").unwrap()
    }
}

/// A parameter of an authorization response at `redirect_uri`.
#[track_caller]
pub(crate) fn answered(reply: &Reply, redirect_uri: &str, name: &str) -> Option<String> {
    let mut parameters = answer(reply, redirect_uri).into_iter();
    Some(parameters.find(|(known, _)| known == name)?.1)
}

/// The parameters of an authorization response at `redirect_uri`.
#[track_caller]
pub(crate) fn answer(reply: &Reply, redirect_uri: &str) -> Vec<(String, String)> {
    assert!(
        matches!(reply.status, 302 | 303),
        "{}: {}",
        reply.status,
        reply.body
    );
    let location = reply.header("location").unwrap();
    let query = location
        .strip_prefix(redirect_uri)
        .unwrap_or_else(|| panic!("{location} is not {redirect_uri}"));
    url::form_urlencoded::parse(query.trim_start_matches(['?', '&']).as_bytes())
        .into_owned()
        .collect()
}
