"""Holds the OpenAPI description of the public endpoints against their answers: those of refusals, which Schemathesis provokes, and
those of success.

Arguments: the public listener, and the legacy hosts' address.
"""

import pathlib
import subprocess
import sys
import tempfile

import jsonschema_rs
import requests
from openapi_spec_validator import validate

lobby, legacy = sys.argv[1:]
description = requests.get(f"{lobby}/auth/openapi.json", timeout=30).json()
validate(description)

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
WEB = ("web-demo", "demo-secret-of-web-demo-not-for-real-use")
USER_BOUND = ("user-bound-demo", "demo-secret-of-user-bound-demo-not-for-real-use")
ACCOUNT = {"user_id": "1879048402", "user_site": "https://us1.example.com"}


def provoke(url, host, paths, *more):
    """Requests of all shapes, the same in each run."""
    subprocess.run(
        [
            pathlib.Path(sys.executable).with_name("schemathesis"), "run", f"{lobby}/auth/openapi.json", "--url", url,
            "--include-path-regex", paths, "--header", f"Host: {host}", *more,
            "--checks", CHECKS, "--max-examples", "5", "--seed", "1", "--phases", "coverage,fuzzing",
            "--suppress-health-check", "all", "--generation-database", "none", "--no-color",
        ],
        check=True, cwd=tempfile.mkdtemp(),
    )


provoke(lobby, lobby.removeprefix("http://"), "^/(auth|.well-known)/", "--auth", ":".join(WEB))
provoke(legacy, "us1.legacy.example", "^/(Logon|OAuthStatus)$")
provoke(legacy, "sso-us1.legacy.example", "^/as/")


def answered(path, method="get", **request):
    """The answer, which must be as the description says of its status."""
    answer = requests.request(method, request.pop("url", lobby) + path, timeout=30, **request)
    content = description["paths"][path][method]["responses"][str(answer.status_code)]["content"]
    [(kind, media)] = content.items()
    assert answer.headers["content-type"].split(";")[0] == kind, answer.headers
    # The schema's references are into the description.
    jsonschema_rs.validate({"components": description["components"]} | media["schema"], answer.json())
    assert answer.ok, answer.text
    return answer.json()


tokens = answered("/auth/token", "post", auth=USER_BOUND, data={"grant_type": "client_credentials"} | ACCOUNT)
form = {"token": tokens["access_token"]}
assert answered("/auth/introspect", "post", auth=USER_BOUND, data=form)["active"]
answered("/auth/revoke", "post", auth=USER_BOUND, data=form)
assert answered("/auth/introspect", "post", auth=USER_BOUND, data=form) == {"active": False}
push = {"response_type": "code", "client_id": WEB[0], "redirect_uri": "http://127.0.0.1:8090/callback"}
answered("/auth/par", "post", auth=WEB, data=push)
answered("/auth/jwks")
answered("/.well-known/oauth-authorization-server")
answered("/OAuthStatus", url=legacy, headers={"Host": "us1.legacy.example"})
