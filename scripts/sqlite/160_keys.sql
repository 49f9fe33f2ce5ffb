-- Data keys: secrets, kept payloads and files are encrypted under them, and they under the master key.

-- Purpose: data; index, for hashes of people's numbers; audit, for the chain of the audit log. There is one of the last two,
-- which is never replaced. MasterId: which master key wrapped it. A data key is used from ActiveAt on; RetiredAt: nothing was
-- left under it.
CREATE TABLE IF NOT EXISTS DataKeys (
    Id INT NOT NULL CONSTRAINT PK_DataKeys PRIMARY KEY,
    Purpose VARCHAR(20) NOT NULL CHECK (length(Purpose) <= 20),
    WrappedKey BLOB NOT NULL,
    MasterId VARCHAR(200) NOT NULL CHECK (length(MasterId) <= 200),
    CreatedAt TEXT NOT NULL,
    ActiveAt TEXT NOT NULL,
    RetiredAt TEXT NULL
);
