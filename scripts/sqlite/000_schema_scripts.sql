-- Which scripts were applied, when, and what they looked like. The runner (src/store/schema.c) reads it.

CREATE TABLE IF NOT EXISTS SchemaScripts (
    Name VARCHAR(200) NOT NULL CONSTRAINT PK_SchemaScripts PRIMARY KEY CHECK (length(Name) <= 200),
    Checksum CHAR(64) NOT NULL CHECK (length(Checksum) = 64),
    AppliedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    DurationMs BIGINT NOT NULL DEFAULT 0
);
