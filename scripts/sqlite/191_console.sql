-- What operators need in the console: alerts that somebody looks after, alerts that are not sent for a while, and lists.

-- Who looks after an alert that fires: its message is not repeated. SilencedBy: the silence that kept its messages back.
-- add column if missing: Alerts AcknowledgedBy
ALTER TABLE Alerts ADD COLUMN AcknowledgedBy VARCHAR(200) NULL CHECK (length(AcknowledgedBy) <= 200);
-- add column if missing: Alerts AcknowledgedAt
ALTER TABLE Alerts ADD COLUMN AcknowledgedAt TEXT NULL;
-- add column if missing: Alerts AcknowledgedNote
ALTER TABLE Alerts ADD COLUMN AcknowledgedNote NVARCHAR(500) NULL CHECK (length(AcknowledgedNote) <= 500);
-- add column if missing: Alerts SilencedBy
ALTER TABLE Alerts ADD COLUMN SilencedBy TEXT NULL CHECK (length(SilencedBy) = 36);

-- An alert that all given members fit is recorded, and not sent, until EndsAt. ClientIdentifier may name a client that is gone.
CREATE TABLE IF NOT EXISTS AlertSilences (
    Id TEXT NOT NULL CONSTRAINT PK_AlertSilences PRIMARY KEY CHECK (length(Id) = 36),
    RuleName VARCHAR(50) NULL CHECK (length(RuleName) <= 50),
    ClientIdentifier VARCHAR(64) NULL CHECK (length(ClientIdentifier) <= 64),
    Target NVARCHAR(1000) NULL CHECK (length(Target) <= 1000),
    Reason NVARCHAR(500) NOT NULL CHECK (length(Reason) <= 500),
    CreatedBy VARCHAR(200) NOT NULL CHECK (length(CreatedBy) <= 200),
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    EndsAt TEXT NOT NULL
);

-- Events that were given up, in the order of lists. It is empty while all goes well.
CREATE INDEX IF NOT EXISTS IX_outbox_events_failed ON outbox_events (created_at, id) WHERE status = 'FAILED';
