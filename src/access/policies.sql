-- Client policies: one row a client, none while all is the default.

-- A change of a policy locks its client's row, so that two changes follow on each other.
-- name: policy_lock
SELECT Id FROM Clients WHERE Id = :client_id;
-- dialect: postgres
SELECT Id FROM Clients WHERE Id = :client_id FOR UPDATE;
-- dialect: sqlserver
SELECT Id FROM Clients WITH (UPDLOCK, ROWLOCK) WHERE Id = :client_id;

-- name: policy_get
SELECT MaxFileSizeMb, MaxBatchPerDay, AllowedStartHour, AllowedEndHour, RequireSchedulingForLarge, LargeThresholdMb,
       BatchSize, RequestsPerMinute, ConcurrentUploads, BusinessHoursOnly, BusinessStartHour, BusinessEndHour,
       MaintenanceWindow, TempStorageQuotaMb, MaxConcurrentBatches, MaxRecords, CreatedAt, UpdatedAt
FROM ClientPolicies
WHERE ClientId = :client_id;

-- name: policy_update
UPDATE ClientPolicies
SET MaxFileSizeMb = :max_file_size_mb, MaxBatchPerDay = :max_batch_per_day, AllowedStartHour = :allowed_start_hour,
    AllowedEndHour = :allowed_end_hour, RequireSchedulingForLarge = :require_scheduling_for_large,
    LargeThresholdMb = :large_threshold_mb, BatchSize = :batch_size, RequestsPerMinute = :requests_per_minute,
    ConcurrentUploads = :concurrent_uploads, BusinessHoursOnly = :business_hours_only,
    BusinessStartHour = :business_start_hour, BusinessEndHour = :business_end_hour,
    MaintenanceWindow = :maintenance_window, TempStorageQuotaMb = :temp_storage_quota_mb,
    MaxConcurrentBatches = :max_concurrent_batches, MaxRecords = :max_records, UpdatedAt = :now
WHERE ClientId = :client_id;

-- name: policy_insert
INSERT INTO ClientPolicies (MaxFileSizeMb, MaxBatchPerDay, AllowedStartHour, AllowedEndHour, RequireSchedulingForLarge,
                            LargeThresholdMb, BatchSize, RequestsPerMinute, ConcurrentUploads, BusinessHoursOnly,
                            BusinessStartHour, BusinessEndHour, MaintenanceWindow, TempStorageQuotaMb,
                            MaxConcurrentBatches, MaxRecords, UpdatedAt, ClientId, Id, CreatedAt)
VALUES (:max_file_size_mb, :max_batch_per_day, :allowed_start_hour, :allowed_end_hour, :require_scheduling_for_large,
        :large_threshold_mb, :batch_size, :requests_per_minute, :concurrent_uploads, :business_hours_only,
        :business_start_hour, :business_end_hour, :maintenance_window, :temp_storage_quota_mb,
        :max_concurrent_batches, :max_records, :now, :client_id, :id, :now);

-- name: policy_delete
DELETE FROM ClientPolicies WHERE ClientId = :client_id;
