-- The chain of the audit log. Sequence counts the entries without a gap; Mac is a keyed hash of the entry and of the Mac
-- before it. Outcome: ok, failed, denied. Entries of older releases have neither number nor hash until they are sealed.
ALTER TABLE AuditLog ADD COLUMN IF NOT EXISTS Sequence bigint NULL;
ALTER TABLE AuditLog ADD COLUMN IF NOT EXISTS Outcome varchar(20) NOT NULL DEFAULT 'ok';
ALTER TABLE AuditLog ADD COLUMN IF NOT EXISTS Mac bytea NULL;
CREATE UNIQUE INDEX IF NOT EXISTS UQ_AuditLog_Sequence ON AuditLog (Sequence) WHERE Sequence IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_AuditLog_Unsealed ON AuditLog (Id) WHERE Sequence IS NULL;

-- The last entry of the chain: one row, which every writer of an entry locks.
CREATE TABLE IF NOT EXISTS AuditHead (
    Id int NOT NULL CONSTRAINT PK_AuditHead PRIMARY KEY CHECK (Id = 1),
    Sequence bigint NOT NULL,
    Mac bytea NULL
);
INSERT INTO AuditHead (Id, Sequence) SELECT 1, 0 WHERE NOT EXISTS (SELECT 1 FROM AuditHead);

-- What stands for entries that retention removed: which, and the Mac that the next one continues.
CREATE TABLE IF NOT EXISTS AuditStubs (
    FromSequence bigint NOT NULL CONSTRAINT PK_AuditStubs PRIMARY KEY,
    ToSequence bigint NOT NULL,
    FirstAt timestamptz(3) NOT NULL,
    LastAt timestamptz(3) NOT NULL,
    LastMac bytea NOT NULL,
    CreatedAt timestamptz(3) NOT NULL,
    Mac bytea NOT NULL
);

-- An entry is changed once, when it is sealed, and removed only if a stub stands for it.
CREATE OR REPLACE FUNCTION FN_AuditLog_Guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.Sequence IS NULL AND NEW.Sequence IS NOT NULL AND NEW.Mac IS NOT NULL
           AND (OLD.Id, OLD.OccurredAt, OLD.Actor, OLD.Action, OLD.Target, OLD.ClientId, OLD.Ip, OLD.CorrelationId,
                OLD.DetailsJson, OLD.Outcome)
               IS NOT DISTINCT FROM
               (NEW.Id, NEW.OccurredAt, NEW.Actor, NEW.Action, NEW.Target, NEW.ClientId, NEW.Ip, NEW.CorrelationId,
                NEW.DetailsJson, NEW.Outcome) THEN
            RETURN NEW;
        END IF;
    ELSIF EXISTS (SELECT 1 FROM AuditStubs WHERE OLD.Sequence BETWEEN FromSequence AND ToSequence) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'AuditLog is append-only' USING ERRCODE = 'integrity_constraint_violation';
END;
$$;
DROP TRIGGER IF EXISTS TR_AuditLog_AppendOnly ON AuditLog;
CREATE TRIGGER TR_AuditLog_AppendOnly BEFORE UPDATE OR DELETE ON AuditLog
    FOR EACH ROW EXECUTE FUNCTION FN_AuditLog_Guard();
DROP TRIGGER IF EXISTS TR_AuditLog_NoTruncate ON AuditLog;
CREATE TRIGGER TR_AuditLog_NoTruncate BEFORE TRUNCATE ON AuditLog
    FOR EACH STATEMENT EXECUTE FUNCTION FN_AuditLog_Refuse();
