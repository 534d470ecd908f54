//! The flows that the service has.

use crate::Context;
use crate::flow::{Current, Flow, OpaqueRefreshToken, TokenName};
use crate::settings::Settings;
use domain::LegacyInstance;

pub const FLOWS: &[&dyn Flow] = &[
    // The first flow gets requests that name no flow.
    &Current,
    &crate::legacy::Legacy,
];

/// The flow that begins at this path; the first flow for all other paths.
pub fn begun_at(path: &str) -> &'static dyn Flow {
    let mut all = FLOWS.iter().copied();
    all.find(|flow| flow.begins_at() == path)
        .unwrap_or(&Current)
}

/// All values of `iss` in access tokens of this service.
pub fn issuers(settings: &Settings, instances: &[LegacyInstance]) -> Vec<String> {
    let all = FLOWS.iter().copied();
    all.flat_map(|flow| flow.issuers(settings, instances))
        .collect()
}

/// The flow whose access tokens have this `iss`.
pub fn of_issuer(context: &Context<'_>, issuer: &str) -> Option<&'static dyn Flow> {
    FLOWS.iter().copied().find(|flow| {
        let issuers = flow.issuers(context.settings, &context.summary.legacy_instances);
        issuers.iter().any(|own| own == issuer)
    })
}

/// Reads a refresh token that is not a JWT, and finds its flow. `None` if this service did not issue the token.
pub fn opaque_refresh_token<'a>(
    context: &Context<'a>,
    token: &str,
) -> Option<(&'static dyn Flow, OpaqueRefreshToken<'a>)> {
    FLOWS
        .iter()
        .copied()
        .find_map(|flow| Some((flow, flow.opaque_refresh_token(context, token)?)))
}

/// Why access tokens of a flow have no room for a name.
pub fn misfit(name: TokenName<'_>, settings: &Settings) -> Option<String> {
    FLOWS.iter().find_map(|flow| flow.misfit(name, settings))
}
