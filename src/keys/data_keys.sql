-- Data keys, as they are stored: wrapped by the master key.

-- name: data_keys
SELECT Id, Purpose, WrappedKey, MasterId, CreatedAt, ActiveAt, RetiredAt FROM DataKeys ORDER BY Id;

-- name: data_key_insert
INSERT INTO DataKeys (Id, Purpose, WrappedKey, MasterId, CreatedAt, ActiveAt)
VALUES (:id, :purpose, :wrapped, :master, :now, :active);

-- Leaves a key alone that another process has wrapped anew meanwhile.
-- name: data_key_rewrap
UPDATE DataKeys SET WrappedKey = :wrapped, MasterId = :master WHERE Id = :id AND MasterId = CAST(:before AS VARCHAR(201));

-- The same for a key that stays under its master.
-- name: data_key_renew
UPDATE DataKeys SET WrappedKey = :wrapped WHERE Id = :id AND WrappedKey = :before;

-- name: data_key_retire
UPDATE DataKeys SET RetiredAt = :now WHERE Purpose = 'data' AND Id < :current AND RetiredAt IS NULL;
