-- Batches that became ready, on their way to the broker that tells workers (imports.queue), in the form that the relay
-- reads. A row is a hint: what is lost, repeated or late changes nothing. aggregate_id is the batch; reason says what made
-- it ready.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

IF OBJECT_ID(N'batch_ready_outbox', N'U') IS NULL
CREATE TABLE batch_ready_outbox (
    id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_batch_ready_outbox PRIMARY KEY CLUSTERED,
    event_type VARCHAR(20) NOT NULL CONSTRAINT DF_batch_ready_outbox_event_type DEFAULT 'BatchReady',
    aggregate_id VARCHAR(36) NOT NULL,
    reason VARCHAR(20) NOT NULL,
    status VARCHAR(20) NOT NULL CONSTRAINT DF_batch_ready_outbox_status DEFAULT 'PENDING',
    attempts INT NOT NULL CONSTRAINT DF_batch_ready_outbox_attempts DEFAULT 0,
    created_at DATETIME2 NOT NULL CONSTRAINT DF_batch_ready_outbox_created_at DEFAULT SYSUTCDATETIME(),
    next_attempt_at DATETIME2 NULL,
    processed_at DATETIME2 NULL,
    last_error NVARCHAR(2000) NULL
);
GO

-- Babelfish shows of an index's name the first 31 characters and an ending of its own; SQL Server the name.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'batch_ready_outbox')
               AND name LIKE LEFT(N'IX_batch_ready_outbox_pending', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_batch_ready_outbox_pending
        ON batch_ready_outbox (created_at, id) WHERE status = 'PENDING';
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'batch_ready_outbox')
               AND name LIKE LEFT(N'IX_batch_ready_outbox_created_at', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_batch_ready_outbox_created_at ON batch_ready_outbox (created_at);
GO
