-- The chain of the audit log. Sequence counts the entries without a gap; Mac is a keyed hash of the entry and of the Mac
-- before it. Outcome: ok, failed, denied. Entries of older releases have neither number nor hash until they are sealed.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

IF COL_LENGTH(N'AuditLog', N'Sequence') IS NULL
    ALTER TABLE AuditLog ADD Sequence BIGINT NULL;
IF COL_LENGTH(N'AuditLog', N'Outcome') IS NULL
    ALTER TABLE AuditLog ADD Outcome VARCHAR(20) NOT NULL CONSTRAINT DF_AuditLog_Outcome DEFAULT 'ok';
IF COL_LENGTH(N'AuditLog', N'Mac') IS NULL
    ALTER TABLE AuditLog ADD Mac VARBINARY(MAX) NULL;
GO

DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AuditLog')
               AND name LIKE LEFT(N'UQ_AuditLog_Sequence', @shown) + @ending)
    CREATE UNIQUE NONCLUSTERED INDEX UQ_AuditLog_Sequence ON AuditLog (Sequence) WHERE Sequence IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AuditLog')
               AND name LIKE LEFT(N'IX_AuditLog_Unsealed', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_AuditLog_Unsealed ON AuditLog (Id) WHERE Sequence IS NULL;
GO

-- The last entry of the chain: one row, which every writer of an entry locks.
IF OBJECT_ID(N'AuditHead', N'U') IS NULL
CREATE TABLE AuditHead (
    Id INT NOT NULL CONSTRAINT PK_AuditHead PRIMARY KEY CLUSTERED CONSTRAINT CK_AuditHead_Id CHECK (Id = 1),
    Sequence BIGINT NOT NULL,
    Mac VARBINARY(MAX) NULL
);
GO

IF NOT EXISTS (SELECT 1 FROM AuditHead)
    INSERT INTO AuditHead (Id, Sequence) VALUES (1, 0);
GO

-- What stands for entries that retention removed: which, and the Mac that the next one continues.
IF OBJECT_ID(N'AuditStubs', N'U') IS NULL
CREATE TABLE AuditStubs (
    FromSequence BIGINT NOT NULL CONSTRAINT PK_AuditStubs PRIMARY KEY CLUSTERED,
    ToSequence BIGINT NOT NULL,
    FirstAt DATETIME2 NOT NULL,
    LastAt DATETIME2 NOT NULL,
    LastMac VARBINARY(MAX) NOT NULL,
    CreatedAt DATETIME2 NOT NULL,
    Mac VARBINARY(MAX) NOT NULL
);
GO

-- An entry is changed once, when it is sealed, and removed only if a stub stands for it. The trigger makes the change
-- itself; RAISERROR and not THROW, which would end the caller's whole transaction. TRUNCATE fires no trigger, but needs the
-- right to ALTER the table, as disabling the trigger does.
IF OBJECT_ID(N'TR_AuditLog_AppendOnly', N'TR') IS NOT NULL
    DROP TRIGGER TR_AuditLog_AppendOnly;
GO

IF OBJECT_ID(N'TR_AuditLog_Guard', N'TR') IS NULL
    EXEC(N'CREATE TRIGGER TR_AuditLog_Guard ON AuditLog INSTEAD OF UPDATE, DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
    BEGIN
        IF NOT EXISTS (
            SELECT 1 FROM inserted AS i LEFT JOIN deleted AS d ON d.Id = i.Id
            WHERE d.Id IS NULL OR d.Sequence IS NOT NULL OR i.Sequence IS NULL OR i.Mac IS NULL
               OR EXISTS (SELECT d.OccurredAt, d.Actor, d.Action, d.Target, d.ClientId, d.Ip, d.CorrelationId,
                                 d.DetailsJson, d.Outcome
                          EXCEPT
                          SELECT i.OccurredAt, i.Actor, i.Action, i.Target, i.ClientId, i.Ip, i.CorrelationId,
                                 i.DetailsJson, i.Outcome))
            UPDATE AuditLog SET Sequence = i.Sequence, Mac = i.Mac FROM inserted AS i WHERE i.Id = AuditLog.Id;
        ELSE
            RAISERROR(N''AuditLog is append-only'', 16, 1);
    END
    ELSE IF EXISTS (SELECT 1 FROM deleted)
    BEGIN
        IF NOT EXISTS (
            SELECT 1 FROM deleted AS d
            WHERE d.Sequence IS NULL
               OR NOT EXISTS (SELECT 1 FROM AuditStubs AS s WHERE d.Sequence BETWEEN s.FromSequence AND s.ToSequence))
            DELETE FROM AuditLog WHERE Id IN (SELECT d.Id FROM deleted AS d);
        ELSE
            RAISERROR(N''AuditLog is append-only'', 16, 1);
    END
END;');
GO
