"""Code, PKCE, refresh and client credentials with requests-oauthlib. Works with the program that runs this one as
`authlib_client.py` does."""

import sys

from oauthlib.oauth2 import BackendApplicationClient
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session

lobby, _ = sys.argv[1:]
token_url = f"{lobby}/auth/token"
authorize_url = f"{lobby}/auth/authorize"
secret = "demo-secret-of-web-demo-not-for-real-use"


def ask(*words):
    print(*words, flush=True)
    return sys.stdin.readline().strip()


web = OAuth2Session("web-demo", redirect_uri="https://app.example.com/callback", scope="projects")
url, _ = web.authorization_url(authorize_url)
token = web.fetch_token(token_url, authorization_response=ask("OPEN", url), client_secret=secret)
ask("TOKEN", "authorization_code", token["access_token"])
token = web.refresh_token(token_url, auth=HTTPBasicAuth("web-demo", secret))
ask("TOKEN", "refresh_token", token["access_token"])

installed = OAuth2Session("installed-demo", redirect_uri="http://127.0.0.1:8765/callback", pkce="S256")
url, _ = installed.authorization_url(authorize_url)
token = installed.fetch_token(token_url, authorization_response=ask("OPEN", url), include_client_id=True)
ask("TOKEN", "pkce", token["access_token"])
token = installed.refresh_token(token_url, client_id="installed-demo")
ask("TOKEN", "refresh_token_public", token["access_token"])

user_bound = OAuth2Session(client=BackendApplicationClient("user-bound-demo"))
token = user_bound.fetch_token(
    token_url,
    client_secret="demo-secret-of-user-bound-demo-not-for-real-use",
    user_id="1879048403",
    user_site="https://us1.example.com",
)
ask("TOKEN", "client_credentials", token["access_token"])
