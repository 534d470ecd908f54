"""Loads packaging/nftables/gatepass.nft into the network namespace of this process, and opens connections: nftables.py NFT FILE.

Run it within `unshare --net`: it changes addresses and rules of the namespace."""

import fcntl
import socket
import struct
import subprocess
import sys

MOST = 200
SIOCSIFADDR, SIOCSIFFLAGS = 0x8916, 0x8914
FIRST, SECOND, OTHER = "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"


def loopback():
    """Gives lo a public address of IPv4, three of IPv6 in two networks, and starts it."""
    with socket.socket() as v4:
        for name, address in [("lo", "127.0.0.1"), ("lo:1", "192.0.2.1")]:
            request = struct.pack("16sHH4s8x", name.encode(), socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(v4, SIOCSIFADDR, request)
        fcntl.ioctl(v4, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", 0x1))
    with socket.socket(socket.AF_INET6) as v6:
        for address in [FIRST, SECOND, OTHER]:
            packed = socket.inet_pton(socket.AF_INET6, address)
            fcntl.ioctl(v6, SIOCSIFADDR, struct.pack("16sIi", packed, 128, socket.if_nametoindex("lo")))


def connect(source, port, patience):
    """A connection from this address to itself; None if the rules drop it."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.settimeout(patience)
    try:
        connection.bind((source, 0))
        connection.connect((FIRST if ":" in source else source, port))
        return connection
    except TimeoutError:
        connection.close()
        return None


def held(source, count, port=8080):
    """Opens connections that the rules must let in."""
    connections = [connect(source, port, 10) for _ in range(count)]
    assert all(connections), f"{source}: {connections.index(None)} of {count} connections"
    return connections


def refused(source, port=8080):
    assert connect(source, port, 0.5) is None, f"{source} has one connection too many at {port}"


nft, rules = sys.argv[1:]
loopback()
for _ in range(2):
    subprocess.run([nft, "--file", rules], check=True)
listeners = []
for family, host in [(socket.AF_INET, ""), (socket.AF_INET6, "::")]:
    for port in [8080, 8084]:
        listener = socket.socket(family)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen(1024)
        listeners.append(listener)

# This machine is not counted, and fetches keys; others do not.
of_this_machine = held("127.0.0.1", MOST + 1) + held("127.0.0.1", 1, 8084)
refused("192.0.2.1", 8084)
refused(FIRST, 8084)

of_one_address = held("192.0.2.1", MOST)
refused("192.0.2.1")

# Two addresses of one /64 are one; another /64 is not.
of_one_network = held(FIRST, MOST // 2) + held(SECOND, MOST // 2)
refused(FIRST)
refused(SECOND)
of_another_network = held(OTHER, 1)

# What has ended is not counted: reset, so that the kernel forgets the connection at once.
for connection in of_one_address[:10]:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
held("192.0.2.1", 1)
