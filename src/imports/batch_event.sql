-- What a webhook event says of a batch.

-- No row: the client has no subscription at all.
-- name: batch_event
SELECT b.ClientId, c.ClientIdentifier, b.Status, b.TotalRecords, b.ProcessedRecords, b.ErrorCount, b.StartedAt, b.CompletedAt,
       b.ScheduledFor, b.CorrelationId
FROM ImportBatch AS b
JOIN Clients AS c ON c.Id = b.ClientId
WHERE b.Id = :id AND EXISTS (SELECT 1 FROM WebhookSubscriptions AS s WHERE s.ClientId = b.ClientId);

-- A later attempt has an end of its own.
-- name: batch_not_told
UPDATE ImportBatch SET WebhookNotified = :told WHERE Id = :id AND WebhookNotified <> :told;
