"""A client with a key in place of a secret, pushed authorization requests, and bound tokens, with requests-oauth2client.
Works with the program that runs this one as `authlib_client.py` does."""

import pathlib
import sys

import requests
from jwskate import Jwk
from requests_oauth2client import ClientSecretBasic, DPoPToken, OAuth2Client, PrivateKeyJwt, PublicApp

lobby, key_file = sys.argv[1:]
metadata = requests.get(f"{lobby}/.well-known/oauth-authorization-server", timeout=60).json()


def ask(*words):
    print(*words, flush=True)
    return sys.stdin.readline().strip()


def client_of(authentication, redirect_uri=None, **options):
    return OAuth2Client.from_discovery_document(
        metadata,
        issuer=lobby,
        auth=authentication,
        redirect_uri=redirect_uri,
        # For plain http, as in this test.
        testing=True,
        **options,
    )


pem = pathlib.Path(key_file).with_name("key-demo.key.pem").read_bytes()
key = Jwk.from_pem(pem, kid="demo-2026")
keyed = client_of(PrivateKeyJwt("key-demo", key, alg="EdDSA", aud=lobby))
token = keyed.client_credentials()
ask("TOKEN", "private_key_jwt", token.access_token)
assert keyed.introspect_token(token.access_token)["active"]
assert keyed.revoke_access_token(token.access_token)

web = client_of(
    ClientSecretBasic("web-demo", "demo-secret-of-web-demo-not-for-real-use"),
    "https://app.example.com/callback",
)
request = web.authorization_request(scope="projects")
pushed = web.pushed_authorization_request(request)
response = request.validate_callback(ask("OPEN", pushed.uri))
token = web.authorization_code(response)
ask("TOKEN", "pushed", token.access_token)

# Tokens that are bound to a key.
user_bound = client_of(
    ClientSecretBasic("user-bound-demo", "demo-secret-of-user-bound-demo-not-for-real-use"),
    dpop_bound_access_tokens=True,
)
token = user_bound.client_credentials(user_id="1879048403", user_site="https://us1.example.com")
assert isinstance(token, DPoPToken), token
ask("BOUND", "client_credentials", token.access_token)

# The code is bound too (dpop_jkt).
installed = client_of(
    PublicApp("installed-demo"),
    "http://127.0.0.1:8765/callback",
    dpop_bound_access_tokens=True,
)
request = installed.authorization_request(scope="projects")
assert "dpop_jkt" in request.uri, request.uri
response = request.validate_callback(ask("OPEN", request.uri))
token = installed.authorization_code(response)
assert isinstance(token, DPoPToken), token
ask("BOUND", "pkce", token.access_token)
token = installed.refresh_token(token)
ask("BOUND", "refresh_token_public", token.access_token)
