-- Data keys: secrets, kept payloads and files are encrypted under them, and they under the master key.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- Purpose: data; index, for hashes of people's numbers; audit, for the chain of the audit log. There is one of the last two,
-- which is never replaced. MasterId: which master key wrapped it. A data key is used from ActiveAt on; RetiredAt: nothing was
-- left under it.
IF OBJECT_ID(N'DataKeys', N'U') IS NULL
CREATE TABLE DataKeys (
    Id INT NOT NULL CONSTRAINT PK_DataKeys PRIMARY KEY CLUSTERED,
    Purpose VARCHAR(20) NOT NULL,
    WrappedKey VARBINARY(MAX) NOT NULL,
    MasterId VARCHAR(200) NOT NULL,
    CreatedAt DATETIME2 NOT NULL,
    ActiveAt DATETIME2 NOT NULL,
    RetiredAt DATETIME2 NULL
);
GO
