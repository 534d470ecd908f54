//! Wrong passwords, each from another address that the attacker made up: does the service take them for many people?

use crate::Attack;
use crate::client::Operation;
use crate::passwords;

pub(crate) const ATTACK: Attack = Attack {
    name: "forged-addresses",
    about: "64 wrong passwords at once, each with an address that is made up",
    // As wrong passwords do.
    outage: None,
    explains: &[(Operation::SignIn, 429), (Operation::SignIn, 503)],
    run: |target| {
        passwords::guess(target, |number| {
            let [a, b] = [number >> 8, number].map(|part| part & 0xff);
            let address = format!("203.0.{a}.{b}");
            vec![
                ("x-forwarded-for", address.clone()),
                ("forwarded", format!("for={address}")),
                ("x-real-ip", address),
            ]
        })
    },
};
