-- How much is under which data key.

-- The first bytes of a ciphertext name its key; NULL: a secret in clear text, of an older release.
-- name: key_use_secrets
SELECT s.Head, COUNT(*) AS Uses
FROM (SELECT SUBSTRING(SecretEncrypted, 1, 5) AS Head FROM WebhookSubscriptions
      UNION ALL
      SELECT SUBSTRING(PreviousSecretEncrypted, 1, 5) AS Head FROM WebhookSubscriptions
      WHERE PreviousSecretEncrypted IS NOT NULL OR PreviousSecret IS NOT NULL
      UNION ALL
      SELECT SUBSTRING(NextSecretEncrypted, 1, 5) AS Head FROM WebhookSubscriptions
      WHERE NextSecretEncrypted IS NOT NULL) AS s
GROUP BY s.Head;

-- name: key_use_payloads
SELECT KeyId, COUNT(*) AS Uses FROM ImportKept GROUP BY KeyId;

-- Other marks that keys leave: the audit log's chain, and the keyed hashes of who was erased.
-- name: key_use_marks
SELECT (SELECT COUNT(*) FROM AuditHead WHERE Mac IS NOT NULL) + (SELECT COUNT(*) FROM Erasures) AS Marks;
