-- Figures that the server keeps itself (docs/series.md), by minute for a day and by hour for 90 days, and the moments that are
-- shown with them. None of it is about a person.

-- Grain: seconds, 60 or 3600. PointAt: where the minute or the hour begins. ClientId: '' is everybody together, 'other' those
-- beyond the limit. Ack100Ms and so on: acks that took no longer than that, and longer than the one before. Waiting and
-- OldestSeconds: NULL where nobody looked.
CREATE TABLE IF NOT EXISTS SeriesPoints (
    Grain INT NOT NULL,
    PointAt TEXT NOT NULL,
    ClientId VARCHAR(36) NOT NULL CHECK (length(ClientId) <= 36),
    Channel VARCHAR(50) NOT NULL CHECK (length(Channel) <= 50),
    Accepted BIGINT NOT NULL DEFAULT 0,
    Processed BIGINT NOT NULL DEFAULT 0,
    Delivered BIGINT NOT NULL DEFAULT 0,
    Failed BIGINT NOT NULL DEFAULT 0,
    Acks BIGINT NOT NULL DEFAULT 0,
    AckMs BIGINT NOT NULL DEFAULT 0,
    AckMostMs BIGINT NOT NULL DEFAULT 0,
    Ack100Ms BIGINT NOT NULL DEFAULT 0,
    Ack500Ms BIGINT NOT NULL DEFAULT 0,
    Ack1000Ms BIGINT NOT NULL DEFAULT 0,
    Ack5000Ms BIGINT NOT NULL DEFAULT 0,
    Ack30000Ms BIGINT NOT NULL DEFAULT 0,
    Ack300000Ms BIGINT NOT NULL DEFAULT 0,
    Waiting BIGINT NULL,
    OldestSeconds BIGINT NULL,
    CONSTRAINT PK_SeriesPoints PRIMARY KEY (Grain, ClientId, PointAt, Channel)
);
CREATE INDEX IF NOT EXISTS IX_SeriesPoints_PointAt ON SeriesPoints (Grain, PointAt);

-- What happened: a breaker, an alert, a replica.
CREATE TABLE IF NOT EXISTS SeriesMarks (
    Id INTEGER NOT NULL CONSTRAINT PK_SeriesMarks PRIMARY KEY AUTOINCREMENT,
    MarkedAt TEXT NOT NULL,
    Kind VARCHAR(30) NOT NULL CHECK (length(Kind) <= 30),
    Subject VARCHAR(160) NOT NULL CHECK (length(Subject) <= 160),
    Instance VARCHAR(200) NOT NULL CHECK (length(Instance) <= 200)
);
CREATE INDEX IF NOT EXISTS IX_SeriesMarks_MarkedAt ON SeriesMarks (MarkedAt, Id);

-- GET /admin/timeline: who touched a document.
CREATE INDEX IF NOT EXISTS IX_AuditLog_Target ON AuditLog (Target, Id) WHERE Target IS NOT NULL;
