//! Apache with mod_oauth2, a resource server that others wrote, in place of the gateway: it accepts plain tokens of this
//! service, and tokens that are bound to a key only with a proof of this key (RFC 9449 §4.3, §7). Debian's version neither
//! asks for `jti` (check 3) nor compares `ath` (check 12), so proofs without them are not among the refused ones.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::proofs::{Proof, ProofKey, access_token_hash};
use tests::{Artifacts, Issuer, Process, Upstream, free_port};

use crate::support::{CREDENTIALS, OwnPair, Reply, USER_BOUND, get};

const MODULES: [&str; 7] = [
    "mpm_event",
    "authn_core",
    "authz_core",
    "authz_user",
    "proxy",
    "proxy_http",
    "oauth2",
];

/// Apache before a resource server. It takes plain tokens at `/plain`, and bound ones at `/bound`.
struct Apache {
    port: u16,
    _process: Process,
    _folder: TempDir,
}

impl Apache {
    fn start(pair: &OwnPair, resource_server: u16) -> Self {
        let repository = Artifacts::find().unwrap().repository;
        let apache = repository.join(".cache/apache2");
        assert!(apache.exists(), "Apache is missing: run `make tools`");
        let folder = TempDir::new().unwrap();
        let port = free_port().unwrap();
        let modules = repository.join(".cache/debian/usr/lib/apache2/modules");
        let jwks = format!("{}/auth/jwks", pair.lobby());
        let configuration = configuration(folder.path(), port, &modules, &jwks, resource_server);
        let file = folder.path().join("apache.conf");
        std::fs::write(&file, configuration).unwrap();
        let mut command = Command::new(apache);
        command.args(["-D", "FOREGROUND", "-f"]).arg(file);
        let log = folder.path().join("log");
        let mut process = Process::start("Apache", &command, &log).unwrap();
        process.until_listening(port).unwrap();
        Self {
            port,
            _process: process,
            _folder: folder,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn call(&self, path: &str, scheme: &str, token: &str, proofs: &[String]) -> Reply {
        let authorization = format!("{scheme} {token}");
        let mut headers = vec![("authorization", authorization.as_str())];
        headers.extend(proofs.iter().map(|proof| ("dpop", proof.as_str())));
        get(&self.url(path), &headers)
    }
}

fn configuration(
    folder: &Path,
    port: u16,
    modules: &Path,
    jwks: &str,
    resource_server: u16,
) -> String {
    let (folder, modules) = (folder.display(), modules.display());
    let loaded = MODULES.map(|name| format!("LoadModule {name}_module {modules}/mod_{name}.so\n"));
    let loaded = loaded.concat();
    format!(
        r#"ServerRoot "{folder}"
DefaultRuntimeDir "{folder}"
PidFile "{folder}/pid"
ErrorLog /dev/stderr
ServerName localhost
Listen 127.0.0.1:{port}
{loaded}
# Without effect for users other than root.
User nobody
Group nogroup
<Location /plain>
    AuthType oauth2
    OAuth2TokenVerify jwks_uri {jwks}
    Require valid-user
</Location>
<Location /bound>
    AuthType oauth2
    OAuth2AcceptTokenIn header type=DPoP
    OAuth2TokenVerify jwks_uri {jwks} type=dpop&dpop.iat.slack.before=60&dpop.iat.slack.after=10&dpop.expiry=70
    Require valid-user
</Location>
ProxyPass / http://127.0.0.1:{resource_server}/
"#
    )
}

#[test]
fn rfc9449_s7_apache_takes_our_bound_tokens_with_a_proof_of_their_key_alone() {
    let algorithm = ("TOKEN_SERVICE__SIGNING__ALGORITHM", "ES256");
    let pair = OwnPair::start(&[algorithm]);
    let upstream = Upstream::start(true).unwrap();
    let apache = Apache::start(&pair, upstream.port());
    let lobby = pair.lobby();
    let plain = pair.token();
    let stranger = Issuer::new().unwrap();
    let stranger = stranger.token(&pair.pair.api_url(), &[]).unwrap();
    assert_eq!(apache.call("/plain", "Bearer", &plain, &[]).status, 200);
    assert_eq!(apache.call("/plain", "Bearer", &stranger, &[]).status, 401);
    for algorithm in ["ES256", "RS256"] {
        let [key, other] = [(); 2].map(|()| ProofKey::new(algorithm).unwrap());
        let endpoint = format!("{lobby}/auth/token");
        let token = || {
            let proof = key.prove("POST", &endpoint, None).unwrap();
            let issued = USER_BOUND.proven(&lobby, &CREDENTIALS, &[proof]);
            issued.text("access_token")
        };
        let bound = token();
        let url = apache.url("/bound");
        let good = || key.proof("GET", &url, Some(&bound)).unwrap();
        let signed = |proof: Proof| vec![key.sign(&proof).unwrap()];
        let claim = |name: &str, value: Value| signed(good().claim(name, value));
        let call =
            |token: &str, proofs: &[String]| apache.call("/bound", "DPoP", token, proofs).status;
        let used = signed(good());
        assert_eq!(call(&bound, &used), 200, "{algorithm}");
        let of_other = other.prove("GET", &url, Some(&bound)).unwrap();
        let none = good().header("alg", json!("none")).signing_input();
        let elsewhere = json!(apache.url("/bound/x"));
        let of_plain = json!(access_token_hash(&plain));
        for (what, token, proofs) in [
            ("a used proof", &bound, used),
            ("no proof", &bound, vec![]),
            ("another key", &bound, vec![of_other]),
            ("another method", &bound, claim("htm", json!("POST"))),
            ("another URL", &bound, claim("htu", elsewhere)),
            ("an old proof", &bound, signed(good().later(-3600))),
            ("a future proof", &bound, signed(good().later(3600))),
            (
                "another typ",
                &bound,
                signed(good().header("typ", json!("JWT"))),
            ),
            ("alg none", &bound, vec![format!("{none}.")]),
            (
                "two proofs",
                &bound,
                [signed(good()), signed(good())].concat(),
            ),
            ("a plain token", &plain, claim("ath", of_plain)),
        ] {
            assert_eq!(call(token, &proofs), 401, "{algorithm}: {what}");
        }
        let as_bearer = apache.call("/bound", "Bearer", &bound, &signed(good()));
        assert_eq!(as_bearer.status, 401);
    }
}
