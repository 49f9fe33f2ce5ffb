-- Which scripts were applied, when, and what they looked like. The runner (src/store/schema.c) reads it.

CREATE TABLE IF NOT EXISTS SchemaScripts (
    Name varchar(200) NOT NULL CONSTRAINT PK_SchemaScripts PRIMARY KEY,
    Checksum char(64) NOT NULL CHECK (length(Checksum) = 64),
    AppliedAt timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    DurationMs bigint NOT NULL DEFAULT 0
);
