//! A request of a person's browser, for pages and forms.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::web::Data;
use actix_web::{Error, FromRequest, HttpRequest};

use super::agent;
use super::cookies::Cookies;
use super::failure::PageFailure;
use super::frame::Frame;
use super::language;
use super::texts::Texts;
use crate::http::origin;
use crate::service::{Moment, Service};
use crate::telemetry::audit_log::Entry;
use domain::{AuditEvent, Scope};
use protocol::Context;
use protocol::oauth::authorize::{Goal, Step, next_step};
use protocol::sign_in::session::LiveSession;
use protocol::sign_in::{Place, SessionId};
use registry::change::{self, Edit, How};

/// One request of a browser, with the keys and time of its start.
pub(super) struct Browser {
    pub(super) http: HttpRequest,
    pub(super) service: Data<Service>,
    pub(super) cookies: Cookies,
    moment: Moment,
}

impl FromRequest for Browser {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(http: &HttpRequest, _: &mut Payload) -> Self::Future {
        let service = Data::<Service>::extract(http).into_inner();
        ready(service.map(|service| Self::of(http, &service)))
    }
}

impl Browser {
    pub(super) fn of(http: &HttpRequest, service: &Data<Service>) -> Self {
        Self {
            http: http.clone(),
            cookies: Cookies::of(&service.config.protocol.issuer),
            moment: service.moment(),
            service: service.clone(),
        }
    }

    pub(super) fn context(&self) -> Context<'_> {
        self.service.context(&self.moment)
    }

    /// The texts in the person's language.
    pub(super) fn texts(&self) -> &'static Texts {
        language::of(&self.http)
    }

    /// What surrounds each page.
    pub(super) fn frame(&self) -> Frame<'_> {
        Frame::of(&self.service.config, self.texts())
    }

    /// The label of the site of a linked account; the site itself if it has no label.
    pub(super) fn site_label<'a>(&'a self, site: &'a str) -> &'a str {
        let labels = &self.service.config.site_labels;
        labels.get(site).map_or(site, String::as_str)
    }

    /// What clients with these scopes may do.
    pub(super) fn scope_in_words<'a>(&'a self, scope: &'a Scope) -> Vec<&'a str> {
        let texts = &self.service.config.scopes;
        texts.in_words(scope, self.texts().tag)
    }

    pub(super) fn issuer(&self) -> &str {
        &self.service.config.protocol.issuer
    }

    /// Where an attempt to sign in comes from.
    pub(super) fn place(&self) -> Place {
        let (browser, system) = agent::of(&self.http);
        Place {
            address: origin::address(&self.http),
            browser: browser.to_owned(),
            system: system.to_owned(),
            devices: self.cookies.devices(&self.http),
        }
    }

    /// The id of the browser's session, live or not.
    pub(super) fn session_id(&self) -> Option<SessionId> {
        self.cookies.session(&self.http)
    }

    /// The live session, if its user is enabled.
    pub(super) async fn live_session(&self) -> Result<Option<LiveSession>, PageFailure> {
        Ok(match self.session_id() {
            Some(id) => LiveSession::of(&self.context(), id).await?,
            None => None,
        })
    }

    /// What a person with this session has to do next.
    pub(super) fn next_step(&self, goal: Goal<'_>, live: Option<LiveSession>) -> Step {
        let settings = &self.service.config.protocol;
        next_step(goal, live, settings, self.context().now)
    }

    /// An entry of the audit log, for the transaction of a change.
    pub(super) fn event(&self, entry: Entry) -> AuditEvent {
        self.service.event(&origin::of(&self.http), entry)
    }

    /// Makes the change of the registry that `edit` plans: see [`change::change`].
    pub(super) async fn change<T>(
        &self,
        edit: impl AsyncFn() -> Result<Edit<T>, PageFailure>,
    ) -> Result<T, PageFailure> {
        let how = How {
            event: &|entry| self.event(entry),
            passwords: None,
            dry_run: false,
        };
        change::change(&**self.service, how, edit).await
    }

    pub(super) fn record(&self, entry: Entry) {
        self.service.record(&origin::of(&self.http), entry);
    }
}
