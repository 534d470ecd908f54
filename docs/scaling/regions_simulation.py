#!/usr/bin/env python3
"""What three regions cost a token service on PostgreSQL or a distributed database: a simulation.

People in the regions a, b and c send requests at random. Their region has token services (`--services everywhere`), or
only region a has (`--services a`). A replica has 16 connections to the database. An operation of the store holds a
connection for all its round trips and waits at most 2 s for a free one. A transaction sends BEGIN, its statements and
COMMIT, one round trip each. Revocations that share a statement are counted as if each had its own.

    async        PostgreSQL: primary in a; a commit waits for the disk of the primary
    quorum       the same, and a commit waits until the nearest standby has it on disk too
    distributed  CockroachDB, YugabyteDB: the leader of each row is in a random region; a statement travels to the
                 leader, and a commit from there to a majority, which the nearest other region completes

`--lose` takes a region away at `--at`. Its people reach the nearest other region after `--reroute` seconds. If the
region has the primary or leaders of rows, another region takes these over after `--failover` seconds.

    python3 docs/scaling/regions_simulation.py --design quorum --services a --replicas 16 --rtt 10/15/20
    python3 docs/scaling/regions_simulation.py --design async --services a --lose a --seconds 60
    python3 docs/scaling/regions_simulation.py --check
"""

import argparse
import heapq
import itertools
import math
import random
from collections import Counter, defaultdict, deque

REGIONS = "abc"
CONNECTIONS = 16  # of a replica
LONGEST_WAIT = 2.0  # for a connection, in seconds
CONNECT = 3.0  # seconds until an attempt to connect fails
STATEMENT_TIMEOUT = 10.0
UNCONFIRMED = 10.0  # seconds without the database after which a service issues no tokens

# A store operation: statements, whether they are a transaction, and whether it commits a write.
READ, WRITE = (1, False, False), (1, False, True)


def transaction(statements):
    return (statements, True, True)


# Per request: requests per second, store operations (the first READ of all but client credentials is the user, who is
# not in memory), CPU of the service and of the database in microseconds. The CPU of client credentials, JWT bearer,
# refresh and code was measured with an earlier build, and that of a code multiplied by what later builds save; the rest is
# estimated: 29 us of the database for a round trip, 40 ms for a password.
REQUESTS = {
    "client_credentials": (1000, [], 32, 0),
    "jwt_bearer": (1000, [READ, WRITE], 95, 112 + 29),
    "refresh_token": (2778, [READ, READ, WRITE], 167, 147 + 29),
    "authorize and code": (694, [READ, READ, transaction(2), READ], 183, 228 + 58),
    "sign-in": (347, [READ, transaction(6), transaction(6)], 40_000, 17 * 29),
    "revoke": (35, [READ, WRITE], 167, 2 * 29),
}
STATEMENT = 29e-6  # seconds of the database for a statement


class World:
    def __init__(self, given):
        self.__dict__.update(vars(given))
        self.chance = random.Random(self.seed)
        times = dict(zip(("ab", "ac", "bc"), (float(time) / 1000 for time in self.rtt.split("/"))))
        self.times = {(x, y): times["".join(sorted(x + y))] if x != y else self.near for x in REGIONS for y in REGIONS}
        self.primary, self.lost = "a", None
        self.rates = {kind: rate * self.load for kind, (rate, *_) in REQUESTS.items()}
        self.rates["revoke"] = self.revocations * self.load
        self.mended = math.inf if self.lose is None else self.at + self.failover

    def way(self, x, y):
        """A round trip from region x to region y, in seconds."""
        return self.times[x, y] * self.chance.uniform(1, 1 + self.jitter)

    def nearest(self, x):
        return min((y for y in REGIONS if y not in (x, self.lost)), key=lambda y: self.times[x, y])

    def commit(self, leader):
        """From the arrival of a commit at its leader to its answer. The standby gets what is on the primary's disk."""
        if self.design == "async":
            return self.disk
        return self.disk + self.way(leader, self.nearest(leader)) + (self.disk if self.design == "quorum" else 0)

    def standing(self, leader):
        """The region that has taken over, or will."""
        return leader if leader != self.lost else self.nearest(leader)

    def store(self, services, operation, at):
        """Seconds of an operation, and whether it fails."""
        statements, is_transaction, writes = operation
        distributed = self.design == "distributed"
        if not distributed and self.primary == self.lost:
            return CONNECT, True
        took = 0.0
        if is_transaction:
            took += self.way(services, services if distributed else self.primary)
        trips = statements + is_transaction
        for number in range(trips):
            leader = self.chance.choice(REGIONS) if distributed else self.primary
            if leader == self.lost and at < self.mended:
                took += min(self.mended - at, STATEMENT_TIMEOUT)
                if self.mended - at > STATEMENT_TIMEOUT:
                    return took, True
            leader = self.standing(leader)
            took += self.way(services, leader) + STATEMENT
            if writes and number == trips - 1:
                took += self.commit(leader)
        return took, False


