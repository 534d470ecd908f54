//! STUB
use protocol::identity_provider::{IdentityProvider, Unavailable};
use std::sync::Arc;
use url::Url;
pub(crate) struct Endpoints {
    pub authorization_endpoint: Url,
    pub iss_parameter_supported: bool,
}
#[derive(Debug, thiserror::Error)]
pub(crate) enum RedeemError {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("refused")]
    Refused,
}
#[derive(Default)]
pub(crate) struct Providers;
impl Providers {
    pub async fn endpoints(&self, _: &IdentityProvider) -> Result<Arc<Endpoints>, Unavailable> {
        todo!()
    }
    pub async fn redeem(
        &self,
        _: &IdentityProvider,
        _: &str,
        _: &str,
        _: &str,
    ) -> Result<String, RedeemError> {
        todo!()
    }
}
