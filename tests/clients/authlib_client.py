"""Every grant with Authlib. The person with the browser is the program that runs this one: it reads `OPEN url` lines
and answers each with the address at which the browser ended. Access tokens go out as `TOKEN name token` lines; the answer
tells that the API was called."""

import pathlib
import sys
import time
import uuid

from authlib.integrations.requests_client import OAuth2Session
from authlib.jose import jwt
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from joserfc.jwk import OKPKey

lobby, key_file = sys.argv[1:]
token_url = f"{lobby}/auth/token"
authorize_url = f"{lobby}/auth/authorize"


def ask(*words):
    print(*words, flush=True)
    return sys.stdin.readline().strip()


def visit(url):
    return ask("OPEN", url)


# Web Server Application: authorization code, refresh, revocation.
web = OAuth2Session(
    "web-demo",
    "demo-secret-of-web-demo-not-for-real-use",
    redirect_uri="https://app.example.com/callback",
    scope="projects",
    revocation_endpoint_auth_method="client_secret_basic",
)
url, state = web.create_authorization_url(authorize_url)
token = web.fetch_token(token_url, authorization_response=visit(url), state=state)
ask("TOKEN", "authorization_code", token["access_token"])
token = web.refresh_token(token_url, refresh_token=token["refresh_token"])
ask("TOKEN", "refresh_token", token["access_token"])
assert web.introspect_token(f"{lobby}/auth/introspect", token=token["access_token"]).json()["active"]
assert web.revoke_token(f"{lobby}/auth/revoke", token=token["refresh_token"]).status_code == 200

# Installed Application: authorization code with PKCE, without a secret.
verifier = "a" * 20 + uuid.uuid4().hex
installed = OAuth2Session(
    "installed-demo",
    redirect_uri="http://127.0.0.1:8765/callback",
    code_challenge_method="S256",
    token_endpoint_auth_method="none",
)
url, state = installed.create_authorization_url(authorize_url, code_verifier=verifier)
token = installed.fetch_token(
    token_url, authorization_response=visit(url), state=state, code_verifier=verifier
)
ask("TOKEN", "pkce", token["access_token"])
token = installed.refresh_token(token_url, refresh_token=token["refresh_token"])
ask("TOKEN", "refresh_token_public", token["access_token"])

# Non-Interactive Integration: JWT bearer with a signed user assertion.
now = int(time.time())
with open(key_file, "rb") as file:
    assertion = jwt.encode(
        {"typ": "JWT", "alg": "RS256", "kid": "demo-2020"},
        {
            "iss": "non-interactive-demo",
            "sub": "ada@example.com",
            "aud": "https://identity.example.com/",
            "iat": now,
            "exp": now + 300,
            "jti": str(uuid.uuid4()),
        },
        file.read(),
    )
non_interactive = OAuth2Session(
    "non-interactive-demo", "demo-secret-of-non-interactive-demo-not-for-real-use"
)
token = non_interactive.fetch_token(
    token_url,
    grant_type="urn:ietf:params:oauth:grant-type:jwt-bearer",
    assertion=assertion.decode(),
)
ask("TOKEN", "jwt_bearer", token["access_token"])

# User-Bound Integration: client credentials.
user_bound = OAuth2Session("user-bound-demo", "demo-secret-of-user-bound-demo-not-for-real-use")
token = user_bound.fetch_token(
    token_url,
    grant_type="client_credentials",
    user_id="1879048403",
    user_site="https://us1.example.com",
)
ask("TOKEN", "client_credentials", token["access_token"])


# A client with a key in place of a secret. Authlib takes the token endpoint as `aud`, an hour until `exp`, and one `jti` for
# all assertions once it has `claims`, so the claims are new ones for each assertion.
class FreshAssertion(PrivateKeyJWT):
    def sign(self, auth, token_endpoint):
        self.claims = {"aud": lobby, "exp": int(time.time()) + 60}
        return super().sign(auth, token_endpoint)


keyed = OAuth2Session(
    "key-demo",
    OKPKey.import_key(pathlib.Path(key_file).with_name("key-demo.key.pem").read_text()),
    token_endpoint_auth_method=FreshAssertion(alg="Ed25519", headers={"kid": "demo-2026"}),
)
for name in ("private_key_jwt", "private_key_jwt_again"):
    token = keyed.fetch_token(token_url, grant_type="client_credentials")
    ask("TOKEN", name, token["access_token"])