def simulate(given, kinds=tuple(REQUESTS)):
    world = World(given)
    chance, order, events = world.chance, itertools.count(), []
    end = world.warm + world.seconds
    pools = defaultdict(lambda: [CONNECTIONS, deque()])  # free connections, waiting requests
    latency, answers, busy = defaultdict(list), Counter(), Counter()
    lost_writes = Counter()

    def add(at, what, *rest):
        heapq.heappush(events, (at, next(order), what, rest))

    for kind, (region, share) in itertools.product(kinds, zip(REGIONS, world.shares)):
        if share:
            add(chance.expovariate(world.rates[kind] * share), "arrive", kind, region)
    lose_at = world.warm + world.at if world.lose else math.inf
    if world.lose:
        add(lose_at, "lose")
    world.mended += world.warm

    def finish(at, kind, region, begun, outcome):
        if begun >= world.warm:
            answers[kind, region, outcome] += 1
            if outcome == "answered":
                latency[kind, region].append(at - begun)

    def hold(at, request, replica):
        """Begins the next store operation of a request, which has a connection."""
        kind, region, begun, step = request
        services = replica[0]
        operation = REQUESTS[kind][1][step]
        took, fails = world.store(services, operation, at)
        add(at + (min(took, 3.0) if fails else took), "done", request, replica, at, fails)

    def ask(at, request, replica):
        free, waiting = pool = pools[replica]
        if free:
            pool[0] -= 1
            hold(at, request, replica)
        else:
            waiting.append((at, request))

    while events and events[0][0] < end:
        at, _, what, rest = heapq.heappop(events)
        if what == "arrive":
            kind, region = rest
            _, operations, cpu, _ = REQUESTS[kind]
            share = world.shares[REGIONS.index(region)]
            add(at + chance.expovariate(world.rates[kind] * share), "arrive", kind, region)
            services = region if world.services == "everywhere" else "a"
            if world.lost in (services, region):
                moved = world.mended if services == world.lost and world.services == "a" else lose_at + world.reroute
                if at < moved:
                    finish(at, kind, region, at, "failed")
                    continue
                services = world.standing(services)
            request = (kind, region, at, 0)
            travelled = at + world.way(region, services) + cpu / 1e6
            replica = (services, chance.randrange(world.replicas))
            down = world.lost == world.primary and world.design != "distributed"
            if operations:
                add(travelled, "ask", request, replica)
            elif down and at > lose_at + UNCONFIRMED:
                finish(at, kind, region, at, "failed")
            else:
                finish(travelled, kind, region, at, "answered")
        elif what == "ask":
            ask(at, *rest)
        elif what == "done":
            (kind, region, begun, step), replica, since, fails = rest
            if at >= world.warm:
                busy[replica[0]] += at - max(since, world.warm)
            pool = pools[replica]
            pool[0] += 1
            while pool[1]:
                asked, waiting = pool[1].popleft()
                if at - asked <= LONGEST_WAIT:
                    pool[0] -= 1
                    hold(at, waiting, replica)
                    break
                finish(at, waiting[0], waiting[1], waiting[2], "failed")
            operations = REQUESTS[kind][1]
            if fails or replica[0] == world.lost:
                finish(at, kind, region, begun, "failed")
            elif step + 1 < len(operations):
                ask(at, (kind, region, begun, step + 1), replica)
            else:
                finish(at, kind, region, begun, "answered")
            written = not fails and operations[step][2]
            if written and world.lose == "a" and world.design == "async" and 0 <= lose_at - at < world.lag:
                lost_writes[kind] += 1
        elif what == "lose":
            world.lost = world.lose
            if world.design != "distributed" and world.lost == world.primary:
                add(world.mended, "promote")
        elif what == "promote":
            world.primary = world.nearest(world.primary)
    return world, latency, answers, busy, lost_writes


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else math.nan


