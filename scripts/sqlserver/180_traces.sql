-- Traces: the context in which a row was written, for the spans of what is done with it later.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- A traceparent of W3C: 00-TRACE-SPAN-FLAGS. NULL: another program wrote the row, or an older release.
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'TraceParent') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD TraceParent VARCHAR(55) NULL;
IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'TraceParent') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD TraceParent VARCHAR(55) NULL;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'TraceParent') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD TraceParent VARCHAR(55) NULL;
IF COL_LENGTH(N'WebhookDeliveries', N'TraceParent') IS NULL
    ALTER TABLE WebhookDeliveries ADD TraceParent VARCHAR(55) NULL;
IF COL_LENGTH(N'ImportBatch', N'TraceParent') IS NULL
    ALTER TABLE ImportBatch ADD TraceParent VARCHAR(55) NULL;
IF COL_LENGTH(N'IntegrationCalls', N'TraceParent') IS NULL
    ALTER TABLE IntegrationCalls ADD TraceParent VARCHAR(55) NULL;
-- Whether the trace of an event is recorded: the flags of its traceparent, of which trace_id and span_id are the rest.
IF COL_LENGTH(N'outbox_events', N'trace_flags') IS NULL
    ALTER TABLE outbox_events ADD trace_flags VARCHAR(2) NULL;
GO
