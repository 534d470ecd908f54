//! What a DPoP proof costs, compared with the same token as a bearer token.

use anyhow::{Context as _, Result};
use tests::proofs::ProofKey;
use tests::quartiles::quartiles;
use tests::{Artifacts, short};

use crate::gateway::{Enforcer, Gateway, Modules, Variant};
use crate::load::{CONNECTIONS, Client, request};
use crate::tokens::{AUDIENCE, Issuers};
use crate::{BLOCK, GROUPS, ROUNDS};

/// Algorithms of proofs.
pub(crate) const ALGORITHMS: [&str; 2] = ["EdDSA", "ES256"];

/// Prints what a proof adds, for the filter and for the native module.
pub(crate) fn measure(
    artifacts: &Artifacts,
    modules: &Modules,
    algorithm: &'static str,
    feed: u16,
) -> Result<()> {
    let issuers = Issuers::new("EdDSA", 1)?;
    let enforcers = [Enforcer::Filter, Enforcer::Module];
    let variants = enforcers.map(|enforcer| Variant {
        enforcer,
        claims: false,
        cached: true,
        proofs: true,
    });
    let gateway = Gateway::start(artifacts, modules, &issuers, &variants, feed, 1)?;
    let count = short::count(ROUNDS).max(GROUPS);
    let key = ProofKey::new(algorithm)?;
    let bound = issuers.bound(&key.confirmation())?;
    let plain = issuers.tokens(1)?;
    let plain: Vec<String> = plain
        .iter()
        .map(|token| request(&format!("authorization: Bearer {token}\r\n")))
        .collect();
    let url = format!("{AUDIENCE}/api/projects");
    // Each proof is accepted once. The first block is not measured.
    let proofs: Result<Vec<String>> = (0..(count + 1) * BLOCK.next_multiple_of(CONNECTIONS))
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
            let mut client = Client::connect(*port, requests.clone())?;
            client.send(BLOCK)?;
            clients.push(client);
        }
    }
    let mut added = enforcers.map(|_| Vec::new());
    for round in 0..count {
        let mut costs = vec![0.0; clients.len()];
        for turn in 0..clients.len() {
            let place = (turn + round) % clients.len();
            let client = clients.get_mut(place).context("a client per variant")?;
            let before = gateway.cpu_nanoseconds()?;
            client.send(BLOCK)?;
            let spent = gateway.cpu_nanoseconds()? - before;
            *costs.get_mut(place).context("a cost per client")? =
                spent as f64 / 1000.0 / BLOCK as f64;
        }
        for (pair, added) in costs.chunks(2).zip(&mut added) {
            if let [plain, proof] = pair {
                added.push(proof - plain);
            }
        }
    }
    let [filter, module] = added.map(quartiles);
    let text = |[low, median, high]: [f64; 3]| format!("{median:.1} us ({low:.1}-{high:.1})");
    println!(
        "{:<26} adds to a known bearer token: filter {}, native module {}",
        format!("proof, {algorithm}"),
        text(filter),
        text(module),
    );
    Ok(())
}
