-- Schema 8 to 9 on MySQL 5.6 and later: adds authorization_revision; touches nothing
-- else. DDL commits by itself there, so the version moves last and every step before
-- it can be repeated: a run that was cut short is simply run again.

-- Stops here unless the version is exactly 8: the row breaks NOT NULL, or, without
-- strict mode, the primary key.
INSERT INTO schema_meta (id, version)
SELECT 1, NULL FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM (SELECT version FROM schema_meta WHERE id = 1) m WHERE m.version = 8);

CREATE TABLE IF NOT EXISTS authorization_revision (
    id INTEGER PRIMARY KEY,
    revision BIGINT UNSIGNED NOT NULL,
    updated_at TEXT NOT NULL
);

-- A row that a rollback left behind keeps its number, so that it never goes back.
INSERT INTO authorization_revision (id, revision, updated_at)
SELECT 1, 1, '1970-01-01T00:00:00Z' FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM (SELECT id FROM authorization_revision WHERE id = 1) r);

UPDATE schema_meta SET version = 9 WHERE id = 1 AND version = 8;
