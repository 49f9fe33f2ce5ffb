-- The chain of the audit log. Sequence counts the entries without a gap; Mac is a keyed hash of the entry and of the Mac
-- before it. Outcome: ok, failed, denied. Entries of older releases have neither number nor hash until they are sealed.

-- add column if missing: AuditLog Sequence
ALTER TABLE AuditLog ADD COLUMN Sequence BIGINT NULL;
-- add column if missing: AuditLog Outcome
ALTER TABLE AuditLog ADD COLUMN Outcome VARCHAR(20) NOT NULL DEFAULT 'ok' CHECK (length(Outcome) <= 20);
-- add column if missing: AuditLog Mac
ALTER TABLE AuditLog ADD COLUMN Mac BLOB NULL;
CREATE UNIQUE INDEX IF NOT EXISTS UQ_AuditLog_Sequence ON AuditLog (Sequence) WHERE Sequence IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_AuditLog_Unsealed ON AuditLog (Id) WHERE Sequence IS NULL;

-- The last entry of the chain: one row, which every writer of an entry locks.
CREATE TABLE IF NOT EXISTS AuditHead (
    Id INT NOT NULL CONSTRAINT PK_AuditHead PRIMARY KEY CHECK (Id = 1),
    Sequence BIGINT NOT NULL,
    Mac BLOB NULL
);
INSERT INTO AuditHead (Id, Sequence) SELECT 1, 0 WHERE NOT EXISTS (SELECT 1 FROM AuditHead);

-- What stands for entries that retention removed: which, and the Mac that the next one continues.
CREATE TABLE IF NOT EXISTS AuditStubs (
    FromSequence BIGINT NOT NULL CONSTRAINT PK_AuditStubs PRIMARY KEY,
    ToSequence BIGINT NOT NULL,
    FirstAt TEXT NOT NULL,
    LastAt TEXT NOT NULL,
    LastMac BLOB NOT NULL,
    CreatedAt TEXT NOT NULL,
    Mac BLOB NOT NULL
);

-- An entry is changed once, when it is sealed, and removed only if a stub stands for it.
DROP TRIGGER IF EXISTS TR_AuditLog_NoUpdate;
CREATE TRIGGER TR_AuditLog_NoUpdate BEFORE UPDATE ON AuditLog
WHEN OLD.Sequence IS NOT NULL OR NEW.Sequence IS NULL OR NEW.Mac IS NULL
  OR OLD.Id IS NOT NEW.Id OR OLD.OccurredAt IS NOT NEW.OccurredAt OR OLD.Actor IS NOT NEW.Actor
  OR OLD.Action IS NOT NEW.Action OR OLD.Target IS NOT NEW.Target OR OLD.ClientId IS NOT NEW.ClientId
  OR OLD.Ip IS NOT NEW.Ip OR OLD.CorrelationId IS NOT NEW.CorrelationId
  OR OLD.DetailsJson IS NOT NEW.DetailsJson OR OLD.Outcome IS NOT NEW.Outcome
BEGIN
    SELECT RAISE(ABORT, 'AuditLog is append-only');
END;
DROP TRIGGER IF EXISTS TR_AuditLog_NoDelete;
CREATE TRIGGER TR_AuditLog_NoDelete BEFORE DELETE ON AuditLog
WHEN OLD.Sequence IS NULL
  OR NOT EXISTS (SELECT 1 FROM AuditStubs WHERE OLD.Sequence BETWEEN FromSequence AND ToSequence)
BEGIN
    SELECT RAISE(ABORT, 'AuditLog is append-only');
END;
-- INSERT OR REPLACE deletes without firing the trigger above.
DROP TRIGGER IF EXISTS TR_AuditLog_NoReplace;
CREATE TRIGGER TR_AuditLog_NoReplace BEFORE INSERT ON AuditLog
WHEN EXISTS (SELECT 1 FROM AuditLog WHERE Id = NEW.Id)
  OR EXISTS (SELECT 1 FROM AuditLog WHERE Sequence = NEW.Sequence)
BEGIN
    SELECT RAISE(ABORT, 'AuditLog is append-only');
END;
