-- Whose documents are, under which key they are sent, and what scopes mean.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- The client that sent the document; NULL: another program wrote it, or an older version did.
IF COL_LENGTH(N'TB_COUNTERPARTIES', N'ClientId') IS NULL
    ALTER TABLE TB_COUNTERPARTIES ADD ClientId UNIQUEIDENTIFIER NULL;
-- The client whose document the ack is about.
IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'ClientId') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD ClientId UNIQUEIDENTIFIER NULL;

-- Counts the contents of a return, which a new payload of its ticket replaces.
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'PayloadVersion') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD PayloadVersion INT NOT NULL
        CONSTRAINT DF_TB_TICKET_RETURN_OUTBOX_PayloadVersion DEFAULT 1;

-- Which Idempotency-Key the content has: 0 channel and row, 1 version and hash too; NULL: none yet, or an older version tried it.
IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'KeyForm') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD KeyForm INT NULL;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'KeyForm') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD KeyForm INT NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendKeyForm') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendKeyForm INT NULL;

-- The end of the lease of a content that was on its way when it was replaced: the new one waits for it.
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'HeldUntil') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD HeldUntil DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendHeldUntil') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendHeldUntil DATETIME2 NULL;
GO

-- A return that was tried keeps its key. AttemptCount tells that to the program, but for one that a person had tried again:
-- its count begins at 0, as that of one whose content was replaced. The first payload of a ticket has replaced none.
UPDATE TB_TICKET_RETURN_OUTBOX SET KeyForm = 0
    WHERE KeyForm IS NULL AND AttemptCount = 0 AND LastAttemptAt IS NOT NULL AND Status IN ('Pending', 'Error')
      AND EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS t
                  WHERE t.BusinessEntity = TB_TICKET_RETURN_OUTBOX.BusinessEntity
                    AND t.BusinessDocId = TB_TICKET_RETURN_OUTBOX.BusinessDocId
                    AND t.PhaseCode = TB_TICKET_RETURN_OUTBOX.PhaseCode AND t.PayloadVersion = 1);

-- NULL was "all scopes", which is written out; with `interface` a client saw the documents of all, which is `interface-all` now.
-- Once only: who gets `interface` after this script was applied has that and no more.
IF NOT EXISTS (SELECT 1 FROM SchemaScripts WHERE Name = '120_tenants.sql')
BEGIN
    INSERT INTO AuditLog (Actor, Action, Target, ClientId, DetailsJson)
    SELECT N'upgrade', 'ClientScopesWidened', ClientIdentifier, Id,
           CASE WHEN Scopes IS NULL
                THEN N'{"before":"all","after":"interface,callback,imports,acks,events,integrations,interface-all"}'
                ELSE N'{"added":"interface-all"}' END
    FROM Clients
    WHERE Scopes IS NULL
       OR (CHARINDEX(N',interface,', N',' + REPLACE(Scopes, N' ', N'') + N',' COLLATE Latin1_General_BIN2) > 0
           AND CHARINDEX(N',interface-all,', N',' + REPLACE(Scopes, N' ', N'') + N',' COLLATE Latin1_General_BIN2) = 0);
    UPDATE Clients
    SET Scopes = CASE WHEN Scopes IS NULL THEN N'interface,callback,imports,acks,events,integrations,interface-all'
                      ELSE Scopes + N',interface-all' END,
        UpdatedAt = SYSUTCDATETIME()
    WHERE Scopes IS NULL
       OR (CHARINDEX(N',interface,', N',' + REPLACE(Scopes, N' ', N'') + N',' COLLATE Latin1_General_BIN2) > 0
           AND CHARINDEX(N',interface-all,', N',' + REPLACE(Scopes, N' ', N'') + N',' COLLATE Latin1_General_BIN2) = 0);
END;
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_COUNTERPARTIES')
               AND name LIKE LEFT(N'IX_TB_COUNTERPARTIES_ClientId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_COUNTERPARTIES_ClientId
        ON TB_COUNTERPARTIES (ClientId, Id);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
               AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_ClientId_CreatedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_ClientId_CreatedAt
        ON TB_TICKET_INTERFACE (ClientId, CreatedAt, Id);
GO
