//! `explain` names the entry of the feed that revoked a token, and its cause.

use std::time::Duration;

use serde_json::json;

use super::planning_tests::{Site, object, operate};
use super::tests::{basic, form};
use super::*;
use crate::command::assertion::tests::of_the_demo;
use crate::http::admin::grants::OwnerQuery;
use crate::http::admin::objects::ChangeQuery;
use crate::http::admin::revocations::CutOffRequest;
use domain::{Client, User};
use protocol::oauth::grants::GrantType;
use protocol::oauth::token_endpoint::{self, Trace};

const CLIENT: &str = "non-interactive-demo";

/// An access token for ada, from an assertion of the demo.
async fn token(service: &Service) -> String {
    let assertion = of_the_demo(service.clock.now(), Duration::from_secs(300));
    let moment = service.issuing_moment(service.clock.now()).unwrap();
    let authorization = basic(
        CLIENT,
        "demo-secret-of-non-interactive-demo-not-for-real-use",
    );
    let grant_type = GrantType::JwtBearer.name();
    let body = format!("grant_type={grant_type}&assertion={assertion}");
    let request = form(&authorization, &body);
    let context = service.context(&moment);
    let mut trace = Trace::default();
    let answer = token_endpoint::answer(&context, &request, &mut trace);
    answer.await.unwrap().access_token
}

/// The reason of the failed check on revocations.
async fn reason(service: &Arc<Service>, token: &str) -> String {
    let explained = operate(service, async |admin| admin.explained(token, None).await);
    let checks = explained.await.unwrap().checks.into_iter();
    let failed = checks.filter(|check| !check.passed);
    let mut failed: Vec<_> = failed.collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0].check, "revocation");
    failed.remove(0).reason
}

#[tokio::test]
async fn explain_names_the_entry_that_revoked_a_token_and_its_cause() {
    const ADA: &str = "ada@example.com";
    let site = Site::new(|_| ()).await;
    let service = site.start().await;
    let token = token(&service).await;
    let of_ada = "every token of the user ada@example.com issued up to ";
    let of_client = "every token of the client non-interactive-demo issued up to ";
    let of_account = "every token of ada@example.com for the account 1879048401 at https://us1.example.com issued up to ";
    let of_both = "every token of ada@example.com at the client non-interactive-demo issued up to ";
    for (change, entry, cause) in [
        (
            "both",
            of_both,
            "of grant_revoked (all, and access tokens issued up to",
        ),
        (
            "grants",
            of_ada,
            "of grant_revoked (all, and access tokens issued up to",
        ),
        (
            "cut-off",
            "every token of the issuer http://127.0.0.1:8081 issued up to ",
            "of tokens_cut_off (http://127.0.0.1:8081",
        ),
        (
            "account",
            of_account,
            "the user ada@example.com was changed (accounts) by administrator at 20",
        ),
        (
            "user",
            of_ada,
            "the user ada@example.com was disabled by administrator at 20",
        ),
        (
            "client",
            of_client,
            "the client non-interactive-demo was disabled by administrator at 20",
        ),
    ] {
        operate(&service, async |admin| {
            let disabled = || object(json!({"enabled": false}));
            let how = ChangeQuery::default();
            let owner = OwnerQuery {
                client_id: (change == "both").then(|| CLIENT.to_owned()),
                username: Some(ADA.to_owned()),
                jkt: None,
            };
            match change {
                "cut-off" => drop(admin.cut_off(&CutOffRequest::default()).await?),
                "user" => drop(admin.update::<User>(ADA, disabled(), how).await?),
                "client" => drop(admin.update::<Client>(CLIENT, disabled(), how).await?),
                "account" => {
                    admin.hand_over::<User>(ADA, None).await?;
                    let accounts = object(json!({"accounts": []}));
                    drop(admin.update::<User>(ADA, accounts, how).await?);
                }
                _ => drop(admin.revoke_grants(&owner).await?),
            }
            Ok(())
        })
        .await
        .unwrap();
        let reason = reason(&service, &token).await;
        let of_entry = reason.split("; ").find(|one| one.starts_with(entry));
        let of_entry = of_entry.unwrap_or_else(|| panic!("{change}: {reason}"));
        assert!(
            of_entry.contains(&format!(" is revoked, because {cause}")),
            "{of_entry}"
        );
        assert!(
            of_entry.contains(": see token-service audit --"),
            "{of_entry}"
        );
    }
}
