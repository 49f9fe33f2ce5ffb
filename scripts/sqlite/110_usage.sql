-- What each process sees of the clients that are limited. SQLite has one process and writes none.

CREATE TABLE IF NOT EXISTS ClientUsage (
    Id INTEGER NOT NULL CONSTRAINT PK_ClientUsage PRIMARY KEY AUTOINCREMENT,
    ClientId TEXT NOT NULL CHECK (length(ClientId) = 36),
    Replica TEXT NOT NULL CHECK (length(Replica) = 36),
    Requests INT NOT NULL,
    Demand INT NOT NULL,
    Uploads INT NOT NULL,
    UpdatedAt TEXT NOT NULL
);
