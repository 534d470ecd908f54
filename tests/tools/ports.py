#!/usr/bin/env python3
"""Looks at the ports of `make up`, before anything is compiled: `ports.py free` fails if a program listens at one of them, `ports.py
taken` if no pair runs. The names and numbers are those of tests/harness/src/ports.rs, which checks once more when the pair starts."""

import os
import re
import socket
import sys
from pathlib import Path

source = (Path(__file__).parents[1] / "harness/src/ports.rs").read_text()
defaults = dict(re.findall(r"^ +(\w+): (\d+),$", source, re.MULTILINE))
ports = {name: os.environ.get(name, defaults[field]) for name, field in re.findall(r'port\("(\w+)", default\.(\w+)\)', source)}

for name, port in ports.items():
    if not re.fullmatch(r"\d{1,5}", port) or not 0 < int(port) < 65536:
        sys.exit(f"{name}={port}: expected a port number from 1 to 65535")


def is_free(port):
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", int(port)))
        except OSError:
            return False
    return True


if sys.argv[1:] == ["free"]:
    problems = [
        f"127.0.0.1:{port} is in use: stop the program that listens there, or set {name} to a free port"
        for name, port in ports.items()
        if not is_free(port)
    ]
else:
    lobby = ports["LOBBY_PORT"]
    problems = [f"No pair runs at 127.0.0.1:{lobby}: start `make up` in another terminal, with the same variables"] * is_free(lobby)
if problems:
    sys.exit("\n".join(problems))
