#!/bin/sh
# Makes the roles of a toolsys database and sets their passwords, which come from the environment and are never in argv.
#   PGHOST, PGUSER (an administrator), PGDATABASE as libpq reads them; roles.sql beside, or named in ROLES_SQL.
# The image of PostgreSQL runs it at the first start of an empty volume; it is safe to run again.
set -eu
: "${TOOLSYS_OWNER_PASSWORD:?}" "${TOOLSYS_APP_PASSWORD:?}" "${TOOLSYS_OPERATOR_PASSWORD:?}"
export PGUSER="${PGUSER:-${POSTGRES_USER:-postgres}}" PGDATABASE="${PGDATABASE:-${POSTGRES_DB:-toolsys}}"
psql -X -q -v ON_ERROR_STOP=1 -1 -f "${ROLES_SQL:-/roles/roles.sql}"
psql -X -q -v ON_ERROR_STOP=1 <<'SQL'
\getenv owner TOOLSYS_OWNER_PASSWORD
\getenv app TOOLSYS_APP_PASSWORD
\getenv operator TOOLSYS_OPERATOR_PASSWORD
ALTER ROLE toolsys_owner PASSWORD :'owner';
ALTER ROLE toolsys_app PASSWORD :'app';
ALTER ROLE toolsys_operator PASSWORD :'operator';
SQL
