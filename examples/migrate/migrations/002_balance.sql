-- +goose Up
ALTER TABLE accounts ADD COLUMN balance int;
-- +goose Down
ALTER TABLE accounts DROP COLUMN balance;
