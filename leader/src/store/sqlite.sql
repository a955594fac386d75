CREATE TABLE IF NOT EXISTS leader_sessions (
    id            TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 32 AND id NOT GLOB '*[^0-9a-f]*'),
    namespace     TEXT NOT NULL,
    instance      TEXT NOT NULL,
    started_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leader_names (
    namespace     TEXT NOT NULL,
    name          TEXT NOT NULL,
    term          INTEGER NOT NULL DEFAULT 0,
    session_id    TEXT CHECK (length(session_id) = 32 AND session_id NOT GLOB '*[^0-9a-f]*'),
    elected_at_ms INTEGER,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
