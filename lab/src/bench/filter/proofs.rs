//! What a DPoP proof costs, compared with the same token as a bearer token.

use anyhow::Result;
use tests::Artifacts;
use tests::proofs::ProofKey;

use super::gateway::{Enforcer, Gateway, Modules, Variant};
use super::load::{CONNECTIONS, Client, block, request, rounds, with_tokens};
use super::tokens::{AUDIENCE, Issuers};
use super::{GROUPS, ROUNDS};
use crate::measure::quartiles;
use crate::short;

/// Algorithms of proofs.
pub(crate) const ALGORITHMS: [&str; 2] = ["EdDSA", "ES256"];

/// Prints what a proof adds, for the filter and for the native module.
pub(crate) async fn measure(
    artifacts: &Artifacts,
    modules: &Modules,
    algorithm: &'static str,
    feed: u16,
) -> Result<()> {
    let issuers = Issuers::new("EdDSA", 1)?;
    let enforcers = [Enforcer::Filter, Enforcer::Module];
    let variants = enforcers.map(|enforcer| Variant {
        proofs: true,
        ..enforcer.with_cache()
    });
    let gateway = Gateway::start(artifacts, modules, &issuers, &variants, feed, 1)?;
    let count = short::count(ROUNDS).max(GROUPS);
    let key = ProofKey::new(algorithm)?;
    let bound = issuers.bound(&key.confirmation())?;
    let plain = with_tokens(&issuers.tokens(1)?);
    let url = format!("{AUDIENCE}/api/projects");
    // Each proof is accepted once. The first block is not measured.
    let proofs: Result<Vec<Vec<u8>>> = (0..(count + 1) * block().next_multiple_of(CONNECTIONS))
        .map(|_| {
            let proof = key.prove("GET", &url, Some(&bound))?;
            let headers = format!("authorization: DPoP {bound}\r\ndpop: {proof}\r\n");
            Ok(request(&headers))
        })
        .collect();
    let proofs = proofs?;
    let mut clients = Vec::new();
    for port in gateway.ports() {
        for requests in [&plain, &proofs] {
            let mut client = Client::connect(*port, requests.clone()).await;
            client.send(block()).await;
            clients.push(client);
        }
    }
    let rounds = rounds(&gateway, &mut clients, count).await?;
    let added = [0, 2].map(|plain| {
        let added = rounds.iter().map(|costs| costs[plain + 1] - costs[plain]);
        quartiles(added.collect())
    });
    let text = |[low, median, high]: [f64; 3]| format!("{median:.1} us ({low:.1}-{high:.1})");
    let [filter, module] = added.map(text);
    println!(
        "{:<26} adds to a known bearer token: filter {filter}, native module {module}",
        format!("proof, {algorithm}"),
    );
    Ok(())
}
