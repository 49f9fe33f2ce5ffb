#!/bin/sh
# Makes the secrets of compose.yaml, in secrets/ beside it; those that are there stay as they are.
set -eu
cd "$(dirname "$0")"
# Without swarm a secret is a file as it lies on the host: the containers' users must be able to read it, and nobody else
# comes through the directory.
mkdir -p -m 0700 secrets

make() {
    [ -e "secrets/$1" ] || (umask 022 && printf '%s\n' "$2" >"secrets/$1")
}

random() {
    od -An -N32 -tx1 /dev/urandom | tr -d ' \n'
}

make database-password "$(random)"
make database-url "postgres://dataflow:$(cat secrets/database-password)@postgres:5432/dataflow"
make admin-key "$(random)"
make master-key "$(random)"
make queue-password "$(random)"
make queue-url "amqp://dataflow:$(cat secrets/queue-password)@rabbitmq:5672"
make rabbitmq.conf "default_user = dataflow
default_pass = $(cat secrets/queue-password)"
echo "deploy/compose/secrets: keep a copy of master-key; the admin key is in admin-key"
