-- The record of applied schema scripts, and what the runner asks of the catalogue.

-- name: schema_recorded
-- dialect: sqlite
SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = 'SchemaScripts' COLLATE NOCASE;
-- dialect: postgres
SELECT COUNT(to_regclass('SchemaScripts'));
-- dialect: sqlserver
SELECT COUNT(OBJECT_ID(N'SchemaScripts', N'U'));

-- name: schema_objects
-- dialect: sqlite
SELECT COUNT(*) FROM sqlite_schema;
-- dialect: postgres
SELECT COUNT(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = current_schema();
-- dialect: sqlserver
SELECT COUNT(*) FROM sys.tables;

-- name: schema_script_list
SELECT Name, Checksum FROM SchemaScripts ORDER BY Name;

-- Also printed for people to run by hand, hence the database's own clock.
-- name: schema_script_record
-- dialect: sqlite
INSERT INTO SchemaScripts (Name, Checksum, AppliedAt, DurationMs)
VALUES (:name, :checksum, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), :duration_ms)
ON CONFLICT (Name) DO UPDATE
SET Checksum = excluded.Checksum, AppliedAt = excluded.AppliedAt, DurationMs = excluded.DurationMs;
-- dialect: postgres
INSERT INTO SchemaScripts (Name, Checksum, AppliedAt, DurationMs)
VALUES (:name, :checksum, CURRENT_TIMESTAMP, :duration_ms)
ON CONFLICT (Name) DO UPDATE
SET Checksum = excluded.Checksum, AppliedAt = excluded.AppliedAt, DurationMs = excluded.DurationMs;
-- dialect: sqlserver
UPDATE SchemaScripts WITH (UPDLOCK, HOLDLOCK)
SET Checksum = :checksum, AppliedAt = SYSUTCDATETIME(), DurationMs = :duration_ms
WHERE Name = CAST(:name AS VARCHAR(201));
IF @@ROWCOUNT = 0
    INSERT INTO SchemaScripts (Name, Checksum, AppliedAt, DurationMs)
    VALUES (:name, :checksum, SYSUTCDATETIME(), :duration_ms);

-- name: schema_column_exists
-- dialect: sqlite
SELECT COUNT(*) FROM pragma_table_info(:table) WHERE name = :column COLLATE NOCASE;
-- dialect: postgres
SELECT COUNT(*) FROM pg_attribute
WHERE attrelid = to_regclass(:table) AND attname = lower(:column) AND NOT attisdropped;
-- dialect: sqlserver
SELECT COUNT(*) FROM sys.columns WHERE object_id = OBJECT_ID(:table) AND name = :column;
