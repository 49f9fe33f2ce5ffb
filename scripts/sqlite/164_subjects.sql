-- The index of people: which stored document names whom, by keyed hashes.

-- Hash: the first eight bytes of the hash of a phone, a CPF or CNPJ, or an e-mail address. Place and RowKey: the kind of
-- the document and its id.
CREATE TABLE IF NOT EXISTS SubjectIndex (
    Id INTEGER NOT NULL CONSTRAINT PK_SubjectIndex PRIMARY KEY AUTOINCREMENT,
    Hash BIGINT NOT NULL,
    Place VARCHAR(20) NOT NULL CHECK (length(Place) <= 20),
    RowKey VARCHAR(64) NOT NULL CHECK (length(RowKey) <= 64)
);
CREATE INDEX IF NOT EXISTS IX_SubjectIndex_Hash ON SubjectIndex (Hash, Id);
CREATE INDEX IF NOT EXISTS IX_SubjectIndex_Place_RowKey ON SubjectIndex (Place, RowKey);

-- The items of a chunk that name somebody, written when the chunk is settled. Entries: for each of them 13 bytes, eight
-- of the hash, one for its kind, four for the item's sequence. ChunkId is NULL for items of an earlier release.
CREATE TABLE IF NOT EXISTS ImportSubjects (
    Id INTEGER NOT NULL CONSTRAINT PK_ImportSubjects PRIMARY KEY AUTOINCREMENT,
    BatchId TEXT NOT NULL CHECK (length(BatchId) = 36)
        CONSTRAINT FK_ImportSubjects_ImportBatch REFERENCES ImportBatch (Id) ON DELETE CASCADE,
    ChunkId INT NULL,
    Entries BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS IX_ImportSubjects_BatchId ON ImportSubjects (BatchId);

-- How far the rows of an earlier release have got their entries: one row for each table that is walked. Position: the last
-- key; DoneAt: when its end was reached.
CREATE TABLE IF NOT EXISTS SubjectFill (
    Source VARCHAR(20) NOT NULL CONSTRAINT PK_SubjectFill PRIMARY KEY CHECK (length(Source) <= 20),
    Position VARCHAR(64) NOT NULL CHECK (length(Position) <= 64),
    DoneAt TEXT NULL
);
