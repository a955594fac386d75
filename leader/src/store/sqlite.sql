CREATE TABLE IF NOT EXISTS leader_sessions (
    id            TEXT NOT NULL PRIMARY KEY,
    namespace     TEXT NOT NULL,
    instance      TEXT NOT NULL,
    started_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leader_names (
    namespace     TEXT NOT NULL,
    name          TEXT NOT NULL,
    term          INTEGER NOT NULL DEFAULT 0,
    session_id    TEXT,
    elected_at_ms INTEGER,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
