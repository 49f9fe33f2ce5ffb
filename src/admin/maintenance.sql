-- Maintenance windows of clients.
-- name: maintenance_clients
SELECT c.ClientIdentifier, p.MaintenanceWindow
FROM ClientPolicies AS p JOIN Clients AS c ON c.Id = p.ClientId
WHERE p.MaintenanceWindow IS NOT NULL AND p.MaintenanceWindow <> ''
ORDER BY c.ClientIdentifier
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) c.ClientIdentifier, p.MaintenanceWindow
FROM ClientPolicies AS p JOIN Clients AS c ON c.Id = p.ClientId
WHERE p.MaintenanceWindow IS NOT NULL AND p.MaintenanceWindow <> ''
ORDER BY c.ClientIdentifier;
