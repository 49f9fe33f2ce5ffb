-- The index of people: SubjectIndex, and ImportSubjects for the items of imports.

-- name: subject_insert
INSERT INTO SubjectIndex (Hash, Place, RowKey) VALUES (:hash, :place, :row);

-- For a document that may have this entry, and has others that are to stay.
-- name: subject_add
INSERT INTO SubjectIndex (Hash, Place, RowKey)
SELECT :hash, CAST(:place AS VARCHAR(21)), CAST(:row AS VARCHAR(65))
WHERE NOT EXISTS (SELECT 1 FROM SubjectIndex AS s
                  WHERE s.Place = CAST(:place AS VARCHAR(21)) AND s.RowKey = CAST(:row AS VARCHAR(65)) AND s.Hash = :hash);

-- name: subject_delete
DELETE FROM SubjectIndex WHERE Place = CAST(:place AS VARCHAR(21)) AND RowKey = CAST(:row AS VARCHAR(65));

-- name: import_subjects_insert
INSERT INTO ImportSubjects (BatchId, ChunkId, Entries) VALUES (:batch, :chunk, :entries);
