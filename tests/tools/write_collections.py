"""Writes examples/collections/postman.json from the OpenAPI description of the token service at the URL and from demo/registrations.toml.

    write_collections.py http://127.0.0.1:8081            writes the file
    write_collections.py http://127.0.0.1:8081 --check    fails if the file differs from what this program writes
"""

import json
import pathlib
import sys
import tomllib
import urllib.request

repository = pathlib.Path(__file__).resolve().parents[2]
demo = repository / "demo"
with urllib.request.urlopen(f"{sys.argv[1]}/auth/openapi.json", timeout=30) as answer:
    openapi = json.load(answer)
registrations = tomllib.loads((demo / "registrations.toml").read_text())
clients = {client["client_id"]: client for client in registrations["clients"]}
users = {user["username"]: user for user in registrations["users"]}


def secret(client_id):
    return client_id, clients[client_id]["client_secret"]


def pem(name):
    """The base64 of a PEM file, as one line."""
    return "".join((demo / name).read_text().split("\n")[1:-2])


CALLBACK = "http://127.0.0.1:8765/callback"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
account = users["grace@example.com"]["accounts"][1]
variables = {
    "lobby": "http://127.0.0.1:8081",
    "api": "http://127.0.0.1:8080",
    "identity_audience": "https://identity.example.com/",
    "username": "ada@example.com",
    "password": users["ada@example.com"]["password"],
    "callback": CALLBACK,
    "key_demo_key": pem("key-demo.key.pem"),
    "non_interactive_demo_key": pem("non-interactive-demo.key.pem"),
}

# ---- scripts: `get`, `set`, `test`, `expect`, and after the response `status`, `body` and `header`, are defined in `postman` below ----

SIGN = """\
const base64url = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)))
  .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
const digest = async (text) => base64url(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)))
const jwt = async (algorithm, key, header, claims) => {
  const parts = [header, { ...claims, iat: Math.floor(Date.now() / 1000), jti: crypto.randomUUID() }]
  const input = parts.map((part) => base64url(new TextEncoder().encode(JSON.stringify(part)))).join('.')
  return `${input}.${base64url(await crypto.subtle.sign(algorithm, key, new TextEncoder().encode(input)))}`
}
const keyOf = (name, algorithm) => {
  const der = Uint8Array.from(atob(get(name)), (character) => character.charCodeAt(0))
  return crypto.subtle.importKey('pkcs8', der, algorithm, false, ['sign'])
}
const soon = Math.floor(Date.now() / 1000) + 60
"""
CLIENT_ASSERTION = SIGN + """\
const key = await keyOf('key_demo_key', 'Ed25519')
set('client_assertion', await jwt('Ed25519', key, { alg: 'EdDSA', kid: 'demo-2026' },
  { iss: 'key-demo', sub: 'key-demo', aud: get('lobby'), exp: soon }))
"""
USER_ASSERTION = SIGN + """\
const rsa = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }
const key = await keyOf('non_interactive_demo_key', rsa)
set('assertion', await jwt(rsa, key, { typ: 'JWT', alg: 'RS256', kid: 'demo-2020' },
  { iss: 'non-interactive-demo', sub: get('username'), aud: get('identity_audience'), exp: soon }))
"""
NEW_KEYS = SIGN + """\
const pair = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify'])
const { crv, x, y, d } = await crypto.subtle.exportKey('jwk', pair.privateKey)
set('dpop_key', JSON.stringify({ kty: 'EC', crv, x, y, d }))
set('dpop_jkt', await digest(JSON.stringify({ crv, kty: 'EC', x, y })))
set('code_verifier', base64url(crypto.getRandomValues(new Uint8Array(32))))
set('code_challenge', await digest(get('code_verifier')))
"""


def proof(method, url, token=None):
    ath = f", ath: await digest(get('{token}'))" if token else ""
    return SIGN + f"""\
const ecdsa = {{ name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }}
const {{ d, ...jwk }} = JSON.parse(get('dpop_key'))
const key = await crypto.subtle.importKey('jwk', {{ ...jwk, d }}, ecdsa, false, ['sign'])
set('dpop', await jwt(ecdsa, key, {{ typ: 'dpop+jwt', alg: 'ES256', jwk }},
  {{ htm: '{method}', htu: {url}{ath} }}))
"""


TOKEN_PROOF = proof("POST", "get('lobby') + '/auth/token'")
PAGE = """\
const field = (name) => body.match(`name="${name}" value="([^"]*)"`)[1].replaceAll('&#38;', '&')
test('a form', () => expect(body).to.include('name="csrf"'))
set('csrf', field('csrf'))
set('request', field('request'))
"""
CODE = """\
const location = header('location')
test('a code for the client', () => expect(location).to.match(/[?&]code=/))
set('code', decodeURIComponent(location.match(/[?&]code=([^&]*)/)[1]))
"""


def tokens(name, kind="Bearer"):
    refresh = "if (body.refresh_token) set('refresh_token', body.refresh_token)\n"
    return f"""\
test('an access token', () => expect(body.token_type).to.equal('{kind}'))
set('{name}', body.access_token)
""" + refresh


