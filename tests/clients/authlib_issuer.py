"""An issuer made of Authlib: access tokens by RFC 9068, ID tokens, refresh tokens that are JWTs, revocation (RFC 7009) and
introspection (RFC 7662). It prints `TOKENS` and a JSON object of tokens that its own endpoints issued, and then serves
its keys, /revoke and /introspect. With a further port as argument, it serves the keys there alone. What Authlib leaves to its users is here: a client, a user, and storage in memory."""

import json
import sys
import threading
import time
import urllib.parse
import urllib.request
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request, grants
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator, JWTIntrospectionEndpoint
from authlib.oidc.core import UserInfo
from authlib.oidc.core.grants.code import OpenIDToken
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

port, audience, *port_of_keys = sys.argv[1:]
issuer = f"http://127.0.0.1:{port}"
algorithm = "RS256"
keys = KeySet([RSAKey.generate_key(2048, {"kid": "of-authlib", "use": "sig", "alg": algorithm}, private=True)])
revoked = set()
introspections = []
asked_for_keys = []
keys_at = f"http://127.0.0.1:{(port_of_keys or [port])[0]}"


class Client(ClientMixin):
    def __init__(self, client_id, secret):
        self.client_id = client_id
        self.secret = secret

    def get_client_id(self):
        return self.client_id

    def get_allowed_scope(self, scope):
        return scope

    def check_client_secret(self, secret):
        return secret == self.secret

    def check_endpoint_auth_method(self, method, endpoint):
        return method == "client_secret_basic"

    def check_grant_type(self, grant_type):
        return True


class User:
    def get_user_id(self):
        return "ada"


clients = {
    "web": Client("web", "secret-of-web"),
    # A colon and a space, which RFC 6749 section 2.3.1 has encoded.
    "gate way": Client("gate way", "secret:of the gateway"),
}


class Server(AuthorizationServer):
    def query_client(self, client_id):
        return clients.get(urllib.parse.unquote(client_id))

    def save_token(self, token, request):
        pass

    def send_signal(self, name, *args, **kwargs):
        pass

    def create_oauth2_request(self, request):
        if isinstance(request, OAuth2Request):
            return request
        read = Request("POST", f"{issuer}{request.path}", headers=request.headers)
        read.payload = BasicOAuth2Payload(request.form)
        return read

    def handle_response(self, status, body, headers):
        return status, body


class Request(OAuth2Request):
    @property
    def form(self):
        return self.payload.data


class AccessTokens(JWTBearerTokenGenerator):
    def get_jwks(self):
        return keys

    def get_audiences(self, client, user, scope):
        return "https://elsewhere.example.com" if "elsewhere" in scope else audience

    def _get_expires_in(self, client, grant_type):
        return 1 if client.get_client_id() == "short-lived" else 600


clients["short-lived"] = Client("short-lived", "secret-of-web")


def refresh_token(client, grant_type, user, scope):
    claims = {"iss": issuer, "aud": audience, "sub": "ada", "client_id": client.client_id, "jti": "r-1"}
    claims.update(iat=int(time.time()), exp=int(time.time()) + 600, scope=scope)
    return jwt.encode({"alg": algorithm, "typ": "rt+jwt", "kid": "of-authlib"}, claims, keys, [algorithm])


class Password(grants.ResourceOwnerPasswordCredentialsGrant):
    def authenticate_user(self, username, password):
        return User()


class IdTokens(OpenIDToken):
    def resolve_client_private_key(self, client):
        return keys

    def get_client_algorithm(self, client):
        return algorithm

    def get_client_claims(self, client):
        # A client with the name of the audience: its ID token has the right audience too.
        return {"iss": issuer, "aud": audience}

    def generate_user_info(self, user, scope):
        return UserInfo(sub=user.get_user_id())


class Revocation(RevocationEndpoint):
    def query_token(self, token_string, token_type_hint):
        return Token(jwt.decode(token_string, keys).claims)

    def revoke_token(self, token, request):
        revoked.add(token.claims["jti"])


class Token:
    def __init__(self, claims):
        self.claims = claims

    def check_client(self, client):
        return self.claims["client_id"] == client.client_id


class Introspection(JWTIntrospectionEndpoint):
    def get_jwks(self):
        return keys

    def check_permission(self, token, client, request):
        introspections.append(token["jti"])
        return client.client_id == "gate way" and token["jti"] not in revoked


server = Server()
server.register_token_generator(
    "default", AccessTokens(issuer, alg=algorithm, refresh_token_generator=refresh_token)
)
server.register_grant(grants.ClientCredentialsGrant)
server.register_grant(Password, [IdTokens()])
server.register_endpoint(Revocation)
server.register_endpoint(Introspection(issuer))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        at = f"http://127.0.0.1:{self.server.server_port}"
        if self.path == "/keys":
            asked_for_keys.append(at)
        found = {
            "/keys": keys.as_dict(private=False) if keys_at == at else None,
            "/asked": asked_for_keys,
            "/.well-known/oauth-authorization-server": {"issuer": issuer, "jwks_uri": f"{keys_at}/keys"},
            "/introspections": introspections,
        }.get(self.path)
        self.reply(404 if found is None else 200, found)

    def do_POST(self):
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        self.form = dict(urllib.parse.parse_qsl(text))
        if self.path == "/token":
            self.reply(*server.create_token_response(self))
        elif self.path == "/revoke":
            self.reply(*server.create_endpoint_response("revocation", self))
        elif self.path == "/introspect":
            self.reply(*server.create_endpoint_response("introspection", self))
        else:
            self.reply(404, None)

    def log_message(self, *arguments):
        pass


for served in [port, *port_of_keys]:
    http = ThreadingHTTPServer(("127.0.0.1", int(served)), Handler)
    threading.Thread(target=http.serve_forever).start()


def token(client_id="web", secret="secret-of-web", **fields):
    credentials = b64encode(f"{client_id}:{secret}".encode()).decode()
    request = urllib.request.Request(
        f"{issuer}/token",
        data=urllib.parse.urlencode(fields).encode(),
        headers={"authorization": f"Basic {credentials}"},
    )
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def of_client(scope="read", **fields):
    return token(grant_type="client_credentials", scope=scope, **fields)["access_token"]


person = token(grant_type="password", username="ada", password="any", scope="openid read")
tokens = {
    "access": of_client(),
    "another": of_client(),
    "third": of_client(),
    "id": person["id_token"],
    "refresh": person["refresh_token"],
    "for_another_audience": of_client("elsewhere"),
    "short_lived": of_client(client_id="short-lived"),
}
print("TOKENS", json.dumps(tokens), flush=True)
