-- Imports: rules of cutting, runs of empty records, turns of clients, limits of records, acks that are early.

-- CutRules: by which rules the file is cut into chunks; NULL or 1: every empty record is an item. Set before the first chunk is
-- cut, never changed after it. GaveWayAt: it waits for its next turn since then. TurnAt: when its last turn began.
-- add column if missing: ImportBatch CutRules
ALTER TABLE ImportBatch ADD COLUMN CutRules INT NULL;
-- add column if missing: ImportBatch GaveWayAt
ALTER TABLE ImportBatch ADD COLUMN GaveWayAt TEXT NULL;
-- add column if missing: ImportBatch TurnAt
ALTER TABLE ImportBatch ADD COLUMN TurnAt TEXT NULL;
-- How many records of the file the item stands for, a run of empty ones; NULL: one.
-- add column if missing: ImportItem RecordCount
ALTER TABLE ImportItem ADD COLUMN RecordCount INT NULL;
-- Items of one batch; NULL: imports.max_records.
-- add column if missing: ClientPolicies MaxRecords
ALTER TABLE ClientPolicies ADD COLUMN MaxRecords INT NULL;

-- When a batch of the client was last taken up: whose turn was longest ago is next. No foreign key: a row left over is harmless.
CREATE TABLE IF NOT EXISTS ImportTurn (
    ClientId TEXT NOT NULL CONSTRAINT PK_ImportTurn PRIMARY KEY CHECK (length(ClientId) = 36),
    TurnAt TEXT NOT NULL
);

-- Acks that came before the answer that names their id was stored. One counts when that answer names it, the others never do.
-- AckIdHash: SHA-256 of the ackId, hex. Gone when the batch is over.
CREATE TABLE IF NOT EXISTS ImportEarlyAck (
    Id INTEGER NOT NULL CONSTRAINT PK_ImportEarlyAck PRIMARY KEY AUTOINCREMENT,
    BatchId TEXT NOT NULL
        CONSTRAINT FK_ImportEarlyAck_ImportBatch REFERENCES ImportBatch (Id) ON DELETE CASCADE,
    ChunkId INT NOT NULL,
    AckIdHash CHAR(64) NOT NULL CHECK (length(AckIdHash) = 64),
    AckJson TEXT NOT NULL,
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE UNIQUE INDEX IF NOT EXISTS UQ_ImportEarlyAck_BatchId_ChunkId_AckIdHash
    ON ImportEarlyAck (BatchId, ChunkId, AckIdHash);
