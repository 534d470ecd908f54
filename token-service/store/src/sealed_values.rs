//! All sealed values of a store.

use crate::{Store, StoreError};
use domain::{SealedValue, User, Username};

const PAGE: usize = 1000;

/// Reads the sealed values of a store page by page.
#[derive(Debug, Default)]
pub struct SealedValues {
    next: Next,
}

/// The content of the next page.
#[derive(Debug, Default)]
enum Next {
    #[default]
    RootAndKeys,
    RegisteredTotpSecrets {
        after: String,
    },
    OwnTotpSecrets {
        after: String,
    },
    Nothing,
}

impl SealedValues {
    /// The next page, which may be empty; `None` at the end.
    ///
    /// # Errors
    /// The errors of the store. The next call reads the same page again.
    pub async fn page(
        &mut self,
        store: &dyn Store,
    ) -> Result<Option<Vec<(SealedValue, Vec<u8>)>>, StoreError> {
        let from_the_start = String::new;
        let (page, next) = match &self.next {
            Next::RootAndKeys => {
                let root = store.sealed_root().await?;
                let root = root.map(|root| (SealedValue::Root, root));
                let keys = store.signing_keys().await?.into_iter();
                let keys = keys.map(|key| (SealedValue::SigningKey(key.kid), key.sealed_pkcs8));
                let after = from_the_start();
                let next = Next::RegisteredTotpSecrets { after };
                (root.into_iter().chain(keys).collect(), next)
            }
            Next::RegisteredTotpSecrets { after } => {
                let users = store.users(after.clone(), PAGE).await?;
                let next = match after_the_last(users.iter().map(|user| &user.username)) {
                    Some(after) => Next::RegisteredTotpSecrets { after },
                    None => Next::OwnTotpSecrets {
                        after: from_the_start(),
                    },
                };
                (users.into_iter().filter_map(registered).collect(), next)
            }
            Next::OwnTotpSecrets { after } => {
                let own = store.own_totp_secrets(after.clone(), PAGE).await?;
                let next = match after_the_last(own.iter().map(|(username, _)| username)) {
                    Some(after) => Next::OwnTotpSecrets { after },
                    None => Next::Nothing,
                };
                let own = own.into_iter();
                let own = own.map(|(name, sealed)| (SealedValue::OwnTotpSecret(name), sealed));
                (own.collect(), next)
            }
            Next::Nothing => return Ok(None),
        };
        self.next = next;
        Ok(Some(page))
    }
}

fn registered(user: User) -> Option<(SealedValue, Vec<u8>)> {
    let sealed = user.totp_secret_sealed?;
    Some((SealedValue::RegisteredTotpSecret(user.username), sealed))
}

/// The name after which the next page starts; `None` if this page is the last.
fn after_the_last<'a>(
    names: impl DoubleEndedIterator<Item = &'a Username> + ExactSizeIterator,
) -> Option<String> {
    let is_last = names.len() < PAGE;
    names
        .last()
        .filter(|_| !is_last)
        .map(|name| name.as_str().to_owned())
}
