-- No query needs this index: lists go by key, and what was not replayed has an index of its own.
DROP INDEX IF EXISTS IX_WebhookDeliveryFailures_CreatedAt;
