//! Wrong passwords, each with another forged address: does the service count them for different people?

use super::client::Operation;
use super::{Attack, passwords};

pub(crate) const ATTACK: Attack = Attack {
    name: "forged-addresses",
    about: "64 wrong passwords at once, each with an address that is made up",
    // The same as for wrong passwords.
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
