-- The server's own outbox of events, in the form that the relay reads from other applications too.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- status: PENDING, PROCESSED, FAILED. Made with the columns that the relay needs; what was added follows, as do
-- defaults, of which a table made by others may have none.
IF OBJECT_ID(N'outbox_events', N'U') IS NULL
CREATE TABLE outbox_events (
    id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_outbox_events PRIMARY KEY CLUSTERED,
    event_type NVARCHAR(200) NOT NULL,
    payload NVARCHAR(MAX) NOT NULL,
    status VARCHAR(20) NOT NULL,
    attempts INT NOT NULL,
    created_at DATETIME2 NOT NULL
);
GO

-- client_id, idempotency_key and request_checksum: who posted the event, under which Idempotency-Key, with what
-- content.
IF COL_LENGTH(N'outbox_events', N'aggregate_type') IS NULL
    ALTER TABLE outbox_events ADD aggregate_type NVARCHAR(200) NULL;
IF COL_LENGTH(N'outbox_events', N'aggregate_id') IS NULL
    ALTER TABLE outbox_events ADD aggregate_id NVARCHAR(200) NULL;
IF COL_LENGTH(N'outbox_events', N'next_attempt_at') IS NULL
    ALTER TABLE outbox_events ADD next_attempt_at DATETIME2 NULL;
IF COL_LENGTH(N'outbox_events', N'processed_at') IS NULL
    ALTER TABLE outbox_events ADD processed_at DATETIME2 NULL;
IF COL_LENGTH(N'outbox_events', N'last_error') IS NULL
    ALTER TABLE outbox_events ADD last_error NVARCHAR(2000) NULL;
IF COL_LENGTH(N'outbox_events', N'correlation_id') IS NULL
    ALTER TABLE outbox_events ADD correlation_id VARCHAR(128) NULL;
IF COL_LENGTH(N'outbox_events', N'trace_id') IS NULL
    ALTER TABLE outbox_events ADD trace_id VARCHAR(32) NULL;
IF COL_LENGTH(N'outbox_events', N'span_id') IS NULL
    ALTER TABLE outbox_events ADD span_id VARCHAR(16) NULL;
IF COL_LENGTH(N'outbox_events', N'client_id') IS NULL
    ALTER TABLE outbox_events ADD client_id UNIQUEIDENTIFIER NULL;
IF COL_LENGTH(N'outbox_events', N'idempotency_key') IS NULL
    ALTER TABLE outbox_events ADD idempotency_key VARCHAR(200) NULL;
IF COL_LENGTH(N'outbox_events', N'request_checksum') IS NULL
    ALTER TABLE outbox_events ADD request_checksum CHAR(64) NULL;
GO

IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'outbox_events')
           AND name = N'status' AND default_object_id = 0)
    ALTER TABLE outbox_events ADD CONSTRAINT DF_outbox_events_status DEFAULT 'PENDING' FOR status;
IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'outbox_events')
           AND name = N'attempts' AND default_object_id = 0)
    ALTER TABLE outbox_events ADD CONSTRAINT DF_outbox_events_attempts DEFAULT 0 FOR attempts;
IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'outbox_events')
           AND name = N'created_at' AND default_object_id = 0)
    ALTER TABLE outbox_events ADD CONSTRAINT DF_outbox_events_created_at DEFAULT SYSUTCDATETIME() FOR created_at;

IF OBJECT_ID(N'CK_outbox_events_request_checksum', N'C') IS NULL
    ALTER TABLE outbox_events ADD CONSTRAINT CK_outbox_events_request_checksum CHECK (LEN(request_checksum) = 64);
GO

-- Babelfish shows of an index's name the first 31 characters and an ending of its own; SQL Server the name.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

-- Only what waits is indexed: the cost of a claim does not grow with what was processed.
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'outbox_events')
               AND name LIKE LEFT(N'IX_outbox_events_pending', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_outbox_events_pending
        ON outbox_events (created_at, id) WHERE status = 'PENDING';
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'outbox_events')
               AND name LIKE LEFT(N'IX_outbox_events_pending_aggregate', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_outbox_events_pending_aggregate
        ON outbox_events (aggregate_type, aggregate_id, created_at) WHERE status = 'PENDING';
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'outbox_events')
               AND name LIKE LEFT(N'UQ_outbox_events_client_id_idempotency_key', @shown) + @ending)
    CREATE UNIQUE NONCLUSTERED INDEX UQ_outbox_events_client_id_idempotency_key
        ON outbox_events (client_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
GO