def member(name, value):
    return f"test('{name}', () => expect(body.{name}).to.equal({value}))\n"


def user_of_api(username):
    user_id = users[username]["accounts"][0]["user_id"]
    return f"test('the account', () => expect(JSON.stringify(body)).to.include('{user_id}'))\n"


def form(path):
    """Every field of the form of `path`, with its description, and the fields that a request needs."""
    def fields(schema):
        if "$ref" in schema:
            schema = openapi["components"]["schemas"][schema["$ref"].split("/")[-1]]
        merged, required = dict(schema.get("properties", {})), set(schema.get("required", []))
        for part in schema.get("allOf", []):
            more, needed = fields(part)
            merged, required = merged | more, required | needed
        return merged, required

    media = openapi["paths"][path]["post"]["requestBody"]["content"]["application/x-www-form-urlencoded"]
    schema = media["schema"]
    name = schema.get("$ref", "").split("/")[-1]
    choices = (openapi["components"]["schemas"][name] if name else schema).get("oneOf", [schema])
    return [fields(choice) for choice in choices]


def request(name, method, path, status, *, after="", before="", base="{{lobby}}", auth=None, query=(), fields=None, headers=()):
    """One request. The description must know `path`, unless a page or the API is asked; fields that it knows and the demo does
    not need are there, disabled."""
    described = base == "{{lobby}}" and path in openapi["paths"]
    known = {}
    if described:
        operation = openapi["paths"][path][method.lower()]
        assert str(status) in operation["responses"], (path, status)
        assert {key for key, _ in query} <= {parameter["name"] for parameter in operation.get("parameters", [])}, path
        asked.add((method.lower(), path))
        if fields is not None:
            grant = fields.get("grant_type")
            [known] = [
                known for known, required in form(path)
                if required <= set(fields)
                and (grant is None or known["grant_type"].get("enum") == [grant])
            ]
            assert set(fields) <= set(known), (path, fields)
    body = [] if fields is None else [
        {"key": key, "value": value, "description": known.get(key, {}).get("description", ""), "disabled": False}
        for key, value in fields.items()
    ] + [
        {"key": key, "value": "", "description": schema.get("description", ""), "disabled": True}
        for key, schema in known.items() if key not in fields
    ]
    return {
        "name": name, "method": method, "url": base + path, "query": list(query), "auth": auth, "headers": dict(headers),
        "form": body, "before": before,
        "after": f"test('{status}', () => expect(status).to.equal({status}))\n" + after,
        "docs": operation.get("description") or operation.get("summary") or "" if described else "",
    }


def post(name, path, fields, **more):
    return request(name, "POST", path, more.pop("status", 200), fields=fields, **more)


def token(name, grant_type, fields, **more):
    return post(name, "/auth/token", {"grant_type": grant_type} | fields, **more)


def api(name, token, status=200, scheme="Bearer", username=None, **more):
    return request(
        name, "GET", "/api/projects", status, base="{{api}}", headers=[("Authorization", f"{scheme} {{{{{token}}}}}"),
        *more.pop("headers", [])], after=user_of_api(username) if username else more.pop("after"), **more)


