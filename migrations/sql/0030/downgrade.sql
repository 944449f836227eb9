ALTER TABLE changes DROP COLUMN token_id, DROP COLUMN client_address;
DROP TABLE tokens;
