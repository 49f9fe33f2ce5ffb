-- Data keys: secrets, kept payloads and files are encrypted under them, and they under the master key.

-- Purpose: data; index, for hashes of people's numbers; audit, for the chain of the audit log. There is one of the last two,
-- which is never replaced. MasterId: which master key wrapped it. A data key is used from ActiveAt on; RetiredAt: nothing was
-- left under it.
CREATE TABLE IF NOT EXISTS DataKeys (
    Id int NOT NULL CONSTRAINT PK_DataKeys PRIMARY KEY,
    Purpose varchar(20) NOT NULL,
    WrappedKey bytea NOT NULL,
    MasterId varchar(200) NOT NULL,
    CreatedAt timestamptz(3) NOT NULL,
    ActiveAt timestamptz(3) NOT NULL,
    RetiredAt timestamptz(3) NULL
);
