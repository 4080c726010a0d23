-- +goose Up
CREATE TABLE accounts (id int PRIMARY KEY, name varchar(100));
-- +goose Down
DROP TABLE accounts;
