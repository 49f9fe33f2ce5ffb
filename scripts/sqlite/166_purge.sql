-- Purge and erasure: jobs that remove documents, the persons that were erased, and when a document was.

-- A job that removes documents. Kind: batch, client, older, subject. Target: the batch, the client, the days, or the
-- person's keyed hash in hex. Cutoff: documents after it stay. State: Running, Done, Cancelled, Failed. Phase, CursorKey
-- and GroupJson say how far it is: GroupJson has the batches in hand with their counts. Who works on it has the row until
-- LeaseUntil, under Fence; from then on others may take it.
CREATE TABLE IF NOT EXISTS PurgeJobs (
    Id TEXT NOT NULL CONSTRAINT PK_PurgeJobs PRIMARY KEY CHECK (length(Id) = 36),
    Kind VARCHAR(20) NOT NULL CHECK (length(Kind) <= 20),
    Target VARCHAR(100) NOT NULL CHECK (length(Target) <= 100),
    Cutoff TEXT NULL,
    State VARCHAR(20) NOT NULL DEFAULT 'Running' CHECK (length(State) <= 20),
    Phase INT NOT NULL DEFAULT 0,
    CursorKey VARCHAR(64) NULL CHECK (length(CursorKey) <= 64),
    GroupJson TEXT NULL,
    CountsJson TEXT NOT NULL,
    SkippedJson TEXT NOT NULL,
    CreatedBy NVARCHAR(200) NOT NULL CHECK (length(CreatedBy) <= 200),
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    UpdatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    EndedAt TEXT NULL,
    LastError NVARCHAR(2000) NULL CHECK (length(LastError) <= 2000),
    Fence BIGINT NOT NULL DEFAULT 0,
    LeaseUntil TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE INDEX IF NOT EXISTS IX_PurgeJobs_CreatedAt ON PurgeJobs (CreatedAt, Id);
CREATE INDEX IF NOT EXISTS IX_PurgeJobs_Running ON PurgeJobs (LeaseUntil, Id) WHERE EndedAt IS NULL;

-- Persons that were erased: SubjectKind 1 phone, 2 document, 3 e-mail; the keyed hash. data_dir/erasures has the same.
CREATE TABLE IF NOT EXISTS Erasures (
    Id TEXT NOT NULL CONSTRAINT PK_Erasures PRIMARY KEY CHECK (length(Id) = 36),
    SubjectKind INT NOT NULL,
    SubjectHash BLOB NOT NULL,
    ErasedAt TEXT NOT NULL,
    CreatedBy NVARCHAR(200) NOT NULL CHECK (length(CreatedBy) <= 200)
);

-- When the document's personal data were erased: {"erased":true} stands in their place.
-- add column if missing: TB_TICKET_INTERFACE ErasedAt
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN ErasedAt TEXT NULL;
-- add column if missing: TB_COUNTERPARTIES ErasedAt
ALTER TABLE TB_COUNTERPARTIES ADD COLUMN ErasedAt TEXT NULL;
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX ErasedAt
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN ErasedAt TEXT NULL;
-- add column if missing: TB_TICKET_RETURN_OUTBOX ErasedAt
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN ErasedAt TEXT NULL;
-- add column if missing: IntegrationCalls ErasedAt
ALTER TABLE IntegrationCalls ADD COLUMN ErasedAt TEXT NULL;
-- add column if missing: outbox_events erased_at
ALTER TABLE outbox_events ADD COLUMN erased_at TEXT NULL;

-- When the content came that it has: CreatedAt stays when a document comes again. NULL: with CreatedAt.
-- add column if missing: TB_TICKET_INTERFACE PayloadAt
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN PayloadAt TEXT NULL;
-- add column if missing: TB_COUNTERPARTIES PayloadAt
ALTER TABLE TB_COUNTERPARTIES ADD COLUMN PayloadAt TEXT NULL;
