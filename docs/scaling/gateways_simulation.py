#!/usr/bin/env python3
"""What gateways cost the token service, and how fast a revocation reaches them: a simulation.

Each Envoy keeps one request for the revocation feed open, which the service holds for up to `wait` seconds, and fetches the
keys every `refresh` seconds. The internal listener has one thread. It answers first come, first served, and takes `cost`
seconds of CPU for each request and its answer. A revocation wakes all held requests at once, but never sooner than `pause`
seconds for each request held at the last wake-up after that one. Revocations happen at random; the time from the commit of
each until a gateway has it is measured.

    python3 docs/scaling/gateways_simulation.py --envoys 10000 --revocations 5
"""

import argparse
import heapq
import random
import statistics

# From an answer to the gateway's next request at the service, in seconds.
WAY = 0.001


def simulate(envoys, wait, refresh, cost, pause, revocations, seconds, seed):
    chance = random.Random(seed)
    events = []
    order = 0

    def add(at, what, who=None):
        nonlocal order
        order += 1
        heapq.heappush(events, (at, order, what, who))

    for envoy in range(envoys):
        add(chance.uniform(0, wait), "ask", envoy)
        add(chance.uniform(0, refresh), "keys", envoy)
    at = wait
    while at < wait + seconds:
        at += chance.expovariate(revocations)
        add(at, "revoke")
    position, revoked = 0, []  # the time of each revocation
    known = [0] * envoys  # the position that each gateway has read
    held = {}  # who is held, and since when
    free, busy, answered, wake_ups = 0.0, 0.0, 0, 0
    published, next_wake, waking, crowd = 0, 0.0, False, 0
    delays = []

    def answer(at, envoy, reaches):
        """Answers a gateway with everything up to `reaches`; the gateway then asks again."""
        nonlocal free, busy, answered
        begin = max(at, free)
        free = begin + cost
        if at >= wait:
            busy, answered = busy + cost, answered + 1
        if envoy < 500:
            delays.extend(free - moment for moment in revoked[known[envoy] : reaches])
        known[envoy] = reaches
        add(free + WAY, "ask", envoy)

    while events and events[0][0] < wait + seconds:
        at, _, what, who = heapq.heappop(events)
        if what == "keys":
            free = max(at, free) + cost
            if at >= wait:
                busy, answered = busy + cost, answered + 1
            add(free + refresh, "keys", who)
        elif what == "ask":
            if known[who] < published:
                answer(at, who, published)
            else:
                held[who] = at
                add(at + wait, "expire", who)
        elif what == "expire":
            if who in held and held[who] + wait <= at + 1e-9:
                del held[who]
                answer(at, who, published)
        elif what == "revoke":
            revoked.append(at)
            position += 1
            if not waking:
                waking = True
                add(max(at, next_wake), "wake")
        elif what == "wake":
            waking, published, wake_ups = False, position, wake_ups + 1
            crowd = max(len(held), crowd - crowd // 8)
            next_wake = at + pause * crowd
            for envoy in list(held):
                del held[envoy]
                answer(at, envoy, published)
    return {
        "requests per second": answered / seconds,
        "cores busy": busy / seconds,
        "wake-ups per second": wake_ups / seconds,
        "revocation to gateway, p50, ms": 1000 * statistics.median(delays),
        "revocation to gateway, p99, ms": 1000 * statistics.quantiles(delays, n=100)[98],
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--envoys", type=int, default=1000)
    arguments.add_argument("--wait", type=float, default=20, help="seconds for which a request is held")
    arguments.add_argument("--refresh", type=float, default=300, help="seconds between two fetches of the keys")
    arguments.add_argument("--cost", type=float, default=50e-6, help="CPU seconds of a request and its answer")
    arguments.add_argument("--pause", type=float, default=50e-6, help="seconds between wake-ups for each held request")
    arguments.add_argument("--revocations", type=float, default=1, help="per second")
    arguments.add_argument("--seconds", type=float, default=30)
    arguments.add_argument("--seed", type=int, default=1)
    given = vars(arguments.parse_args())
    for name, value in simulate(**given).items():
        print(f"{name:<32} {value:12.2f}")


if __name__ == "__main__":
    main()
