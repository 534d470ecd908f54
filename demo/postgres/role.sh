#!/usr/bin/env bash
# Makes the role and the database of the token service, once, while the postgres image prepares its data. The role owns
# its database, and can do nothing to others or to the server.
set -euo pipefail

password=$(cat /run/secrets/service-password)
psql --username "$POSTGRES_USER" --dbname postgres --set ON_ERROR_STOP=1 --set password="$password" <<'SQL'
CREATE ROLE token_service LOGIN PASSWORD :'password' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;
CREATE DATABASE token_service OWNER token_service;
REVOKE ALL ON DATABASE token_service FROM PUBLIC;
REVOKE ALL ON DATABASE postgres FROM PUBLIC;
SQL
