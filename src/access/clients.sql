-- Clients: who may call, with which secret and which scopes.
--
-- The CAST is for SQL Server, where parameters are NVARCHAR and the column is not, so that its index would not be used.
-- It has one character more than the column: a CAST truncates, and a truncated value could match the wrong row.

-- name: client_insert
INSERT INTO Clients (Id, Name, ClientIdentifier, SecretHash, SecretSalt, SecretAlgorithm, Status,
                     Scopes, CreatedAt, UpdatedAt)
VALUES (:id, :name, :identifier, :hash, :salt, :algorithm, :status, :scopes, :now, :now);

-- With the limit on requests, which every authenticated request needs.
-- name: client_get
-- row: client, …
SELECT c.Id, c.Name, c.ClientIdentifier, c.Status, c.Scopes, c.CreatedAt, c.LastSeenAt,
       c.SecretHash, c.SecretSalt, c.PreviousSecretHash, c.PreviousSecretSalt, c.PreviousSecretExpiresAt,
       p.RequestsPerMinute
FROM Clients c
LEFT JOIN ClientPolicies p ON p.ClientId = c.Id
WHERE c.ClientIdentifier = CAST(:identifier AS VARCHAR(65));

-- name: client_list
-- row: client
SELECT Id, Name, ClientIdentifier, Status, Scopes, CreatedAt, LastSeenAt
FROM Clients
WHERE Id IN EACH_UUID(:ids)
ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN CreatedAt END, CASE WHEN CAST(:oldest AS INT) = 1 THEN Id END,
         CreatedAt DESC, Id DESC;

-- name: client_keys
-- row: list_key
SELECT c.Id, c.CreatedAt
FROM Clients AS c
WHERE c.CreatedAt {<}= :after_at AND (c.CreatedAt {<} :after_at OR c.Id {<} :after_id)
ORDER BY c.CreatedAt {DESC}, c.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT c.Id, c.CreatedAt
FROM Clients AS c
WHERE c.CreatedAt {<}= :after_at AND (c.CreatedAt {<} :after_at OR c.Id {<} :after_id)
ORDER BY c.CreatedAt {DESC}, c.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: client_set_status
UPDATE Clients SET Status = :status, UpdatedAt = :now WHERE ClientIdentifier = CAST(:identifier AS VARCHAR(65));

-- name: client_set_scopes
UPDATE Clients SET Scopes = :scopes, UpdatedAt = :now WHERE ClientIdentifier = CAST(:identifier AS VARCHAR(65));

-- The current secret becomes the previous one and is valid until :previous_until; NULL: not at all.
-- name: client_rotate
UPDATE Clients
SET PreviousSecretHash = SecretHash, PreviousSecretSalt = SecretSalt,
    PreviousSecretAlgorithm = SecretAlgorithm,
    PreviousSecretExpiresAt = :previous_until,
    SecretHash = :hash, SecretSalt = :salt, SecretAlgorithm = :algorithm, SecretChangedAt = :now,
    UpdatedAt = :now
WHERE ClientIdentifier = CAST(:identifier AS VARCHAR(65));

-- Not UpdatedAt: being seen changes nothing about the client.
-- name: client_seen
UPDATE Clients SET LastSeenAt = :seen_at WHERE Id = :id;

-- The clients to which an upgrade has given more scopes (script 120), with the scopes that they have now.
-- name: client_widened
SELECT c.ClientIdentifier, c.Scopes
FROM AuditLog AS a
JOIN Clients AS c ON c.Id = a.ClientId
WHERE a.OccurredAt >= :since AND a.Action = 'ClientScopesWidened'
ORDER BY c.ClientIdentifier;
