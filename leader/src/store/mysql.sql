CREATE TABLE IF NOT EXISTS leader_sessions (
    id            char(32) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY CHECK (id REGEXP '^[0-9a-f]{32}$'),
    namespace     varbinary(255) NOT NULL,
    instance      varchar(255) CHARACTER SET utf8mb4 NOT NULL,
    started_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS leader_names (
    namespace     varbinary(255) NOT NULL,
    name          varbinary(255) NOT NULL,
    term          bigint NOT NULL DEFAULT 0,
    session_id    char(32) CHARACTER SET ascii COLLATE ascii_bin NULL CHECK (session_id REGEXP '^[0-9a-f]{32}$'),
    elected_at_ms bigint NULL,
    PRIMARY KEY (namespace, name)
) ENGINE = InnoDB;
