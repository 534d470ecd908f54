#!/usr/bin/env python3
"""Prints the clients and users of another server as a registrations file, for `token-service apply FILE --import`.

    registrations.py keycloak realm.json --site https://us1.example.com > registrations.toml
    registrations.py csv users.csv > registrations.toml

Standard error has a line for everything that is left out, with the reason."""

import argparse
import base64
import collections
import csv
import json
import re
import sys

OWN_CLIENTS = "account account-console admin-cli broker realm-management security-admin-console".split()
# They choose claims, which tokens of this service have anyway or never.
OWN_SCOPES = """acr address basic email microprofile-jwt offline_access openid organization phone profile roles service_account
    web-origins""".split()

# Members that `client` and `user` read, and members that say nothing outside of Keycloak.
CLIENT_MEMBERS = """access bearerOnly clientAuthenticatorType clientId defaultClientScopes directAccessGrantsEnabled enabled
    fullScopeAllowed id implicitFlowEnabled name nodeReRegistrationTimeout notBefore optionalClientScopes protocol publicClient
    redirectUris rootUrl secret serviceAccountsEnabled standardFlowEnabled surrogateAuthRequired""".split()
USER_MEMBERS = """access createdTimestamp credentials disableableCredentialTypes email enabled federatedIdentities id notBefore
    serviceAccountClientId totp username""".split()

NO_ROLES = "this service has scopes of clients and no roles"
# Why members are left out. All others have no equivalent.
REASONS = {
    "attributes": "none here; pages have the language of the browser",
    "authorizationSettings": "the resource server decides",
    "clientRoles": NO_ROLES,
    "consentRequired": "pages ask where an app could be forged",
    "emailVerified": "links by mail go to the address, verified or not",
    "federatedUsers": "people sign in with a password",
    "federationLink": "the password is at a directory; set one here",
    "groups": "this service has no groups",
    "identityProviders": "configure them as [[identity_providers]]",
    "protocolMappers": "docs/protocol/api.md has the claims of tokens",
    "realmRoles": NO_ROLES,
    "requiredActions": "only UPDATE_PASSWORD is taken over, as must_change_password",
    "roles": NO_ROLES,
    "scopeMappings": NO_ROLES,
    "webOrigins": "origins of redirect URIs count",
}
COLUMNS = """username email organization enabled password_hash password totp_secret account_user_id account_username
    account_site""".split()

# What holds for many objects, with its reason, and for how many.
counts = collections.Counter()


def report(line):
    """Names may contain line ends."""
    print("".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in line), file=sys.stderr)


