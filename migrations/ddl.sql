-- TunnelMesh schema, version 9: everything a fresh database holds.
--
-- One text for SQLite and MySQL 5.6 and later, so it uses only what both read the
-- same way. Where it looks unusual, this is why:
--   * An indexed column holds at most 767 bytes on MySQL 5.6: VARBINARY(255) for
--     ids, VARCHAR(191) where utf8mb4 text is unique.
--   * TEXT has no default on MySQL 5.6; writers always give a value.
--   * MySQL reads what stands in /*! */, SQLite takes it for a comment. With the binary
--     collation text is compared as SQLite does; a server's own default would not tell
--     'Alice' from 'alice'.
--   * VARBINARY has numeric affinity on SQLite, so an id made of digits only would
--     be stored as a number. Ids therefore always begin with a letter.
-- Timestamps are UTC text (RFC 3339, suffix Z). The version row is written by the
-- program that runs this script: as 0 behind the first statement, as 9 behind the
-- last. Where DDL commits by itself a run that was cut short is thus recognised and
-- run again, so every statement can be repeated (CREATE INDEX: the program looks
-- whether the index is there).

CREATE TABLE IF NOT EXISTS schema_meta (
    id INTEGER PRIMARY KEY,
    version INTEGER NOT NULL
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;

-- Only id = 1. Every write that changes an authorisation adds 1, in its own
-- transaction, so that caches on every server can tell.
CREATE TABLE IF NOT EXISTS authorization_revision (
    id INTEGER PRIMARY KEY,
    revision BIGINT UNSIGNED NOT NULL,
    updated_at TEXT NOT NULL
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
INSERT INTO authorization_revision (id, revision, updated_at)
SELECT 1, 1, '1970-01-01T00:00:00Z' FROM (SELECT 1) one
WHERE NOT EXISTS (SELECT 1 FROM (SELECT id FROM authorization_revision WHERE id = 1) r);

CREATE TABLE IF NOT EXISTS users (
    id VARBINARY(255) PRIMARY KEY,
    username VARCHAR(191) NOT NULL UNIQUE,
    role VARCHAR(32) NOT NULL,
    password_hash VARCHAR(255) NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0,
    deleted_at VARCHAR(32),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
CREATE INDEX idx_users_role_deleted ON users (role, deleted_at, id);

CREATE TABLE IF NOT EXISTS api_tokens (
    id VARBINARY(255) PRIMARY KEY,
    user_id VARBINARY(255) NOT NULL,
    token_hash VARBINARY(255) NOT NULL UNIQUE,
    idempotency_key VARBINARY(255),
    expires_at TEXT,
    revoked_at TEXT,
    created_at TEXT NOT NULL
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
CREATE INDEX idx_api_tokens_user_id ON api_tokens (user_id);

CREATE TABLE IF NOT EXISTS service_tokens (
    id VARBINARY(255) PRIMARY KEY,
    token_type VARCHAR(32) NOT NULL,
    owner_user_id VARBINARY(255),
    agent_id VARBINARY(255),
    node_id VARBINARY(255),
    token_prefix VARBINARY(32) NOT NULL,
    token_hash VARBINARY(255) NOT NULL UNIQUE,
    scope TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT,
    last_used_at TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    secret_ciphertext TEXT,
    secret_nonce TEXT,
    secret_key_id VARCHAR(128),
    secret_version INTEGER,
    secret_last_read_at TEXT
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
CREATE INDEX idx_service_tokens_owner_type ON service_tokens (owner_user_id, token_type, id);
CREATE INDEX idx_service_tokens_agent ON service_tokens (agent_id, token_type, id);
CREATE INDEX idx_service_tokens_node ON service_tokens (node_id, token_type, id);

CREATE TABLE IF NOT EXISTS agents (
    id VARBINARY(255) PRIMARY KEY,
    name VARCHAR(255) NOT NULL,
    owner_user_id VARBINARY(255) NOT NULL,
    capabilities TEXT NOT NULL, -- JSON array
    enabled INTEGER NOT NULL DEFAULT 1,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
CREATE INDEX idx_agents_owner ON agents (owner_user_id);

CREATE TABLE IF NOT EXISTS agent_policies (
    id VARBINARY(255) PRIMARY KEY,
    agent_id VARBINARY(255) NOT NULL,
    target_host VARCHAR(255) NOT NULL,
    target_port INTEGER NOT NULL,
    protocol VARCHAR(32) NOT NULL,
    allowed_cidrs TEXT NOT NULL,
    allowed_ports TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
CREATE INDEX idx_agent_policies_agent ON agent_policies (agent_id);

CREATE TABLE IF NOT EXISTS tunnel_groups (
    id VARBINARY(255) PRIMARY KEY,
    user_id VARBINARY(255) NOT NULL,
    name VARCHAR(255) NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;

CREATE TABLE IF NOT EXISTS tunnels (
    id VARBINARY(255) PRIMARY KEY,
    group_id VARBINARY(255),
    agent_id VARBINARY(255) NOT NULL,
    protocol VARCHAR(32) NOT NULL,
    domain VARBINARY(255),
    path_prefix VARBINARY(255),
    target_host VARCHAR(255) NOT NULL,
    target_port INTEGER NOT NULL,
    public_port INTEGER,
    status VARCHAR(32) NOT NULL DEFAULT 'active',
    config TEXT NOT NULL, -- JSON object
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (domain, path_prefix)
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
CREATE INDEX idx_tunnels_agent ON tunnels (agent_id);
CREATE INDEX idx_tunnels_domain_path ON tunnels (domain, path_prefix);

CREATE TABLE IF NOT EXISTS server_nodes (
    id VARBINARY(255) PRIMARY KEY,
    name VARBINARY(255) NOT NULL,
    address VARBINARY(255) NOT NULL,
    epoch BIGINT NOT NULL DEFAULT 0,
    metadata TEXT NOT NULL,
    enabled INTEGER NOT NULL DEFAULT 1,
    deleted_at TEXT,
    last_seen_at TEXT,
    expires_at TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;

CREATE TABLE IF NOT EXISTS agent_connection_leases (
    agent_id VARBINARY(255) NOT NULL,
    connection_id VARBINARY(128) NOT NULL,
    node_id VARBINARY(255) NOT NULL,
    instance_id VARBINARY(128) NOT NULL,
    server_node_id VARBINARY(255) NOT NULL,
    epoch BIGINT NOT NULL,
    connection_epoch BIGINT NOT NULL,
    active_streams INTEGER NOT NULL DEFAULT 0,
    health_score INTEGER NOT NULL DEFAULT 100,
    acquired_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (agent_id, connection_id)
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
CREATE INDEX idx_agent_connection_leases_node ON agent_connection_leases (node_id);

CREATE TABLE IF NOT EXISTS agent_instance_metadata (
    agent_id VARBINARY(255) NOT NULL,
    instance_id VARBINARY(128) NOT NULL,
    node_id VARBINARY(255) NOT NULL,
    epoch BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    metadata TEXT NOT NULL,
    reported_at TEXT NOT NULL,
    last_seen_at TEXT NOT NULL,
    expires_at TEXT,
    stale INTEGER NOT NULL DEFAULT 0,
    updated_at VARCHAR(32) NOT NULL,
    PRIMARY KEY (agent_id, instance_id)
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
CREATE INDEX idx_agent_instance_metadata_node ON agent_instance_metadata (node_id);
CREATE INDEX idx_agent_instance_metadata_stale ON agent_instance_metadata (stale, updated_at);

CREATE TABLE IF NOT EXISTS agent_runtime_stats (
    id VARBINARY(255) PRIMARY KEY,
    agent_id VARBINARY(255) NOT NULL,
    node_id VARBINARY(255) NOT NULL,
    epoch BIGINT NOT NULL,
    window_start VARCHAR(32) NOT NULL,
    window_end VARCHAR(32) NOT NULL,
    connections BIGINT NOT NULL DEFAULT 0,
    active_streams BIGINT NOT NULL DEFAULT 0,
    bytes_in BIGINT NOT NULL DEFAULT 0,
    bytes_out BIGINT NOT NULL DEFAULT 0,
    heartbeat_total BIGINT NOT NULL DEFAULT 0,
    heartbeat_success BIGINT NOT NULL DEFAULT 0,
    heartbeat_rtt_p50_us BIGINT NOT NULL DEFAULT 0,
    heartbeat_rtt_p95_us BIGINT NOT NULL DEFAULT 0,
    reconnects BIGINT NOT NULL DEFAULT 0,
    stream_errors BIGINT NOT NULL DEFAULT 0,
    created_at VARCHAR(32) NOT NULL
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
CREATE INDEX idx_agent_runtime_stats_range ON agent_runtime_stats (agent_id, window_start, id);

CREATE TABLE IF NOT EXISTS agent_probe_results (
    probe_id VARBINARY(255) PRIMARY KEY,
    agent_id VARBINARY(255) NOT NULL,
    node_id VARBINARY(255) NOT NULL,
    epoch BIGINT NOT NULL,
    kind VARCHAR(32) NOT NULL,
    result VARCHAR(32) NOT NULL,
    error_class VARCHAR(64) NOT NULL,
    duration_us BIGINT NOT NULL DEFAULT 0,
    observed_at VARCHAR(32) NOT NULL
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
CREATE INDEX idx_agent_probe_results_range ON agent_probe_results (agent_id, observed_at, probe_id);

CREATE TABLE IF NOT EXISTS audit_logs (
    id VARBINARY(255) PRIMARY KEY,
    actor_user_id VARBINARY(255),
    action VARCHAR(255) NOT NULL,
    resource_type VARCHAR(255) NOT NULL,
    resource_id VARBINARY(255),
    details TEXT NOT NULL, -- JSON object, {} when there is nothing to say
    created_at VARCHAR(32) NOT NULL
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
CREATE INDEX idx_audit_created ON audit_logs (created_at, id);

CREATE TABLE IF NOT EXISTS idempotency_keys (
    idempotency_key VARBINARY(255) PRIMARY KEY,
    user_id VARBINARY(255),
    response TEXT NOT NULL,
    status_code INTEGER NOT NULL DEFAULT 200,
    created_at TEXT NOT NULL,
    expires_at TEXT
) /*! ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin */;
