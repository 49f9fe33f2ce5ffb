-- Import batches, their records and chunks, and the lock of the batch in work.

-- Status: 0 Pending, 1 Processing, 2 Scheduled, 3 Completed, 4 CompletedWithErrors, 5 Failed, 6 Cancelled.
-- FileType: 0 JSON, 1 Excel, 2 CSV. A client with batches cannot be deleted: they have files, purge them first.
CREATE TABLE IF NOT EXISTS ImportBatch (
    Id TEXT NOT NULL CONSTRAINT PK_ImportBatch PRIMARY KEY CHECK (length(Id) = 36),
    ClientId TEXT NOT NULL CONSTRAINT FK_ImportBatch_Clients REFERENCES Clients (Id),
    Status TINYINT NOT NULL DEFAULT 0 CHECK (Status BETWEEN 0 AND 6),
    FileName NVARCHAR(260) NOT NULL CHECK (length(FileName) <= 260),
    FileType TINYINT NOT NULL CHECK (FileType BETWEEN 0 AND 2),
    FileSizeBytes BIGINT NOT NULL DEFAULT 0,
    Checksum CHAR(64) NULL CHECK (length(Checksum) = 64),
    UploadPath NVARCHAR(400) NULL CHECK (length(UploadPath) <= 400),
    PolicyDecision NVARCHAR(100) NULL CHECK (length(PolicyDecision) <= 100),
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    StartedAt TEXT NULL,
    CompletedAt TEXT NULL,
    TotalRecords INT NULL,
    ProcessedRecords INT NOT NULL DEFAULT 0,
    ErrorSummary TEXT NULL,
    ProcessingHost NVARCHAR(200) NULL CHECK (length(ProcessingHost) <= 200),
    ScheduledFor TEXT NULL,
    OriginDefault NVARCHAR(200) NULL CHECK (length(OriginDefault) <= 200),
    RequestedBy NVARCHAR(200) NULL CHECK (length(RequestedBy) <= 200),
    MetadataJson TEXT NULL,
    Sheet NVARCHAR(100) NULL CHECK (length(Sheet) <= 100),
    ErrorCount INT NOT NULL DEFAULT 0,
    SkippedCount INT NOT NULL DEFAULT 0,
    LastError NVARCHAR(2000) NULL CHECK (length(LastError) <= 2000),
    WebhookNotified BIT NOT NULL DEFAULT 0 CHECK (WebhookNotified IN (0, 1)),
    FencingToken BIGINT NOT NULL DEFAULT 0,
    LockedAt TEXT NULL,
    IdempotencyKey VARCHAR(200) NULL CHECK (length(IdempotencyKey) <= 200),
    RequestChecksum CHAR(64) NULL CHECK (length(RequestChecksum) = 64),
    CorrelationId VARCHAR(128) NULL CHECK (length(CorrelationId) <= 128),
    TraceId VARCHAR(32) NULL CHECK (length(TraceId) <= 32),
    UpdatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE INDEX IF NOT EXISTS IX_ImportBatch_ClientId_CreatedAt ON ImportBatch (ClientId, CreatedAt);
CREATE INDEX IF NOT EXISTS IX_ImportBatch_Status_CreatedAt ON ImportBatch (Status, CreatedAt);
CREATE UNIQUE INDEX IF NOT EXISTS UQ_ImportBatch_ClientId_IdempotencyKey
    ON ImportBatch (ClientId, IdempotencyKey) WHERE IdempotencyKey IS NOT NULL;

-- Status: 0 Imported, 1 Error, 2 Skipped. One row for each record of the file, written when its chunk is settled.
-- After masking PayloadJson no longer holds the record, IsMasked is 1, and PayloadHash still identifies it.
CREATE TABLE IF NOT EXISTS ImportItem (
    Id INTEGER NOT NULL CONSTRAINT PK_ImportItem PRIMARY KEY AUTOINCREMENT,
    BatchId TEXT NOT NULL
        CONSTRAINT FK_ImportItem_ImportBatch REFERENCES ImportBatch (Id) ON DELETE CASCADE,
    Sequence INT NOT NULL,
    PayloadJson TEXT NULL,
    Status TINYINT NOT NULL CHECK (Status BETWEEN 0 AND 2),
    ErrorMessage NVARCHAR(1000) NULL CHECK (length(ErrorMessage) <= 1000),
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    ChunkId INT NULL,
    PayloadHash CHAR(64) NULL CHECK (length(PayloadHash) = 64),
    IsMasked BIT NOT NULL DEFAULT 0 CHECK (IsMasked IN (0, 1))
);
CREATE UNIQUE INDEX IF NOT EXISTS UQ_ImportItem_BatchId_Sequence ON ImportItem (BatchId, Sequence);
CREATE INDEX IF NOT EXISTS IX_ImportItem_BatchId_Errors ON ImportItem (BatchId, Sequence) WHERE Status = 1;

-- Status: 0 Pending, 1 Sending, 2 AwaitingAck, 3 Imported, 4 Error, 5 Skipped (no record in it was fit to be sent).
-- The last three are settled: such a chunk is never sent again.
CREATE TABLE IF NOT EXISTS ImportChunk (
    Id INTEGER NOT NULL CONSTRAINT PK_ImportChunk PRIMARY KEY AUTOINCREMENT,
    BatchId TEXT NOT NULL
        CONSTRAINT FK_ImportChunk_ImportBatch REFERENCES ImportBatch (Id) ON DELETE CASCADE,
    ChunkId INT NOT NULL,
    RecordOffset INT NOT NULL,
    RecordCount INT NOT NULL,
    ContentHash CHAR(64) NOT NULL CHECK (length(ContentHash) = 64),
    Status TINYINT NOT NULL DEFAULT 0 CHECK (Status BETWEEN 0 AND 5),
    Attempts INT NOT NULL DEFAULT 0,
    AckId NVARCHAR(200) NULL CHECK (length(AckId) <= 200),
    SentAt TEXT NULL,
    AckedAt TEXT NULL,
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    UpdatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    ErrorMessage NVARCHAR(2000) NULL CHECK (length(ErrorMessage) <= 2000)
);
CREATE UNIQUE INDEX IF NOT EXISTS UQ_ImportChunk_BatchId_ChunkId ON ImportChunk (BatchId, ChunkId);

-- Row 1 is the lock of the whole installation. FencingToken grows with every owner.
CREATE TABLE IF NOT EXISTS BatchLocks (
    Id INT NOT NULL CONSTRAINT PK_BatchLocks PRIMARY KEY,
    IsLocked BIT NOT NULL DEFAULT 0 CHECK (IsLocked IN (0, 1)),
    LockOwnerBatchId TEXT NULL CHECK (length(LockOwnerBatchId) = 36),
    LockedAt TEXT NULL,
    FencingToken BIGINT NOT NULL DEFAULT 0
);
INSERT INTO BatchLocks (Id) VALUES (1) ON CONFLICT (Id) DO NOTHING;