def report(given):
    world, latency, answers, busy, lost_writes = simulate(given)
    print(f"{given.design}, token services: {given.services}. Latency as p50 / p99 in ms")
    print("| request | per second | region a | region b | region c | later than 1 s | failed |")
    print("|---|---|---|---|---|---|---|")
    for kind in REQUESTS:
        cells = []
        for region in REGIONS:
            times = latency[kind, region]
            p50, p99 = (1000 * quantile(times, part) for part in (0.5, 0.99))
            cells.append(f"{p50:.0f} / {p99:.0f}" if times else "none answered")
        times = [time for region in REGIONS for time in latency[kind, region]]
        late = sum(time > 1 for time in times)
        failed = sum(answers[kind, region, "failed"] for region in REGIONS)
        print(f"| {kind} | {world.rates[kind]:,.0f} | {' | '.join(cells)} | {part_of(late, times)} | ", end="")
        print(f"{part_of(failed, range(len(times) + failed))} |")
    for place in REGIONS if world.services == "everywhere" else sorted({"a"} | set(busy)):
        print(f"connections busy in {place}: {busy[place] / world.seconds:.0f} of {CONNECTIONS * world.replicas}")
    if world.lose:
        failed = sum(count for (_, _, outcome), count in answers.items() if outcome == "failed")
        print(f"failed: {failed:,} of {sum(answers.values()):,}; acknowledged writes lost: {dict(lost_writes) or 0}")
    else:
        service, database, commits = (sum(parts) for parts in zip(*(
            (rate * cpu / 1e6, rate * of_database / 1e6, rate * sum(operation[2] for operation in operations))
            for rate, (_, operations, cpu, of_database) in ((world.rates[kind], REQUESTS[kind]) for kind in REQUESTS)
        )))  # fmt: skip
        print(f"cores busy: token services {service:.1f}, database {database:.1f}; commits per second: {commits:,.0f}")


def part_of(count, whole):
    return f"{100 * count / len(whole):.1f} %" if len(whole) else "–"


def check(given):
    """Compares the simulation with closed formulas."""
    given.jitter, given.load, given.services, given.replicas, given.lose = 0.0, 0.02, "everywhere", 40, None
    for design, commit in (("async", 0.002), ("quorum", 0.002 + 0.070 + 0.002)):
        given.design, given.seconds = design, 60.0
        world, latency, _, busy, _ = simulate(given)
        trips = {"jwt_bearer": (2, 1), "refresh_token": (3, 1), "authorize and code": (7, 1), "sign-in": (17, 2)}
        for (kind, (count, commits)), (region, rtt) in itertools.product(trips.items(), (("a", 0.0005), ("b", 0.07))):
            begins = commits - (kind in ("jwt_bearer", "refresh_token"))
            held = count * rtt + (count - begins) * STATEMENT + commits * commit
            expect(f"{design}: {kind} in {region}, s", latency[kind, region], 0.0005 + REQUESTS[kind][2] / 1e6 + held)
        # Little's law: connections busy are rate times time held.
        rates = {kind: rate * world.shares[1] for kind, rate in world.rates.items()}
        held = sum(rates[kind] * (count * 0.07 + commits * commit) for kind, (count, commits) in trips.items())
        held += rates["revoke"] * (2 * 0.07 + commit)
        expect(f"{design}: connections busy in b", [busy["b"] / world.seconds], held, 0.05)


def expect(what, found, formula, tolerance=0.01):
    median = quantile(found, 0.5)
    print(f"{what:<45} simulated {median:9.4f}, formula {formula:9.4f}")
    assert abs(median - formula) <= tolerance * formula, what


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--design", choices=("async", "quorum", "distributed"), default="quorum")
    arguments.add_argument("--services", choices=("everywhere", "a"), default="everywhere")
    arguments.add_argument("--replicas", type=int, default=8, help="token services of a region")
    arguments.add_argument("--rtt", default="70/140/90", help="round trips between a and b, a and c, b and c, in ms")
    arguments.add_argument("--near", type=float, default=0.0005, help="round trip inside a region, in seconds")
    arguments.add_argument("--jitter", type=float, default=0.1, help="a round trip takes up to this part longer")
    arguments.add_argument("--disk", type=float, default=0.002, help="seconds until a write is on disk")
    arguments.add_argument("--shares", default="50/30/20", help="people of a, b and c, in percent")
    arguments.add_argument("--load", type=float, default=1.0, help="multiplies the rates of all requests")
    arguments.add_argument("--revocations", type=float, default=35, help="per second")
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--warm", type=float, default=5, help="seconds before the measurement")
    arguments.add_argument("--lose", choices=tuple(REGIONS))
    arguments.add_argument("--at", type=float, default=5, help="seconds of the measurement before the loss")
    arguments.add_argument("--failover", type=float, default=30, help="seconds until another region takes over")
    arguments.add_argument("--reroute", type=float, default=5, help="seconds until people reach another region")
    arguments.add_argument("--lag", type=float, default=1, help="seconds that an asynchronous standby is behind")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--check", action="store_true", help="compares the simulation with closed formulas")
    given = arguments.parse_args()
    given.shares = [float(share) / 100 for share in given.shares.split("/")]
    check(given) if given.check else report(given)


if __name__ == "__main__":
    main()
