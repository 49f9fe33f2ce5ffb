-- Which scripts were applied, when, and what they looked like. The runner (src/store/schema.c) reads it.
-- Run by 'dataflow migrate', or by hand, in the order of the names: sqlcmd -S HOST -d REDEXV2 -b -i FILE
--
-- Every statement of these scripts looks first whether its work is done: a second run changes nothing, and where some
-- of the tables exist already, each is given what it lacks. Nothing is dropped, no column is changed.
-- Names have no schema: tables are looked for, and made, where the queries of the server look for them.

-- sqlcmd has some of these off; filtered indexes want them so.
SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

IF OBJECT_ID(N'SchemaScripts', N'U') IS NULL
CREATE TABLE SchemaScripts (
    Name VARCHAR(200) NOT NULL CONSTRAINT PK_SchemaScripts PRIMARY KEY CLUSTERED,
    Checksum CHAR(64) NOT NULL CONSTRAINT CK_SchemaScripts_Checksum CHECK (LEN(Checksum) = 64),
    AppliedAt DATETIME2 NOT NULL CONSTRAINT DF_SchemaScripts_AppliedAt DEFAULT SYSUTCDATETIME(),
    DurationMs BIGINT NOT NULL CONSTRAINT DF_SchemaScripts_DurationMs DEFAULT 0
);
GO
