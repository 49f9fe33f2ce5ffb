-- Indexes for GET /admin/search, which finds a document by any of its ids.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
               AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_BusinessDocId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_BusinessDocId
        ON TB_TICKET_INTERFACE (BusinessDocId);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportBatch')
               AND name LIKE LEFT(N'IX_ImportBatch_FileName', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportBatch_FileName
        ON ImportBatch (FileName);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportBatch')
               AND name LIKE LEFT(N'IX_ImportBatch_CorrelationId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportBatch_CorrelationId
        ON ImportBatch (CorrelationId) WHERE CorrelationId IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportBatch')
               AND name LIKE LEFT(N'IX_ImportBatch_TraceId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportBatch_TraceId
        ON ImportBatch (TraceId) WHERE TraceId IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'outbox_events')
               AND name LIKE LEFT(N'IX_outbox_events_correlation_id', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_outbox_events_correlation_id
        ON outbox_events (correlation_id) WHERE correlation_id IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'outbox_events')
               AND name LIKE LEFT(N'IX_outbox_events_trace_id', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_outbox_events_trace_id
        ON outbox_events (trace_id) WHERE trace_id IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'IntegrationCalls')
               AND name LIKE LEFT(N'IX_IntegrationCalls_CorrelationId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_IntegrationCalls_CorrelationId
        ON IntegrationCalls (CorrelationId) WHERE CorrelationId IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'IntegrationCalls')
               AND name LIKE LEFT(N'IX_IntegrationCalls_TraceId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_IntegrationCalls_TraceId
        ON IntegrationCalls (TraceId) WHERE TraceId IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
               AND name LIKE LEFT(N'IX_WebhookDeliveries_CorrelationId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveries_CorrelationId
        ON WebhookDeliveries (CorrelationId) WHERE CorrelationId IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
               AND name LIKE LEFT(N'IX_WebhookDeliveries_EventId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveries_EventId
        ON WebhookDeliveries (EventId);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'Clients')
               AND name LIKE LEFT(N'IX_Clients_Name', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_Clients_Name
        ON Clients (Name);
GO
