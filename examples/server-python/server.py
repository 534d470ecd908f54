"""A web server whose visitors sign in, and which calls the API for them."""

import os
import secrets

from authlib.integrations.flask_client import OAuth
from flask import Flask, redirect, session

API = "http://127.0.0.1:8080/api/projects"
ORIGIN = "http://127.0.0.1:3000"

app = Flask(__name__)
app.config.update(
    SECRET_KEY=os.environ.get("SESSION_KEY", secrets.token_hex()),
    SESSION_COOKIE_SAMESITE="Lax",
    SESSION_COOKIE_SECURE=ORIGIN.startswith("https:"),
)
# Tokens by the id in the visitor's cookie. In memory: a real server has a store, and removes old tokens.
tokens = {}


def keep(token, **_):
    """Stores tokens, also after a refresh, which Authlib does when a token has expired."""
    tokens[session["id"]] = token


gatepass = OAuth(app).register(
    "gatepass",
    client_id="python-app",
    client_secret=os.environ["CLIENT_SECRET"],
    server_metadata_url="http://127.0.0.1:8081/.well-known/oauth-authorization-server",
    client_kwargs={"scope": "projects", "code_challenge_method": "S256"},
    update_token=keep,
)


@app.get("/")
def home():
    token = tokens.get(session.get("id"))
    if token is None:
        return gatepass.authorize_redirect(f"{ORIGIN}/callback")
    answer = gatepass.get(API, token=token)
    return answer.content, answer.status_code, {"content-type": "application/json"}


@app.get("/callback")
def callback():
    token = gatepass.authorize_access_token()
    session["id"] = secrets.token_urlsafe()
    keep(token)
    return redirect("/")
