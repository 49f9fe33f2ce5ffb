-- What operators need in the console: alerts that somebody looks after, alerts that are not sent for a while, and lists.

-- Who looks after an alert that fires: its message is not repeated. SilencedBy: the silence that kept its messages back.
ALTER TABLE Alerts ADD COLUMN IF NOT EXISTS AcknowledgedBy varchar(200) NULL;
ALTER TABLE Alerts ADD COLUMN IF NOT EXISTS AcknowledgedAt timestamptz(3) NULL;
ALTER TABLE Alerts ADD COLUMN IF NOT EXISTS AcknowledgedNote varchar(500) NULL;
ALTER TABLE Alerts ADD COLUMN IF NOT EXISTS SilencedBy uuid NULL;

-- An alert that all given members fit is recorded, and not sent, until EndsAt. ClientIdentifier may name a client that is gone.
CREATE TABLE IF NOT EXISTS AlertSilences (
    Id uuid NOT NULL CONSTRAINT PK_AlertSilences PRIMARY KEY,
    RuleName varchar(50) NULL,
    ClientIdentifier varchar(64) NULL,
    Target varchar(1000) NULL,
    Reason varchar(500) NOT NULL,
    CreatedBy varchar(200) NOT NULL,
    CreatedAt timestamptz(3) NOT NULL DEFAULT now(),
    EndsAt timestamptz(3) NOT NULL
);

-- Events that were given up, in the order of lists. It is empty while all goes well.
CREATE INDEX IF NOT EXISTS IX_outbox_events_failed ON outbox_events (created_at, id) WHERE status = 'FAILED';