def toml(value):
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(member)}" for key, member in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def entry(kind, members):
    print(f"[[{kind}]]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in members.items()))


def leave_out(of, members, read=()):
    for member, value in members.items():
        if member not in read and has_value(value):
            counts[f"not imported: {member} of {of}", REASONS.get(member, "no equivalent")] += 1


def has_value(value):
    return any(map(has_value, value.values())) if isinstance(value, dict) else bool(value)


def keycloak(arguments):
    with open(arguments.file, encoding="utf-8-sig") as file:
        realm = json.load(file)
    issuers = dict(pair.split("=", 1) for pair in arguments.identity_provider)
    for each in realm.pop("users", []):
        user(each, arguments.site, issuers)
    for each in realm.pop("clients", []):
        client(each)
    leave_out("the realm", {member: realm.pop(member, None) for member in REASONS})
    settings = [member for member, value in realm.items() if member not in ("id", "realm", "enabled") and has_value(value)]
    if settings:
        report(f"settings of the realm are not imported, see docs/configuration.md: {', '.join(settings)}")


def client(given):
    name = f"client {given['clientId']}"
    is_public, secret = given.get("publicClient", False), given.get("secret", "")
    reasons = {
        "a client of Keycloak itself": given["clientId"] in OWN_CLIENTS,
        "it does not use OpenID Connect": given.get("protocol", "openid-connect") != "openid-connect",
        "a resource server needs no registration; set up the guard in front of it": given.get("bearerOnly"),
        "it does not use the authorization code; register a `user_bound` or `non_interactive` client in its place":
            not given.get("standardFlowEnabled", True),
        "it does not authenticate with a client secret":
            not is_public and given.get("clientAuthenticatorType", "client-secret") != "client-secret",
        "the export masks its secret; export with `kc.sh export`, which does not": not is_public and secret and not secret.strip("*"),
    }
    for reason, is_unfit in reasons.items():
        if is_unfit:
            return report(f"{name} is not imported: {reason}")
    for flag, what in {
        "implicitFlowEnabled": "the implicit flow, which RFC 9700 §2.1.2 advises against",
        "directAccessGrantsEnabled": "direct grants: people type passwords only at the sign-in page (RFC 9700 §2.4)",
        "serviceAccountsEnabled": "its service account: register a `user_bound` client for it",
    }.items():
        if given.get(flag):
            report(f"{name} comes without {what}")
    members = {"client_id": given["clientId"], "type": "installed" if is_public else "web_server", "enabled": given.get("enabled", True)}
    if is_public:
        counts["clients without a secret", "they must send a code_challenge (PKCE, S256)"] += 1
    else:
        members["client_secret"] = secret
    # Names may be keys of translations, such as ${client_account}.
    if given.get("name") and not given["name"].startswith("${"):
        members["name"] = given["name"]
    uris = [given.get("rootUrl", "").rstrip("/") + uri if uri.startswith("/") else uri for uri in given.get("redirectUris", [])]
    for uri in uris:
        if "*" in uri:
            report(f"{name} comes without the redirect URI {uri}: register each URI in full")
    members["redirect_uris"] = [uri for uri in uris if "*" not in uri]
    scopes = given.get("defaultClientScopes", []) + given.get("optionalClientScopes", [])
    members["scopes"] = [scope for scope in scopes if scope not in OWN_SCOPES]
    if members["scopes"] != scopes:
        counts["not imported: scopes of Keycloak itself, such as profile, of clients", "they choose claims there"] += 1
    leave_out("clients", given, CLIENT_MEMBERS)
    entry("clients", members)


def user(given, site, issuers):
    name = given.get("username")
    if not name or "serviceAccountClientId" in given:
        return report(f"user {name} is not imported: {'a service account' if name else 'it has no name'}")
    # Keycloak disables users without this member.
    members = {"username": name, "enabled": given.get("enabled", False)}
    if given.get("email"):
        members["email"] = given["email"]
    if not site:
        counts["users without an account", "every token needs one: add accounts, or give --site"] += 1
    elif "id" in given:
        members["accounts"] = [{"user_id": given["id"], "username": name, "site": site}]
    else:
        report(f"user {name} comes without an account: the export has no id")
    identities = []
    for identity in given.get("federatedIdentities", []):
        alias = identity.get("identityProvider")
        if alias in issuers:
            identities.append({"issuer": issuers[alias], "subject": identity["userId"]})
        else:
            counts[f"not imported: identities of users at the identity provider {alias}",
                   "name its issuer with --identity-provider ALIAS=ISSUER"] += 1
    if identities:
        members["identities"] = identities
    credentials = given.get("credentials", [])
    for credential in credentials:
        key, value, why = credential_of(credential)
        if key and key not in members:
            members[key] = value
        else:
            kind = credential.get("type")
            report(f"user {name} comes without " + (f"a further credential {kind}" if key else f"the credential {kind}: {why}"))
    actions = given.get("requiredActions", [])
    if "UPDATE_PASSWORD" in actions or any(credential.get("temporary") for credential in credentials):
        members["must_change_password"] = True
    if members["enabled"] and not members.keys() & {"password", "password_hash", "identities"}:
        if any(credential.get("type", "").startswith("webauthn") for credential in credentials):
            why = "the passkey is not imported"
        elif given.get("federatedIdentities"):
            why = "the issuer of the identity provider is not given (--identity-provider ALIAS=ISSUER)"
        elif given.get("federationLink"):
            why = "the password is at a directory"
        else:
            why = "the export has no password"
        report(f"user {name} cannot sign in: {why}")
    others = [action for action in actions if action != "UPDATE_PASSWORD"]
    leave_out("users", given | {"requiredActions": others}, USER_MEMBERS)
    entry("users", members)


def credential_of(credential):
    """The key and the value in a registrations file, or why there is none."""
    if credential.get("type") == "password" and "value" in credential:
        return "password", credential["value"], None
    if credential.get("type") == "password":
        return "password_hash", json.dumps({key: credential.get(key, "") for key in ("credentialData", "secretData")}), None
    if credential.get("type") != "otp":
        return None, None, "no equivalent"
    data, secret = json.loads(credential["credentialData"]), json.loads(credential["secretData"])["value"]
    expected = {"subType": "totp", "digits": 6, "period": 30, "algorithm": "HmacSHA1"}
    if not expected.items() <= (expected | data).items():
        return None, None, "codes have 6 digits and change every 30 seconds (TOTP, SHA-1); set up an app again"
    if "secretEncoding" not in data:
        # The characters are the secret.
        secret = base64.b32encode(secret.encode()).decode().rstrip("=")
    return "totp_secret", secret, None


def table(arguments):
    with open(arguments.file, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            columns = [column.strip() for column in next(rows, [])]
            if unknown := [column for column in columns if column not in COLUMNS]:
                sys.exit(f"{arguments.file}: the column {unknown[0]!r} is unknown; columns have commas between them, and are "
                         + ", ".join(COLUMNS))
            if "username" not in columns or len(set(columns)) < len(columns):
                sys.exit(f"{arguments.file}: the column username is missing, or a column appears twice")
            for row in filter(None, rows):
                if len(row) != len(columns):
                    sys.exit(f"{arguments.file}: line {rows.line_num}: {len(row)} cells for {len(columns)} columns")
                person({column: cell for column, cell in zip(columns, row) if cell}, rows.line_num)
        except csv.Error as error:
            sys.exit(f"{arguments.file}: line {rows.line_num}: {error}")


def person(cells, line):
    """The user of a row. Its cells may be passwords."""
    name = cells.get("username")
    for column, cell in cells.items():
        if re.fullmatch(r"[0-9.,]+[Ee]\+[0-9]+", cell):
            return report(f"user {name} is not imported: {column}: a spreadsheet rounded the number; format the column as text "
                          f"(line {line})")
    if not name:
        return report(f"a user is not imported: it has no name (line {line})")
    members = {column: cell for column, cell in cells.items() if not column.startswith("account_")}
    # Spreadsheets write these words in capitals. Another text is refused by `apply`.
    enabled = members.get("enabled", "true")
    members["enabled"] = {"true": True, "false": False}.get(enabled.lower(), enabled)
    account = {column.removeprefix("account_"): cell for column, cell in cells.items() if column.startswith("account_")}
    if account:
        members["accounts"] = [account]
    if members["enabled"] and not members.keys() & {"password", "password_hash"}:
        report(f"user {name} cannot sign in: the table has no password")
    entry("users", members)


def main():
    sys.stdout.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    of_realm = commands.add_parser("keycloak", help="clients and users of a realm: kc.sh export --realm NAME --file realm.json")
    of_realm.set_defaults(read=keycloak)
    of_realm.add_argument("--site", metavar="URL", help="link each user to an account of this site, whose User ID is the user's id "
                          "in Keycloak: the `sub` of earlier tokens")
    of_realm.add_argument("--identity-provider", metavar="ALIAS=ISSUER", action="append", default=[], help="link users to their "
                          "identities at this provider. Only right if it gives this service the same sub as it gave Keycloak")
    of_table = commands.add_parser("csv", help=f"users of a table with the columns {', '.join(COLUMNS)}")
    of_table.set_defaults(read=table)
    for command in (of_realm, of_table):
        command.add_argument("file")
    arguments = parser.parse_args()
    arguments.read(arguments)
    for (what, why), count in sorted(counts.items()):
        report(f"{what} ({count}): {why}")


main()
