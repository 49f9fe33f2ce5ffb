-- The mapping of columns that a client keeps for its uploads.

-- name: mapping_get
SELECT MappingJson, UpdatedAt FROM ClientMapping WHERE ClientId = :client;

-- name: mapping_change
UPDATE ClientMapping SET MappingJson = :mapping, UpdatedAt = :now WHERE ClientId = :client;

-- name: mapping_add
INSERT INTO ClientMapping (ClientId, MappingJson, UpdatedAt) VALUES (:client, :mapping, :now);

-- name: mapping_remove
DELETE FROM ClientMapping WHERE ClientId = :client;
