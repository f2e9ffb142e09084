-- Schema 8 to 9 on SQLite: adds authorization_revision; touches nothing else.
-- The server runs it inside one BEGIN IMMEDIATE transaction. By hand:
--   sqlite3 -bail tunnelmesh.db ".read sqlite.sql"   (between BEGIN IMMEDIATE; and COMMIT;)

-- Stops here unless the version is exactly 8: the row breaks NOT NULL.
INSERT INTO schema_meta (id, version)
SELECT 1, NULL WHERE NOT EXISTS (SELECT 1 FROM schema_meta WHERE id = 1 AND version = 8);

CREATE TABLE IF NOT EXISTS authorization_revision (
    id INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL,
    updated_at TEXT NOT NULL
);

-- A row that a rollback left behind keeps its number, so that it never goes back.
INSERT INTO authorization_revision (id, revision, updated_at)
SELECT 1, 1, '1970-01-01T00:00:00Z'
WHERE NOT EXISTS (SELECT 1 FROM authorization_revision WHERE id = 1);

UPDATE schema_meta SET version = 9 WHERE id = 1 AND version = 8;
