-- What the server's database knows of events that relays have given up: alerts are made of it, by whichever process
-- evaluates the rules, and relays learn from it that there is something to count.

-- name: relay_given_up_noted
SELECT Target, GivenUp FROM DeliveryTargets WHERE Channel = 'relay' AND GivenUp > 0;

-- UpdatedAt tells that the relay is still there.
-- name: relay_given_up_note
UPDATE DeliveryTargets
SET GivenUp = :given_up, GivenUpSince = CASE WHEN GivenUp > 0 THEN COALESCE(GivenUpSince, :since) ELSE :since END,
    GivenUpAt = COALESCE(:at, GivenUpAt), GivenUpError = COALESCE(:error, GivenUpError), UpdatedAt = :now
WHERE Channel = 'relay' AND Target = :name;
-- dialect: postgres
UPDATE DeliveryTargets
SET GivenUp = :given_up,
    GivenUpSince = CASE WHEN GivenUp > 0 THEN COALESCE(GivenUpSince, CAST(:since AS timestamptz)) ELSE CAST(:since AS timestamptz) END,
    GivenUpAt = COALESCE(CAST(:at AS timestamptz), GivenUpAt), GivenUpError = COALESCE(CAST(:error AS varchar), GivenUpError),
    UpdatedAt = :now
WHERE Channel = 'relay' AND Target = :name;
-- dialect: sqlserver
UPDATE DeliveryTargets
SET GivenUp = :given_up,
    GivenUpSince = CASE WHEN GivenUp > 0 THEN COALESCE(GivenUpSince, CAST(:since AS DATETIME2)) ELSE CAST(:since AS DATETIME2) END,
    GivenUpAt = COALESCE(CAST(:at AS DATETIME2), GivenUpAt), GivenUpError = COALESCE(CAST(:error AS NVARCHAR(200)), GivenUpError),
    UpdatedAt = :now
WHERE Channel = 'relay' AND Target = CAST(:name AS VARCHAR(1001));

-- name: relay_given_up_insert
INSERT INTO DeliveryTargets (Channel, Target, GivenUp, GivenUpSince, GivenUpAt, GivenUpError, UpdatedAt)
VALUES ('relay', :name, :given_up, :since, :at, :error, :now);
