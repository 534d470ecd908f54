"""A client with a key in place of a secret, and pushed authorization requests, with requests-oauth2client. Works with the
program that runs this one as `authlib_client.py` does."""

import pathlib
import sys

import requests
from jwskate import Jwk
from requests_oauth2client import ClientSecretBasic, OAuth2Client, PrivateKeyJwt

lobby, key_file = sys.argv[1:]
metadata = requests.get(f"{lobby}/.well-known/oauth-authorization-server", timeout=60).json()


def ask(*words):
    print(*words, flush=True)
    return sys.stdin.readline().strip()


def client_of(client_id, authentication, redirect_uri=None):
    return OAuth2Client.from_discovery_document(
        metadata,
        issuer=lobby,
        client_id=client_id,
        auth=authentication,
        redirect_uri=redirect_uri,
        # For plain http, as in this test.
        testing=True,
    )


pem = pathlib.Path(key_file).with_name("key-demo.key.pem").read_bytes()
key = Jwk.from_pem(pem, kid="demo-2026")
keyed = client_of("key-demo", PrivateKeyJwt("key-demo", key, alg="EdDSA", aud=lobby))
token = keyed.client_credentials()
ask("TOKEN", "private_key_jwt", token.access_token)
assert keyed.introspect_token(token.access_token)["active"]
assert keyed.revoke_access_token(token.access_token)

web = client_of(
    "web-demo",
    ClientSecretBasic("web-demo", "demo-secret-of-web-demo-not-for-real-use"),
    "https://app.example.com/callback",
)
request = web.authorization_request(scope="projects")
pushed = web.push_authorization_request(request)
response = request.validate_callback(ask("OPEN", pushed.uri))
token = web.authorization_code(response)
ask("TOKEN", "pushed", token.access_token)