asked = set()
AUTHORIZE = [
    ("response_type", "code"), ("client_id", "web-demo"), ("redirect_uri", clients["web-demo"]["redirect_uris"][0]), ("state", "abc"),
]
DPOP = [("DPoP", "{{dpop}}")]
web, key_demo = secret("web-demo"), {
    "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion": "{{client_assertion}}",
}
requests = [
    request("Metadata", "GET", "/.well-known/oauth-authorization-server", 200, after=member("issuer", "get('lobby')")),
    request("Keys", "GET", "/auth/jwks", 200, after="test('keys', () => expect(body.keys).to.not.be.empty)\n"),
    token("Client credentials with a secret", "client_credentials",
          {"user_id": account["user_id"], "user_site": account["site"]}, auth=secret("user-bound-demo"), after=tokens("token")),
    api("API", "token", after=f"test('the account', () => expect(JSON.stringify(body)).to.include('{account['user_id']}'))\n"),
    post("Introspection", "/auth/introspect", {"token": "{{token}}"}, auth=secret("user-bound-demo"), after=member("active", "true")),
    token("Client credentials with a client assertion", "client_credentials", key_demo, before=CLIENT_ASSERTION, after=tokens("token")),
    api("API as key-demo", "token", username="ada@example.com"),
    token("JWT bearer", GRANT, {"assertion": "{{assertion}}"}, auth=secret("non-interactive-demo"), before=USER_ASSERTION,
          after=tokens("token")),
    api("API as non-interactive-demo", "token", username="ada@example.com"),
    request("Sign-in page", "GET", "/auth/authorize", 200, query=[*AUTHORIZE, ("prompt", "login")], after=PAGE),
    post("Sign in", "/auth/sign-in", {"csrf": "{{csrf}}", "request": "{{request}}", "username": "{{username}}", "password": "{{password}}"},
         status=303, after="test('back to the request', () => expect(header('location')).to.include('/auth/authorize'))\n"),
    request("Authorization code", "GET", "/auth/authorize", 302, query=AUTHORIZE, after=CODE),
    token("Code exchange", "authorization_code", {"code": "{{code}}", "redirect_uri": dict(AUTHORIZE)["redirect_uri"]}, auth=web,
          after=tokens("token")),
    token("Refresh", "refresh_token", {"refresh_token": "{{refresh_token}}"}, auth=web, after=tokens("token")),
    api("API as web-demo", "token", username="ada@example.com"),
    post("Revocation", "/auth/revoke", {"token": "{{refresh_token}}"}, auth=web),
    token("Refresh after the revocation", "refresh_token", {"refresh_token": "{{refresh_token}}"}, auth=web, status=400,
          after=member("error", "'invalid_grant'")),
    post("Pushed request with PKCE and a key", "/auth/par", {
        "response_type": "code", "client_id": "installed-demo", "redirect_uri": "{{callback}}", "scope": "projects",
        "code_challenge": "{{code_challenge}}", "code_challenge_method": "S256", "dpop_jkt": "{{dpop_jkt}}",
    }, status=201, before=NEW_KEYS, after="set('request_uri', body.request_uri)\n"
        "test('a reference', () => expect(body.request_uri).to.match(/^urn:/))\n"),
    request("Page of the pushed request", "GET", "/auth/authorize", 200,
            query=[("client_id", "installed-demo"), ("request_uri", "{{request_uri}}")], after=PAGE),
    post("Authorization code of the pushed request", "/auth/continue", {"csrf": "{{csrf}}", "request": "{{request}}"},
         status=303, after=CODE),
    token("Code exchange with PKCE and DPoP", "authorization_code", {
        "code": "{{code}}", "redirect_uri": "{{callback}}", "code_verifier": "{{code_verifier}}", "client_id": "installed-demo",
    }, headers=DPOP, before=TOKEN_PROOF, after=tokens("token", "DPoP")),
    token("Refresh with DPoP", "refresh_token", {"refresh_token": "{{refresh_token}}", "client_id": "installed-demo"}, headers=DPOP,
          before=TOKEN_PROOF, after=tokens("token", "DPoP")),
    api("API with DPoP", "token", scheme="DPoP", headers=DPOP, before=proof("GET", "get('api') + '/api/projects'", "token"),
        username="ada@example.com"),
    api("API without a proof", "token", status=401, after=member("error", "'invalid_token'")),
]
# The legacy flow is at hosts of its own.
described = {
    (method, path) for path, item in openapi["paths"].items() for method, operation in item.items()
    if operation.get("tags") != ["legacy"]
}
assert asked == described, asked ^ described


PACKAGES = json.loads((repository / "tests/clients/package.json").read_text())
DESCRIPTION = (
    "Run the requests in their order: each uses what those before it received. "
    "The scripts need WebCrypto and top-level await: Postman, or newman {} with the npm override postman-runtime {}. "
    "Newman without the override cannot run them."
).format(PACKAGES["dependencies"]["newman"], PACKAGES["overrides"]["newman"]["postman-runtime"])


def postman(request):
    before = "const get = (name) => pm.environment.get(name) ?? pm.collectionVariables.get(name)\nconst set = (name, value) => pm.collectionVariables.set(name, value)\n"
    after = before + """\
const { test, expect } = pm
const status = pm.response.code
const header = (name) => pm.response.headers.get(name)
let body
try { body = pm.response.json() } catch { body = pm.response.text() }
"""

    def event(listen, script):
        return {"listen": listen, "script": {"type": "text/javascript", "exec": script.splitlines()}}

    query = "&".join(f"{key}={value}" for key, value in request["query"])
    item = {
        "name": request["name"],
        "event": [event("prerequest", before + request["before"])] * bool(request["before"]) + [event("test", after + request["after"])],
        "protocolProfileBehavior": {"followRedirects": False},
        "request": {
            "method": request["method"],
            "url": request["url"] + (f"?{query}" if query else ""),
            "header": [{"key": key, "value": value} for key, value in request["headers"].items()],
            "description": request["docs"],
        },
    }
    if request["auth"]:
        username, password = request["auth"]
        item["request"]["auth"] = {"type": "basic", "basic": [
            {"key": "username", "value": username, "type": "string"}, {"key": "password", "value": password, "type": "string"}]}
    if request["form"]:
        item["request"]["body"] = {"mode": "urlencoded", "urlencoded": [field | {"type": "text"} for field in request["form"]]}
    return item


text = json.dumps({
    "info": {
        "name": "Gatepass demo",
        "description": DESCRIPTION,
        "schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json",
    },
    "item": [postman(request) for request in requests],
    "variable": [{"key": key, "value": value} for key, value in variables.items()],
}, indent=2) + "\n"
file = repository / "examples/collections/postman.json"
if sys.argv[2:] == ["--check"]:
    sys.exit(0 if file.read_text() == text else "Not as tests/tools/write_collections.py writes: postman.json")
file.write_text(text)
