-- Whose documents are, under which key they are sent, and what scopes mean.

-- The client that sent the document; NULL: another program wrote it, or an older version did.
-- add column if missing: TB_COUNTERPARTIES ClientId
ALTER TABLE TB_COUNTERPARTIES ADD COLUMN ClientId TEXT NULL CHECK (length(ClientId) = 36);
-- The client whose document the ack is about.
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX ClientId
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN ClientId TEXT NULL CHECK (length(ClientId) = 36);

-- Counts the contents of a return, which a new payload of its ticket replaces.
-- add column if missing: TB_TICKET_RETURN_OUTBOX PayloadVersion
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN PayloadVersion INT NOT NULL DEFAULT 1;

-- Which Idempotency-Key the content has: 0 channel and row, 1 version and hash too; NULL: none yet, or an older version tried it.
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX KeyForm
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN KeyForm INT NULL;
-- add column if missing: TB_TICKET_RETURN_OUTBOX KeyForm
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN KeyForm INT NULL;
-- add column if missing: TB_TICKET_INTERFACE GatewaySendKeyForm
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendKeyForm INT NULL;

-- The end of the lease of a content that was on its way when it was replaced: the new one waits for it.
-- add column if missing: TB_TICKET_RETURN_OUTBOX HeldUntil
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN HeldUntil TEXT NULL;
-- add column if missing: TB_TICKET_INTERFACE GatewaySendHeldUntil
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendHeldUntil TEXT NULL;

-- A return that was tried keeps its key. AttemptCount tells that to the program, but for one that a person had tried again:
-- its count begins at 0, as that of one whose content was replaced. The first payload of a ticket has replaced none.
UPDATE TB_TICKET_RETURN_OUTBOX SET KeyForm = 0
    WHERE KeyForm IS NULL AND AttemptCount = 0 AND LastAttemptAt IS NOT NULL AND Status IN ('Pending', 'Error')
      AND EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS t
                  WHERE t.BusinessEntity = TB_TICKET_RETURN_OUTBOX.BusinessEntity
                    AND t.BusinessDocId = TB_TICKET_RETURN_OUTBOX.BusinessDocId
                    AND t.PhaseCode = TB_TICKET_RETURN_OUTBOX.PhaseCode AND t.PayloadVersion = 1);

CREATE INDEX IF NOT EXISTS IX_TB_COUNTERPARTIES_ClientId ON TB_COUNTERPARTIES (ClientId, Id);
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_ClientId_CreatedAt
    ON TB_TICKET_INTERFACE (ClientId, CreatedAt, Id);

-- NULL was "all scopes", which is written out; with `interface` a client saw the documents of all, which is `interface-all` now.
-- Once only: who gets `interface` after this script was applied has that and no more.
INSERT INTO AuditLog (Actor, Action, Target, ClientId, DetailsJson)
SELECT 'upgrade', 'ClientScopesWidened', ClientIdentifier, Id,
       CASE WHEN Scopes IS NULL
            THEN '{"before":"all","after":"interface,callback,imports,acks,events,integrations,interface-all"}'
            ELSE '{"added":"interface-all"}' END
FROM Clients
WHERE (Scopes IS NULL OR (instr(',' || replace(Scopes, ' ', '') || ',', ',interface,') > 0
                          AND instr(',' || replace(Scopes, ' ', '') || ',', ',interface-all,') = 0))
  AND NOT EXISTS (SELECT 1 FROM SchemaScripts WHERE Name = '120_tenants.sql');
UPDATE Clients
SET Scopes = CASE WHEN Scopes IS NULL THEN 'interface,callback,imports,acks,events,integrations,interface-all'
                  ELSE Scopes || ',interface-all' END,
    UpdatedAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE (Scopes IS NULL OR (instr(',' || replace(Scopes, ' ', '') || ',', ',interface,') > 0
                          AND instr(',' || replace(Scopes, ' ', '') || ',', ',interface-all,') = 0))
  AND NOT EXISTS (SELECT 1 FROM SchemaScripts WHERE Name = '120_tenants.sql');
