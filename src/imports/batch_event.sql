-- The content of a batch's webhook event.

-- No row: the client has no subscription.
-- name: batch_event
SELECT b.ClientId, c.ClientIdentifier, b.Status, b.TotalRecords, b.ProcessedRecords, b.ErrorCount, b.StartedAt, b.CompletedAt,
       b.ScheduledFor, b.CorrelationId, b.TraceParent
FROM ImportBatch AS b
JOIN Clients AS c ON c.Id = b.ClientId
WHERE b.Id = :id AND EXISTS (SELECT 1 FROM WebhookSubscriptions AS s WHERE s.ClientId = b.ClientId);

-- The delivery of the event sets the flag again. A later attempt has events of its own.
-- name: batch_not_told
UPDATE ImportBatch SET WebhookNotified = :told WHERE Id = :id AND WebhookNotified <> :told;
