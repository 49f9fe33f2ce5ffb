-- Traces: the context in which a row was written, for the spans of what is done with it later.

-- A traceparent of W3C: 00-TRACE-SPAN-FLAGS. NULL: another program wrote the row, or an older release.
-- add column if missing: TB_TICKET_INTERFACE TraceParent
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN TraceParent VARCHAR(55) NULL CHECK (length(TraceParent) <= 55);
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX TraceParent
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN TraceParent VARCHAR(55) NULL CHECK (length(TraceParent) <= 55);
-- add column if missing: TB_TICKET_RETURN_OUTBOX TraceParent
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN TraceParent VARCHAR(55) NULL CHECK (length(TraceParent) <= 55);
-- add column if missing: WebhookDeliveries TraceParent
ALTER TABLE WebhookDeliveries ADD COLUMN TraceParent VARCHAR(55) NULL CHECK (length(TraceParent) <= 55);
-- add column if missing: ImportBatch TraceParent
ALTER TABLE ImportBatch ADD COLUMN TraceParent VARCHAR(55) NULL CHECK (length(TraceParent) <= 55);
-- add column if missing: IntegrationCalls TraceParent
ALTER TABLE IntegrationCalls ADD COLUMN TraceParent VARCHAR(55) NULL CHECK (length(TraceParent) <= 55);
-- Whether the trace of an event is recorded: the flags of its traceparent, of which trace_id and span_id are the rest.
-- add column if missing: outbox_events trace_flags
ALTER TABLE outbox_events ADD COLUMN trace_flags VARCHAR(2) NULL CHECK (length(trace_flags) <= 2);
