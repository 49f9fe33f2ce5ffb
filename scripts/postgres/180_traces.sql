-- Traces: the context in which a row was written, for the spans of what is done with it later.

-- A traceparent of W3C: 00-TRACE-SPAN-FLAGS. NULL: another program wrote the row, or an older release.
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS TraceParent varchar(55) NULL;
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN IF NOT EXISTS TraceParent varchar(55) NULL;
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN IF NOT EXISTS TraceParent varchar(55) NULL;
ALTER TABLE WebhookDeliveries ADD COLUMN IF NOT EXISTS TraceParent varchar(55) NULL;
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS TraceParent varchar(55) NULL;
ALTER TABLE IntegrationCalls ADD COLUMN IF NOT EXISTS TraceParent varchar(55) NULL;
-- Whether the trace of an event is recorded: the flags of its traceparent, of which trace_id and span_id are the rest.
ALTER TABLE outbox_events ADD COLUMN IF NOT EXISTS trace_flags varchar(2) NULL;
