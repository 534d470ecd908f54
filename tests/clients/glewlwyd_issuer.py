"""The issuer Glewlwyd, out of Debian's package: access tokens by RFC 9068 and ID tokens with the same key (ES384, or the third
argument), refresh tokens that are used once, PKCE, revocation (RFC 7009), and introspection (RFC 7662) for clients and for
bearers of a token with a scope. This program becomes Glewlwyd's server, in the current folder. Its child sets the server up
through the administration API, prints `TOKENS` and a JSON object of tokens that the server's own endpoints issued, with the
cookie of a browser whose user granted the client its scopes, and ends."""

import gzip
import json
import os
import pathlib
import sqlite3
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar

from joserfc.jwk import ECKey, KeySet

port, audience = sys.argv[1:3]
algorithm = "".join(sys.argv[3:]) or "ES384"
package = pathlib.Path(__file__).resolve().parents[2] / ".cache/debian"
server = f"http://127.0.0.1:{port}"
issuer = f"{server}/api/oidc"


def configuration():
    script = package / "usr/share/doc/glewlwyd/database/init.sqlite3.sql.gz"
    folder = pathlib.Path.cwd()
    with sqlite3.connect("glewlwyd.db") as database, gzip.open(script, "rt") as statements:
        database.executescript(statements.read())
    (folder / "none").mkdir()
    modules = package / "usr/lib/glewlwyd"
    texts = {
        "bind_address": "127.0.0.1",
        "external_url": server,
        "api_prefix": "api",
        "static_files_path": folder / "none",
        "log_mode": "console",
        "log_level": "WARNING",
        "cookie_domain": "127.0.0.1",
        "session_key": "session",
        "admin_scope": "g_admin",
        "profile_scope": "g_profile",
        "hash_algorithm": "SHA512",
        "user_module_path": modules / "user",
        "user_middleware_module_path": folder / "none",
        "client_module_path": modules / "client",
        "user_auth_scheme_module_path": modules / "scheme",
        "plugin_module_path": modules / "plugin",
    }
    lines = [f'{name}="{value}"' for name, value in texts.items()]
    lines += [f"port={port}", "cookie_secure=0", "session_expiration=3600", "max_post_size=1000000"]
    lines.append('database = { type = "sqlite3"; path = "%s"; };' % (folder / "glewlwyd.db"))
    (folder / "glewlwyd.conf").write_text("\n".join(lines) + "\n")
    return folder / "glewlwyd.conf"


file = configuration()
serving = os.getpid()
if os.fork():
    os.execv(package / "usr/bin/glewlwyd", ["glewlwyd", f"--config-file={file}"])

cookies = CookieJar()
browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))


def send(request):
    try:
        with browser.open(request, timeout=30) as reply:
            return json.loads(reply.read() or "null")
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{request.full_url}: {error.code} {error.read()}") from error


def administrate(method, path, body=None):
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{server}/api{path}", json.dumps(body).encode(), headers, method=method)
    return send(request)


def is_serving():
    try:
        return send(urllib.request.Request(f"{server}/config"))
    except urllib.error.URLError:
        return False


while not is_serving():
    if os.getppid() != serving:
        sys.exit("the server has ended")
    time.sleep(0.02)

key = ECKey.generate_key(algorithm.replace("ES", "P-"), {"kid": "of-glewlwyd", "use": "sig", "alg": algorithm}, private=True)
elsewhere = "https://elsewhere.example.com"
plugin = {
    "module": "oidc",
    "name": "oidc",
    "display_name": "OIDC",
    "parameters": {
        "iss": issuer,
        "jwks-private": json.dumps(KeySet([key]).as_dict(private=True)),
        "jwks-show": True,
        "access-token-duration": 1,
        "refresh-token-duration": 600,
        "code-duration": 60,
        "refresh-token-rolling": False,
        "refresh-token-one-use": "always",
        "allow-non-oidc": True,
        "pkce-allowed": True,
        "auth-type-code-enabled": True,
        "auth-type-password-enabled": True,
        "auth-type-client-enabled": True,
        "auth-type-refresh-enabled": True,
        "resource-allowed": True,
        "resource-scope": {"read": [audience, elsewhere]},
        "introspection-revocation-allowed": True,
        "introspection-revocation-allow-target-client": True,
        "introspection-revocation-auth-scope": ["introspect"],
    },
}
scopes = ["read", "introspect"]
# The password of Debian's first administrator.
administrate("POST", "/auth/", {"username": "admin", "password": "password"})
administrate("POST", "/mod/plugin/", plugin)
for scope in scopes:
    description = {"display_name": scope, "description": scope, "password_required": False, "password_max_age": 0}
    administrate("POST", "/scope/", {"name": scope, "scheme": {}, **description})
ada = {"username": "ada", "name": "Ada", "password": "password-of-ada", "enabled": True}
administrate("POST", "/user/", {**ada, "scope": ["openid", "read", "g_profile"]})
# A client with the name of the audience: its ID token has the right audience too.
for client_id in ["web", audience]:
    client = {
        "client_id": client_id,
        "name": client_id,
        "confidential": True,
        "client_secret": "secret-of-web",
        "enabled": True,
        "redirect_uri": ["https://app.example.com/callback"],
        "authorization_type": ["code", "password", "client_credentials", "refresh_token"],
        "scope": scopes,
        "token_endpoint_auth_method": ["client_secret_post", "client_secret_basic"],
    }
    administrate("POST", "/client/", client)


def token(client_id="web", **fields):
    form = {"client_id": client_id, "client_secret": "secret-of-web", **fields}
    return send(urllib.request.Request(f"{issuer}/token", urllib.parse.urlencode(form).encode()))


def of_client(resource=audience, scope="read"):
    asked = {"scope": scope, "resource": resource} if scope == "read" else {"scope": scope}
    return token(grant_type="client_credentials", **asked)["access_token"]


tokens = {"short_lived": of_client()}
plugin["parameters"]["access-token-duration"] = 600
administrate("PUT", "/mod/plugin/oidc", plugin)
administrate("PUT", "/mod/plugin/oidc/reset")
person = token(audience, grant_type="password", username="ada", password="password-of-ada", scope="openid read")
tokens |= {
    "access": of_client(),
    "id": person["id_token"],
    "refresh": person["refresh_token"],
    "for_another_audience": of_client(elsewhere),
    "introspects": of_client(scope="introspect"),
}
cookies.clear()
administrate("POST", "/auth/", {"username": "ada", "password": "password-of-ada"})
administrate("PUT", "/auth/grant/web", {"scope": "read"})
tokens["cookie"] = "; ".join(f"{cookie.name}={cookie.value}" for cookie in cookies)
print("TOKENS", json.dumps(tokens), flush=True)
