-- Indexes for GET /admin/search, which finds a document by any of its ids.
-- File names and names of clients are found by their beginning, which takes an index in the order of bytes.

CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_BusinessDocId
    ON TB_TICKET_INTERFACE (BusinessDocId);
CREATE INDEX IF NOT EXISTS IX_ImportBatch_FileName
    ON ImportBatch (FileName COLLATE "C");
CREATE INDEX IF NOT EXISTS IX_ImportBatch_CorrelationId
    ON ImportBatch (CorrelationId) WHERE CorrelationId IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_ImportBatch_TraceId
    ON ImportBatch (TraceId) WHERE TraceId IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_outbox_events_correlation_id
    ON outbox_events (correlation_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_outbox_events_trace_id
    ON outbox_events (trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_CorrelationId
    ON IntegrationCalls (CorrelationId) WHERE CorrelationId IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_TraceId
    ON IntegrationCalls (TraceId) WHERE TraceId IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveries_CorrelationId
    ON WebhookDeliveries (CorrelationId) WHERE CorrelationId IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveries_EventId
    ON WebhookDeliveries (EventId);
CREATE INDEX IF NOT EXISTS IX_Clients_Name
    ON Clients (Name COLLATE "C");
