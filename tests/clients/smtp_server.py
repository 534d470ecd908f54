"""A mail server for the tests: takes messages, and writes them to standard output.

    smtp_server.py PORT MODE [PEM]

MODE is `starttls` (required, and so is the login service with the password mail-password), `implicit` or `plain`. PEM has the certificate
and the key. A message to slow@... stays without an answer, one to refused@... is refused.
"""

import asyncio
import json
import ssl
import sys
from email import message_from_bytes, policy

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

LOGIN = LoginPassword(b"service", b"mail-password")


class Mailbox:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("refused@"):
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        tell("RECEIVED", len(envelope.content))
        if envelope.rcpt_tos[0].startswith("slow@"):
            await asyncio.Event().wait()
        message = message_from_bytes(envelope.content, policy=policy.default)
        tell(
            "MESSAGE",
            {
                "from": envelope.mail_from,
                "to": envelope.rcpt_tos,
                "encrypted": server.transport.get_extra_info("sslcontext") is not None,
                "login": bool(session.authenticated),
                "headers": message.items(),
                "text": message.get_content(),
            },
        )
        return "250 OK"


def authenticate(server, session, envelope, mechanism, login):
    return AuthResult(success=login == LOGIN)


def tell(kind, value):
    print(kind, json.dumps(value), flush=True)


async def serve(port, mode, pem=None):
    context = None
    if pem:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pem)
    options = {}
    if mode == "starttls":
        options = {
            "tls_context": context,
            "require_starttls": True,
            "authenticator": authenticate,
            "auth_required": True,
        }
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(Mailbox(), hostname="localhost", **options),
        "127.0.0.1",
        int(port),
        ssl=context if mode == "implicit" else None,
    )
    tell("SERVING", mode)
    await server.serve_forever()


asyncio.run(serve(*sys.argv[1:]))
