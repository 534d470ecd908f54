-- What the tables of keys and rows need besides, and the tables that operations do not see.

CREATE TABLE IF NOT EXISTS feed (
    name TEXT PRIMARY KEY,
    identity BYTEA NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS revoked_by_sequence ON revoked (sequence);
CREATE INDEX IF NOT EXISTS revoked_waiting ON revoked (waits_since) WHERE waits_since IS NOT NULL;

-- `number` counts the entries of a kind, for the bound of the kind.
CREATE TABLE IF NOT EXISTS audit_log (
    sequence BIGINT PRIMARY KEY,
    kind BIGINT NOT NULL,
    number BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    body BYTEA NOT NULL
);
CREATE INDEX IF NOT EXISTS audit_log_by_expiry ON audit_log (expires_at);
CREATE INDEX IF NOT EXISTS audit_log_by_kind ON audit_log (kind, number);
-- Entries that wait for a sequence and a number. `batch` is random, and `place` the order of the entries of a batch.
CREATE TABLE IF NOT EXISTS audit_waiting (
    batch BYTEA NOT NULL,
    place BIGINT NOT NULL,
    waits_since BIGINT NOT NULL,
    kind BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (batch, place)
);
CREATE INDEX IF NOT EXISTS audit_waiting_by_time ON audit_waiting (waits_since, batch, place);

-- The services that use the database. `layout` is the newest that the service knows.
CREATE TABLE IF NOT EXISTS replicas (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    version TEXT NOT NULL,
    layout BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);

INSERT INTO counters (name, value) VALUES ('last_revocation', 0), ('last_audit', 0) ON CONFLICT (name) DO NOTHING;
-- Operations lock these rows, so they must be there. Numbers have 8 bytes, big endian.
INSERT INTO meta (k, v) VALUES ('registry_version', decode('0000000000000000', 'hex')),
        ('signing_keys', decode('0000000000000000', 'hex'))
    ON CONFLICT (k) DO NOTHING;
