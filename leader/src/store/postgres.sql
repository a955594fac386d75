CREATE TABLE IF NOT EXISTS leader_sessions (
    id            text COLLATE "C" PRIMARY KEY CHECK (id ~ '^[0-9a-f]{32}$'),
    namespace     text COLLATE "C" NOT NULL,
    instance      text NOT NULL,
    started_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL -- no index: it would end HOT updates
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS leader_names (
    namespace     text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    term          bigint NOT NULL DEFAULT 0,
    session_id    text COLLATE "C" CHECK (session_id ~ '^[0-9a-f]{32}$'),
    elected_at_ms bigint,
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 50);
