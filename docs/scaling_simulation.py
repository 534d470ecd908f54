#!/usr/bin/env python3
"""What gateways cost the token service, and how fast a revocation reaches them: a simulation.

Each worker of each Envoy polls the revocation feed every `poll` seconds and the keys every `refresh` seconds, each at
a phase of its own. A service with `cores` cores answers polls first come, first served, each in `cost` seconds of CPU.
Revocations happen at random; the time from the commit of each until a worker has it is measured.

    python3 docs/scaling_simulation.py --envoys 10000 --workers 4
"""

import argparse
import heapq
import random
import statistics


def simulate(envoys, workers, poll, refresh, cost, cores, revocations, seconds, seed):
    chance = random.Random(seed)
    pollers = envoys * workers
    events = [(chance.uniform(0, poll), "feed", worker) for worker in range(pollers)]
    events += [(chance.uniform(0, refresh), "keys", worker) for worker in range(pollers)]
    heapq.heapify(events)
    free = [0.0] * cores
    heapq.heapify(free)
    revoked = sorted(chance.uniform(poll, seconds - poll) for _ in range(revocations))
    seen = {}
    waits, answered, busy = [], 0, 0.0
    while events and events[0][0] < seconds:
        at, what, worker = heapq.heappop(events)
        begin = max(at, heapq.heappop(free))
        end = begin + cost
        heapq.heappush(free, end)
        answered, busy = answered + 1, busy + cost
        waits.append(end - at)
        if what == "feed" and worker < 200:
            seen.setdefault(worker, []).append((begin, end))
        heapq.heappush(events, (end + (poll if what == "feed" else refresh), what, worker))
    delays = []
    for polls in seen.values():
        index = 0
        for moment in revoked:
            while index < len(polls) and polls[index][0] < moment:
                index += 1
            if index < len(polls):
                delays.append(polls[index][1] - moment)
    return {
        "requests per second": answered / seconds,
        "cores busy": busy / seconds,
        "wait of a poll, p99, ms": 1000 * statistics.quantiles(waits, n=100)[98],
        "revocation to worker, p50, s": statistics.median(delays),
        "revocation to worker, p99, s": statistics.quantiles(delays, n=100)[98],
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--envoys", type=int, default=1000)
    arguments.add_argument("--workers", type=int, default=4, help="of each Envoy")
    arguments.add_argument("--poll", type=float, default=2, help="seconds between two polls of the feed")
    arguments.add_argument("--refresh", type=float, default=300, help="seconds between two fetches of the keys")
    arguments.add_argument("--cost", type=float, default=60e-6, help="CPU seconds of an answer")
    arguments.add_argument("--cores", type=int, default=1)
    arguments.add_argument("--revocations", type=int, default=50)
    arguments.add_argument("--seconds", type=float, default=30)
    arguments.add_argument("--seed", type=int, default=1)
    given = vars(arguments.parse_args())
    for name, value in simulate(**given).items():
        print(f"{name:<32} {value:12.2f}")


if __name__ == "__main__":
    main()
