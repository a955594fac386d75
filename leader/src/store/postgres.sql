CREATE TABLE IF NOT EXISTS leader_sessions (
    id            text COLLATE "C" PRIMARY KEY,
    namespace     text COLLATE "C" NOT NULL,
    instance      text NOT NULL,
    started_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL -- no index: it would end HOT updates
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS leader_names (
    namespace     text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    term          bigint NOT NULL DEFAULT 0,
    session_id    text COLLATE "C",
    elected_at_ms bigint,
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 50);
