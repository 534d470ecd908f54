//! The flows that the service has.

use crate::Context;
use crate::flow::{Current, Flow, LongestUserId, Misfit, OpaqueRefreshToken};
use crate::settings::Settings;
use domain::{Client, LegacyInstance};

/// Every flow.
pub const FLOWS: &[&dyn Flow] = &[
    // The first flow gets requests that name no flow.
    &Current,
    &crate::legacy::Legacy,
];

/// The flow that begins at this path; the first flow for all other paths.
#[must_use]
pub fn begun_at(path: &str) -> &'static dyn Flow {
    let mut all = FLOWS.iter().copied();
    all.find(|flow| flow.begins_at() == path)
        .unwrap_or(&Current)
}

/// All values of `iss` in access tokens of this service.
#[must_use]
pub fn issuers(settings: &Settings, instances: &[LegacyInstance]) -> Vec<String> {
    let all = FLOWS.iter().copied();
    all.flat_map(|flow| flow.issuers(settings, instances))
        .collect()
}

/// The flow whose access tokens have this `iss`.
#[must_use]
pub fn of_issuer(context: &Context<'_>, issuer: &str) -> Option<&'static dyn Flow> {
    FLOWS.iter().copied().find(|flow| {
        let issuers = flow.issuers(context.settings, &context.summary.legacy_instances);
        issuers.iter().any(|own| own == issuer)
    })
}

/// Reads a refresh token that is not a JWT, and finds its flow. `None` if this service did not issue the token.
#[must_use]
pub fn opaque_refresh_token<'a>(
    context: &Context<'a>,
    token: &str,
) -> Option<(&'static dyn Flow, OpaqueRefreshToken<'a>)> {
    FLOWS
        .iter()
        .copied()
        .find_map(|flow| Some((flow, flow.opaque_refresh_token(context, token)?)))
}

/// The clients whose access tokens have no room for the longest User ID. Registration refuses such clients.
#[must_use]
pub fn misfits<'a>(
    api_audience: &str,
    instances: &[&LegacyInstance],
    clients: impl IntoIterator<Item = &'a Client>,
    longest: LongestUserId<'_>,
) -> Vec<Misfit> {
    let of = |client| {
        let all = FLOWS.iter().copied();
        all.flat_map(|flow| flow.misfits(client, instances, api_audience, longest))
            .collect::<Vec<_>>()
    };
    clients.into_iter().flat_map(of).collect()
}
