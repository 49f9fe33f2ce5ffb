-- Purge and erasure: jobs that remove documents, the persons that were erased, and when a document was.

-- A job that removes documents. Kind: batch, client, older, subject. Target: the batch, the client, the days, or the
-- person's keyed hash in hex. Cutoff: documents after it stay. State: Running, Done, Cancelled, Failed. Phase, CursorKey
-- and GroupJson say how far it is: GroupJson has the batches in hand with their counts. Who works on it has the row until
-- LeaseUntil, under Fence; from then on others may take it.
CREATE TABLE IF NOT EXISTS PurgeJobs (
    Id uuid NOT NULL CONSTRAINT PK_PurgeJobs PRIMARY KEY,
    Kind varchar(20) NOT NULL,
    Target varchar(100) NOT NULL,
    Cutoff timestamptz(3) NULL,
    State varchar(20) NOT NULL DEFAULT 'Running',
    Phase int NOT NULL DEFAULT 0,
    CursorKey varchar(64) NULL,
    GroupJson text NULL,
    CountsJson text NOT NULL,
    SkippedJson text NOT NULL,
    CreatedBy varchar(200) NOT NULL,
    CreatedAt timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    UpdatedAt timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    EndedAt timestamptz(3) NULL,
    LastError varchar(2000) NULL,
    Fence bigint NOT NULL DEFAULT 0,
    LeaseUntil timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX IF NOT EXISTS IX_PurgeJobs_CreatedAt ON PurgeJobs (CreatedAt, Id);
CREATE INDEX IF NOT EXISTS IX_PurgeJobs_Running ON PurgeJobs (LeaseUntil, Id) WHERE EndedAt IS NULL;

-- Persons that were erased: SubjectKind 1 phone, 2 document, 3 e-mail; the keyed hash. data_dir/erasures has the same.
CREATE TABLE IF NOT EXISTS Erasures (
    Id uuid NOT NULL CONSTRAINT PK_Erasures PRIMARY KEY,
    SubjectKind int NOT NULL,
    SubjectHash bytea NOT NULL,
    ErasedAt timestamptz(3) NOT NULL,
    CreatedBy varchar(200) NOT NULL
);

-- When the document's personal data were erased: {"erased":true} stands in their place.
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS ErasedAt timestamptz(3) NULL;
ALTER TABLE TB_COUNTERPARTIES ADD COLUMN IF NOT EXISTS ErasedAt timestamptz(3) NULL;
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN IF NOT EXISTS ErasedAt timestamptz(3) NULL;
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN IF NOT EXISTS ErasedAt timestamptz(3) NULL;
ALTER TABLE IntegrationCalls ADD COLUMN IF NOT EXISTS ErasedAt timestamptz(3) NULL;
ALTER TABLE outbox_events ADD COLUMN IF NOT EXISTS erased_at timestamptz(3) NULL;

-- When the content came that it has: CreatedAt stays when a document comes again. NULL: with CreatedAt.
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS PayloadAt timestamptz(3) NULL;
ALTER TABLE TB_COUNTERPARTIES ADD COLUMN IF NOT EXISTS PayloadAt timestamptz(3) NULL;
