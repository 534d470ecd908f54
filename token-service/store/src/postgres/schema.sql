-- What the tables of records.rs need besides, and the tables that no copy contains. Rows of bytes begin with the version of their
-- layout, or are JSON.

-- Bound users by client, so that one statement reads a client with its bound user. 1 is NamedKind::BoundUser.
CREATE INDEX IF NOT EXISTS registry_names_bound_users ON registry_names (name, value) WHERE kind = 1;

CREATE INDEX IF NOT EXISTS codes_by_expiry ON codes (expires_at);
CREATE INDEX IF NOT EXISTS codes_unused ON codes (username, client_id, expires_at) WHERE grant_id IS NULL;
CREATE INDEX IF NOT EXISTS grants_by_client ON grants (client_id, grant_id);
CREATE INDEX IF NOT EXISTS grants_by_user ON grants (username, grant_id);
CREATE INDEX IF NOT EXISTS grants_live ON grants (username, client_id, grant_id) WHERE revoked_at IS NULL;
CREATE INDEX IF NOT EXISTS grants_by_key ON grants (jkt) WHERE jkt IS NOT NULL;
CREATE INDEX IF NOT EXISTS grants_by_certificate ON grants (certificate) WHERE certificate IS NOT NULL;

CREATE TABLE IF NOT EXISTS feed (
    name TEXT PRIMARY KEY,
    identity BYTEA NOT NULL
);
-- `waits_since` is the time since when the entry waits for its next position, in microseconds since 1970, and null when the
-- entry has its position.
ALTER TABLE revocations ADD COLUMN IF NOT EXISTS waits_since BIGINT;
CREATE UNIQUE INDEX IF NOT EXISTS revocations_by_sequence ON revocations (sequence);
CREATE INDEX IF NOT EXISTS revocations_waiting ON revocations (waits_since) WHERE waits_since IS NOT NULL;
CREATE INDEX IF NOT EXISTS revocations_by_expiry ON revocations (expires_at);

CREATE INDEX IF NOT EXISTS used_once_by_expiry ON used_once (expires_at);
CREATE INDEX IF NOT EXISTS failures_by_expiry ON failures (expires_at);
CREATE INDEX IF NOT EXISTS sessions_by_user ON sessions (username);
CREATE INDEX IF NOT EXISTS sessions_by_expiry ON sessions (expires_at);

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

INSERT INTO counters (name, value)
    VALUES ('last_revocation', 0), ('last_audit', 0), ('registry_position', 0), ('signing_keys', 0),
        ('token_lifetime', 0), ('token_lifetime_until', 0), ('swept_at', extract(epoch FROM now())::BIGINT)
    ON CONFLICT (name) DO NOTHING;
