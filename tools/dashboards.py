#!/usr/bin/python3
"""Makes the dashboards for Grafana, deploy/grafana/*.json, of what is written here.

    dashboards.py            writes them
    dashboards.py --check    says which of them are not as they would be written; exit status 1 if any

docs/dashboards.md tells what each of them shows. Panels are found by alerts by their number (deploy/prometheus/alerts.yml
has links): the tests compare the metrics of both.
"""

import sys
from pathlib import Path

from grafana import (GREEN, RED, YELLOW, dashboard, graph, increase, latency, least, mean, most, or_zero, per_second, quantile,
                     select, stat, states, table, text_of, total, values, variable)

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "deploy" / "grafana"

CLIENT = 'client_id=~"$client"'
CLIENT_OLD = 'clientId=~"$client"'  # as the sources spell it in two metrics
CHANNEL = 'channel=~"$channel"'
RELAY = 'relay=~"$relay"'
BREAKER = {0: ("closed", GREEN), 1: ("open", RED), 2: ("half open", YELLOW)}
UP = {0: ("away", RED), 1: ("up", GREEN)}


def spans(kind, attribute=None, label=None):
    """TraceQL: spans of a kind, and of the series that was clicked, where its label is an attribute of spans."""
    series = f' && span.{attribute} = "${{__field.labels.{label}}}"' if attribute else ""
    return f'{{ resource.service.name = "dataflow" && kind = {kind}{series} }}'


SERVED, SENT = spans("server"), spans("client")
OF_ROUTE = spans("server", "http.route", "route")
OF_CHANNEL = spans("client", "dataflow.channel", "channel")


def share(part, whole):
    """A part of a whole, from 0 to 1; 0 where there is nothing."""
    return f"(({part}) or vector(0)) / (({whole}) > 0) or vector(0)"


# --- overview ----------------------------------------------------------------------------------------


def overview():
    requests = "dataflow_http_requests_total"
    given_up = " + ".join(f"(sum({most(metric, by)}) or vector(0))" for metric, by in (
        ("dataflow_delivery_given_up", "job, channel"), ("dataflow_relay_given_up", "job, relay"), ("dataflow_tickets_given_up", "job")))
    now = [
        stat("Servers", "Processes that answer Prometheus.", "short", or_zero(f"count({select('dataflow_build_info')})")),
        stat("Requests", "HTTP requests served, of all routes.", "reqps", per_second(requests), link=("Runtime", "dataflow-runtime")),
        stat("Errors", "Share of requests that were answered 5xx.", "percentunit",
             share(per_second(requests, where='status=~"5.."'), per_second(requests)), bad=0.05, warn=0.01),
        stat("Slow requests", "99 of 100 requests were answered within this time.", "s",
             quantile(0.99, "dataflow_http_request_seconds"), warn=1, bad=5),
        stat("Alerts", "Conditions that the server itself watches and that stand now; GET /admin/alerts?status=firing lists them.",
             "short", f"sum({most('dataflow_alerts_firing', 'job, rule')})", bad=1),
        stat("Given up", "Documents, events and tickets that the server stopped trying and that wait for a person.", "short", given_up,
             bad=1, link=("Deliveries", "dataflow-deliveries")),
        stat("Deliveries that wait", "Rows of all channels that will be sent by themselves.", "short",
             f"sum({most('dataflow_delivery_waiting', 'job, channel')})", link=("Deliveries", "dataflow-deliveries")),
        stat("Oldest delivery", "How long the delivery waits that has waited longest, of all channels.", "s",
             most("dataflow_delivery_oldest_seconds"), warn=600, bad=3600, link=("Deliveries", "dataflow-deliveries")),
        stat("Oldest event", "How long the event of a relay waits that has waited longest.", "s",
             or_zero(most("dataflow_relay_oldest_seconds")), warn=600, bad=3600, link=("Deliveries", "dataflow-deliveries")),
        stat("Batches that wait", "Imports that nobody works on yet.", "short", most("dataflow_backlog_batches"),
             link=("Imports", "dataflow-imports")),
        stat("Oldest batch", "How long the batch waits that has waited longest.", "s", most("dataflow_oldest_batch_seconds"), warn=600,
             bad=3600, link=("Imports", "dataflow-imports")),
        stat("Open breakers", "Circuit breakers that are open or half open: their targets are not called.", "short",
             f"count(({most('dataflow_breaker_state', 'job, name')}) > 0) or vector(0)", bad=1,
             link=("Deliveries", "dataflow-deliveries")),
    ]
    arriving = [
        graph("Requests by status", "Requests served, by the class of their status.", "reqps",
              (f'sum by (class) (label_replace(rate({select(requests)}[$__rate_interval]), "class", "${{1}}xx", "status", "(.).."))',
               "{{class}}"), stacked=True, traces=SERVED),
        graph("Requests by route", "The ten routes with the most requests.", "reqps",
              (f"topk(10, {per_second(requests, 'route')})", "{{route}}"), traces=OF_ROUTE),
        latency("Time to answer", "From the first byte of a request to the last of its answer; a commit is part of it.",
                "dataflow_http_request_seconds", traces=SERVED),
        graph("Errors by route", "Requests that were answered 5xx, by route.", "reqps",
              (or_zero(per_second(requests, "route", 'status=~"5.."')), "{{route}}"), traces=OF_ROUTE),
        graph("Refused by route", "Requests that were answered 4xx, by route and status.", "reqps",
              (or_zero(per_second(requests, "route, status", 'status=~"4.."')), "{{status}} {{route}}")),
        graph("Refused before a handler", "Requests that no handler saw: framing, size, method, memory, no such path.", "reqps",
              (or_zero(per_second("dataflow_http_rejected_total", "reason")), "{{reason}}")),
    ]
    working = [
        graph("Tickets", "Tickets processed, by outcome.", "ops", (or_zero(per_second("dataflow_tickets_processed_total", "outcome")), "{{outcome}}"),
              stacked=True),
        graph("Records of imports", "Records settled, by outcome.", "ops",
              (or_zero(per_second("dataflow_import_records_total", "outcome")), "{{outcome}}"), stacked=True),
        graph("Deliveries", "Attempts to deliver, of all channels, by outcome.", "ops",
              (per_second("dataflow_delivery_attempts_total", "outcome"), "{{outcome}}"), stacked=True),
        graph("Events", "Attempts of all relays, by outcome.", "ops",
              (or_zero(per_second("dataflow_relay_attempts_total", "outcome")), "{{outcome}}"), stacked=True),
        graph("Integrations", "Calls of /integrations, by outcome.", "ops",
              (or_zero(per_second("dataflow_integration_calls_total", "outcome")), "{{outcome}}"), stacked=True),
        graph("Logins", "Logins that were not answered from memory, by outcome.", "ops", (or_zero(per_second("dataflow_auth_total", "outcome")), "{{outcome}}")),
    ]
    standing = [
        graph("Alerts by rule", "The server's own alerts that fire, as the process sees it that sees most.", "short",
              (most("dataflow_alerts_firing", "rule"), "{{rule}}")),
        graph("Documents that wait", "Deliveries by channel, events by relay.", "short",
              (most("dataflow_delivery_waiting", "channel"), "{{channel}}"), (or_zero(most("dataflow_relay_waiting", "relay")), "relay {{relay}}")),
        table("Servers", "Every process, with its release.", "short", select("dataflow_build_info"), width=8,
              hidden=("Time", "Value", "__name__")),
    ]
    return dashboard("dataflow-overview", "DataFlow / Overview", "Is everything well: what arrives, what is worked on, what waits, what failed.",
                     [("Now", now), ("What arrives", arriving), ("What is worked on", working), ("What stands", standing)])


# --- by client ---------------------------------------------------------------------------------------


def client():
    records, requests, batches = "dataflow_import_records_total", "dataflow_requests_total", "dataflow_batches_total"
    failed = CLIENT + ',outcome="error"'
    ended = 'status=~"Completed|CompletedWithErrors|Failed|Cancelled"'
    summary = [
        stat("Requests", "Authenticated requests, in the time shown.", "short", increase(requests, where=CLIENT)),
        stat("Records imported", "In the time shown.", "short", or_zero(increase(records, where=f'{CLIENT},outcome="imported"'))),
        stat("Records that failed", "In the time shown.", "short", or_zero(increase(records, where=failed)), warn=1),
        stat("Success", "Share of the records settled in the time shown that were imported or skipped.", "percentunit",
             f"1 - ({share(increase(records, where=failed), increase(records, where=CLIENT))})"),
        stat("Batches ended", "In the time shown.", "short", or_zero(increase(batches, where=f"{CLIENT},{ended}"))),
        stat("Time to ack", "19 of 20 chunks had their ack within this time, now.", "s", quantile(0.95, "dataflow_ack_seconds", where=CLIENT), warn=10,
             bad=30),
    ]
    throughput = [
        graph("Requests", "Authenticated requests.", "reqps", (per_second(requests, "client_id", CLIENT), "{{client_id}}"),
              traces=spans("server", "dataflow.client.id", "client_id")),
        graph("Refused for their rate", "Requests that were refused because the client is over its requestsPerMinute.", "reqps",
              (or_zero(per_second("dataflow_rate_limited_total", "client_id", CLIENT)), "{{client_id}}")),
        graph("Uploads", "By outcome: accepted, replayed (the same key again), rejected, failed (the server's fault), abandoned by their sender.",
              "ops", (or_zero(per_second("dataflow_uploads_total", "client_id, outcome", CLIENT)), "{{client_id}} {{outcome}}")),
        graph("Bytes of uploads", "Of the files that were accepted.", "Bps",
              (or_zero(per_second("dataflow_upload_bytes_total", "client_id", CLIENT)), "{{client_id}}")),
        graph("Records", "Records settled: imported, error, skipped.", "ops",
              (or_zero(per_second(records, "client_id, outcome", CLIENT)), "{{client_id}} {{outcome}}")),
        graph("Batches that are not over", "By state, as the process sees it that sees most.", "short",
              (or_zero(most("dataflow_batches_open", "client_id, status", CLIENT)), "{{client_id}} {{status}}")),
    ]
    errors = [
        graph("Records that fail", "Their share of the records settled.", "percentunit",
              (or_zero(f"{per_second(records, 'client_id', failed)} / ({per_second(records, 'client_id', CLIENT)} > 0)"), "{{client_id}}"), max=1),
        graph("Batches by their end", "Completed, CompletedWithErrors, Failed, Cancelled.", "ops",
              (or_zero(per_second(batches, "client_id, status", f"{CLIENT},{ended}")), "{{client_id}} {{status}}")),
        graph("Failed attempts at chunks", "By reason, as the log has them in ChunkError.", "ops",
              (or_zero(per_second("dataflow_chunk_errors_total", "clientId, reason", CLIENT_OLD)), "{{clientId}} {{reason}}")),
        graph("Batches given back", "How often a batch was given back because OmniFlow took nothing.", "ops",
              (or_zero(per_second("dataflow_batches_shelved_total", "client_id", CLIENT)), "{{client_id}}")),
    ]
    times = [
        latency("Time to ack by client", "From sending a chunk to its ack; an answer 200 is the ack itself. The last sending counts.",
                "dataflow_ack_seconds", "client_id", CLIENT, traces=spans("client", "dataflow.client.id", "client_id"), width=12),
        latency("Time of a batch", "From the claim of a batch to its end.", "dataflow_batch_duration_seconds", "clientId", CLIENT_OLD, width=12),
    ]
    return dashboard("dataflow-client", "DataFlow / Client", "One client or several: how much they send, how much of it succeeds, how long it takes.",
                     [("In the time shown", summary), ("Throughput", throughput), ("Success and error", errors), ("Time", times)],
                     [variable("client", "Client", values(requests, "client_id"))])


# --- deliveries and relays ---------------------------------------------------------------------------


def deliveries():
    attempts, events = "dataflow_delivery_attempts_total", "dataflow_relay_attempts_total"
    channels = [
        graph("Attempts", "By outcome: sent, retry, error (waits for a person), deferred (not tried).", "ops",
              (per_second(attempts, "channel, outcome", CHANNEL), "{{channel}} {{outcome}}"), width=12),
        graph("Time of an attempt", "From the engine's hand to the answer, waiting for a connection included.", "s",
              (quantile(0.5, "dataflow_delivery_duration_seconds", "channel", CHANNEL), "p50 {{channel}}"),
              (quantile(0.95, "dataflow_delivery_duration_seconds", "channel", CHANNEL), "p95 {{channel}}"), width=12,
              traces=OF_CHANNEL),
        graph("Waiting", "Rows that will be sent by themselves.", "short", (most("dataflow_delivery_waiting", "channel", CHANNEL), "{{channel}}")),
        graph("Oldest", "Age of the oldest row that waits, retries included.", "s",
              (most("dataflow_delivery_oldest_seconds", "channel", CHANNEL), "{{channel}}")),
        graph("Given up", "Rows that were given up and wait for a person.", "short",
              (most("dataflow_delivery_given_up", "channel", CHANNEL), "{{channel}}")),
        graph("Giving up", "Rows that are given up, whatever becomes of them later.", "ops",
              (per_second("dataflow_delivery_given_up_total", "channel", CHANNEL), "{{channel}}")),
        graph("Held", "Rows that wait because their target is away or paused.", "short", (most("dataflow_delivery_held", "channel", CHANNEL), "{{channel}}")),
        graph("In hand", "Rows that the processes are to send, or that are on their way.", "short",
              (total("dataflow_delivery_in_flight", "channel", CHANNEL), "{{channel}}")),
        graph("Failures of webhooks", "Attempts to deliver a webhook that failed.", "ops", (per_second("dataflow_webhook_failures_total"), "webhooks")),
        graph("Tickets given up", "Tickets that could not be processed and wait for a person.", "short",
              (f"sum({most('dataflow_tickets_given_up', 'job')})", "tickets")),
        graph("Shards", "Of each channel sixteen shards are divided among the processes; together they must own all of them.", "short",
              (total("dataflow_work_shards", "channel", CHANNEL), "{{channel}}")),
    ]
    targets = [
        states("Targets", "A target is away while its breaker, or that of its host, is not closed, as the process sees it that sees it worst.",
               least("dataflow_target_up", "channel, target", CHANNEL), "{{channel}} {{target}}", UP),
        states("Breakers", "Of targets, hosts, integrations, webhooks and relays, as the process sees them that sees them worst.",
               most("dataflow_breaker_state", "name"), "{{name}}", BREAKER),
        graph("Calls of breakers", "Calls that breakers let through, by outcome, and those that they did not permit.", "ops",
              (per_second("dataflow_breaker_calls_total", "outcome"), "{{outcome}}")),
        graph("Outgoing calls", "HTTP calls to all peers, by the class of their status or by why there was none.", "ops",
              (per_second("dataflow_http_client_requests_total", "outcome"), "{{outcome}}"), stacked=True),
        latency("Time of outgoing calls", "All peers together.", "dataflow_http_client_seconds",
                traces=SENT),
    ]
    relays = [
        graph("Attempts of relays", "By outcome: processed, retry, held (waits for its destination), failed (waits for a person), deferred.", "ops",
              (per_second(events, "relay, outcome", RELAY), "{{relay}} {{outcome}}"), width=12),
        latency("Time of an event", "From handing an event to the dispatcher until it was confirmed or failed.",
                "dataflow_relay_duration_seconds", "relay", RELAY, width=12, traces=spans("producer", "messaging.destination.name", "relay")),
        graph("Events that wait", "In the source's table.", "short", (most("dataflow_relay_waiting", "relay", RELAY), "{{relay}}")),
        graph("Oldest event", "Age of the oldest event that waits.", "s", (most("dataflow_relay_oldest_seconds", "relay", RELAY), "{{relay}}")),
        graph("Events given up", "Events that were given up and wait for a person.", "short", (most("dataflow_relay_given_up", "relay", RELAY), "{{relay}}")),
        states("Sources", "A relay is up while it has a source whose table is right.", most("dataflow_relay_up", "relay", RELAY), "{{relay}}", UP),
        graph("Giving up events", "Events that are given up, whatever becomes of them later.", "ops",
              (per_second("dataflow_relay_given_up_total", "relay", RELAY), "{{relay}}"), width=12),
        graph("Events accepted", "Events that POST /events wrote.", "ops", (per_second("dataflow_events_accepted_total"), "events"), width=12),
    ]
    integrations = [
        graph("Calls", "By outcome: success, client_error (4xx passed back), unavailable, not_permitted, enqueued, error, abandoned.", "ops",
              (per_second("dataflow_integration_calls_total", "integration, outcome"), "{{integration}} {{outcome}}")),
        latency("Time of a call", "With all attempts and the waiting between them.", "dataflow_integration_duration_seconds", "integration",
                traces=SENT),
        graph("Retries", "Attempts beyond the first.", "ops", (per_second("dataflow_integration_retries_total", "integration"), "{{integration}}")),
    ]
    return dashboard("dataflow-deliveries", "DataFlow / Deliveries and relays",
                     "What leaves: channels of the delivery engine, relays of outboxes, calls of integrations, and the peers that they call.",
                     [("Channels", channels), ("Peers", targets), ("Relays", relays), ("Integrations", integrations)],
                     [variable("channel", "Channel", values("dataflow_delivery_waiting", "channel")),
                      variable("relay", "Relay", values("dataflow_relay_up", "relay"))])


# --- imports -----------------------------------------------------------------------------------------


def imports():
    records = "dataflow_import_records_total"
    receiving = [
        graph("Uploads", "By outcome: accepted, replayed (the same key again), rejected, failed (the server's fault), abandoned by their sender. And previews.", "ops",
              (per_second("dataflow_uploads_total", "outcome"), "{{outcome}}"),
              (per_second("dataflow_import_previews_total", "outcome"), "preview {{outcome}}")),
        graph("Bytes of uploads", "Of the files that were accepted.", "Bps", (per_second("dataflow_upload_bytes_total"), "accepted")),
        graph("The bucket", "With imports.storage = s3: parts sent while uploads arrived, and times that an upload waited for the bucket.", "ops",
              (per_second("dataflow_upload_parts_total"), "parts"), (per_second("dataflow_upload_waits_total"), "waits")),
    ]
    waiting = [
        graph("Backlog", "Batches that wait to be worked on, and chunks of those and of what is in work, roughly.", "short",
              (most("dataflow_backlog_batches"), "batches"), (most("dataflow_backlog_chunks"), "chunks")),
        graph("Oldest batch", "How long the batch waits that has waited longest.", "s", (most("dataflow_oldest_batch_seconds"), "oldest")),
        graph("Batches that are not over", "By state.", "short",
              (or_zero(f"sum by (status) ({most('dataflow_batches_open', 'job, client_id, status')})"), "{{status}}")),
        graph("In work", "Batches that processes work on, and chunks in hand: cut, and not settled.", "short",
              (total("dataflow_batches_processing"), "batches"), (total("dataflow_chunk_inflight"), "chunks")),
    ]
    settling = [
        graph("Records", "Records settled: imported, error, skipped.", "ops", (per_second(records, "outcome"), "{{outcome}}"), stacked=True),
        graph("Records that fail", "Their share.", "percentunit", (share(per_second(records, where='outcome="error"'), per_second(records)), "failed"), max=1),
        graph("Failed attempts at chunks", "By reason, as the log has them in ChunkError.", "ops",
              (or_zero(per_second("dataflow_chunk_errors_total", "reason")), "{{reason}}")),
        latency("Time of a chunk", "From cutting a chunk to its settlement, retries and acks included.", "dataflow_chunk_duration_seconds", traces=SENT),
        latency("Time of a batch", "From the claim of a batch to its end, by how it ended.", "dataflow_batch_duration_seconds", "status"),
        latency("Time to ack", "From sending a chunk to its ack; an answer 200 is the ack itself. The last sending counts.", "dataflow_ack_seconds",
                traces=SENT),
        graph("Batches", "Batches that came into a state: received, taken up, ended, given back.", "ops",
              (or_zero(per_second("dataflow_batches_total", "status")), "{{status}}")),
        graph("Batches given back", "How often a batch was given back because OmniFlow took nothing.", "ops",
              (or_zero(per_second("dataflow_batches_shelved_total")), "batches")),
    ]
    around = [
        graph("Locks of batches", "By outcome: acquired, refused (another process has it), away (the provider could not be asked), extended,"
              " extend_failed (tried again until the lease ends), lost.", "ops",
              (per_second("dataflow_lock_outcomes_total", "provider, outcome"), "{{provider}} {{outcome}}")),
        latency("Time of a lock", "How long the provider of locks took to answer.", "dataflow_lock_wait_seconds", "provider, operation"),
        graph("Locks held", "By all processes together.", "short", (total("dataflow_lock_held", "provider"), "{{provider}}")),
        graph("Servers of locks", "With imports.lock = redis: Redis servers that can be reached, and those that lost their memory and take no part yet.", "short",
              (or_zero(least("dataflow_lock_servers_reachable")), "reachable"), (or_zero(most("dataflow_lock_servers_quarantined")), "quarantined")),
        graph("Queue of batches", "Messages of imports.queue, by outcome.", "ops", (or_zero(per_second("dataflow_queue_messages_total", "outcome")), "{{outcome}}")),
        states("Broker", "Of imports.queue: connected while its messages arrive, else workers poll.", or_zero(least("dataflow_queue_connected", "instance")),
               "{{instance}}", {0: ("polls", YELLOW), 1: ("connected", GREEN)}, width=8),
        graph("Masked, kept, expired", "Items that were stored masked; failed records kept encrypted, and removed when their time was over.", "ops",
              (per_second("dataflow_items_masked_total"), "masked"), (per_second("dataflow_items_kept_total"), "kept"),
              (per_second("dataflow_items_expired_total"), "expired")),
        graph("Left-overs removed", "Directories, objects and unfinished uploads that housekeeping removed.", "ops",
              (or_zero(per_second("dataflow_orphans_removed_total", "kind")), "{{kind}}")),
    ]
    return dashboard("dataflow-imports", "DataFlow / Imports", "Bulk imports from the upload to the confirmed record.",
                     [("Receiving", receiving), ("Waiting", waiting), ("Settling", settling), ("Around it", around)])


# --- database, process, runtime ----------------------------------------------------------------------


def runtime():
    database = [
        graph("Jobs", "Work handed to the store, by kind and outcome.", "ops",
              (per_second("dataflow_db_jobs_total", "kind, outcome"), "{{kind}} {{outcome}}")),
        latency("Time of a job", "Waiting and running.", "dataflow_db_job_seconds", "kind"),
        graph("Jobs that wait", "Not yet begun. Growing: the database is too slow.", "short", (total("dataflow_db_queue_waiting", "kind"), "{{kind}}")),
        latency("Time of a commit", "fsync included.", "dataflow_db_commit_seconds"),
        latency("Time of a call", "Single calls to the database.", "dataflow_db_statement_seconds", "call"),
        graph("Jobs in one commit", "On average: with more load, more jobs share a commit.", "short", (mean("dataflow_db_group_size"), "jobs")),
        graph("Busy threads", "Share of the store's threads, each with a connection of its own, that have a job in hand.", "percentunit",
              (f"{total('dataflow_db_workers_busy', 'kind')} / {total('dataflow_db_workers', 'kind')}", "{{kind}}"), max=1),
        graph("Connections", "Open connections to the database.", "short", (total("dataflow_db_connections", "instance"), "{{instance}}")),
        graph("Reconnects", "Connections that were made anew, and times that another database server has taken over.", "ops",
              (per_second("dataflow_db_reconnects_total"), "reconnects"), (per_second("dataflow_db_failovers_total"), "failovers")),
    ]
    process = [
        graph("Processor", "Processor time used; 1 is one processor.", "percentunit", (per_second("process_cpu_seconds_total", "instance"), "{{instance}}")),
        graph("Memory", "Resident memory.", "bytes", (most("process_resident_memory_bytes", "instance"), "{{instance}}")),
        graph("Address space", "Virtual memory: most of it is never touched.", "bytes", (most("process_virtual_memory_bytes", "instance"), "{{instance}}")),
        graph("Open files", "Share of the file descriptors that the process may have.", "percentunit",
              (f"max by (instance) ({select('process_open_fds')} / {select('process_max_fds')})", "{{instance}}"), max=1),
        graph("Threads", "Of each process.", "short", (most("dataflow_process_threads", "instance"), "{{instance}}")),
        graph("Uptime", "Since the start of each process.", "s", (f"time() - {most('process_start_time_seconds', 'instance')}", "{{instance}}")),
    ]
    serving = [
        graph("Connections of callers", "Open now.", "short", (total("dataflow_http_connections", "instance"), "{{instance}}")),
        graph("Requests in flight", "Now.", "short", (total("dataflow_http_requests_in_flight", "instance"), "{{instance}}")),
        graph("Memory of requests", "Of server.memory_budget_mb, now.", "bytes", (total("dataflow_http_request_bytes_in_flight", "instance"), "{{instance}}")),
        graph("Certificate", "Time left of the server's certificate; only with server.tls_cert.", "s", (least("dataflow_tls_expires_seconds", "instance"), "{{instance}}")),
        graph("Outgoing calls in flight", "Now.", "short", (total("dataflow_http_client_in_flight", "instance"), "{{instance}}")),
        graph("Lease of work", "Time left of the lease on each process's share of the work.", "s", (least("dataflow_work_lease_seconds", "instance"), "{{instance}}")),
    ]
    keeping = [
        graph("Shards taken", "free, or lost (of a process that did not end as it should).", "ops", (per_second("dataflow_work_taken_total", "how"), "{{how}}")),
        graph("Age of the backup", "Since the server last had everything in its own backup; only with [backup].", "s",
              (f"time() - ({most('dataflow_backup_last_success_timestamp_seconds')} > 0)", "age")),
        graph("Backup", "Bytes that the server put into its backup.", "Bps", (per_second("dataflow_backup_bytes_total"), "bytes")),
        graph("Points of the backup", "Points in time that it made, by kind, and turns that failed.", "ops",
              (per_second("dataflow_backup_points_total", "kind"), "{{kind}}"), (or_zero(per_second("dataflow_backup_failures_total")), "failures")),
        graph("Age of retention's last run", "Retention runs every hour, on one process.", "s",
              (f"time() - ({most('dataflow_retention_last_run_timestamp_seconds')} > 0)", "age")),
        graph("Time of retention", "How long the last run took.", "s", (most("dataflow_retention_seconds"), "last run")),
        graph("Removed by retention", "Documents, by kind.", "ops", (per_second("dataflow_retention_removed_total", "kind"), "{{kind}}")),
        graph("Purges", "That have not ended.", "short", (most("dataflow_purge_jobs"), "purges")),
        graph("Purged", "Rows by table, and files, that purges removed; documents that they erased.", "ops",
              (or_zero(per_second("dataflow_purged_total", "kind")), "{{kind}}")),
        graph("Encrypted anew", "Secrets, payloads and files, after a new data key.", "ops", (per_second("dataflow_reencrypted_total", "kind"), "{{kind}}")),
        graph("Lost keys", "Secrets, payloads and files that no key opens, as the last pass found them.", "short", (most("dataflow_data_key_lost"), "lost")),
        graph("Questions of people", "What is stored about a person, by kind of question.", "ops",
              (or_zero(per_second("dataflow_subject_lookups_total", "kind")), "{{kind}}")),
    ]
    log = [
        graph("Lines of the log", "With log.ship: lines that were shipped, and those that were dropped and why.", "ops",
              (or_zero(per_second("dataflow_log_lines_total", "outcome")), "{{outcome}}")),
        graph("Spool of the log", "Its size on the disk.", "bytes", (or_zero(total("dataflow_log_spool_bytes", "instance")), "{{instance}}")),
        graph("Lines in the spool", "Not shipped yet.", "short", (or_zero(total("dataflow_log_spool_lines", "instance")), "{{instance}}")),
        graph("Oldest line in the spool", "Its age: how long the target has been away.", "s",
              (or_zero(most("dataflow_log_spool_oldest_seconds", "instance")), "{{instance}}")),
        graph("Failed calls to the log's target", "They are made again.", "ops",
              (or_zero(per_second("dataflow_log_ship_failures_total", "instance")), "{{instance}}")),
        graph("Since the last lines were taken", "By the target of log.ship.", "s",
              (f"time() - (max by (instance) ({select('dataflow_log_ship_last_success_timestamp_seconds')}) > 0) or on() vector(0)", "{{instance}}")),
    ]
    traces = [
        graph("Spans exported", "With otel.endpoint: spans that the collector took.", "ops",
              (or_zero(per_second("dataflow_spans_exported_total", "instance")), "{{instance}}")),
        graph("Spans dropped", "Recorded spans that were not exported, by reason.", "ops",
              (or_zero(per_second("dataflow_spans_dropped_total", "reason")), "{{reason}}")),
        graph("Calls to the collector", "By outcome: ok, retry, refused.", "ops",
              (or_zero(per_second("dataflow_span_exports_total", "outcome")), "{{outcome}}")),
        graph("Spans that wait", "To be exported; otel.queue is the most.", "short",
              (or_zero(total("dataflow_spans_waiting", "instance")), "{{instance}}")),
    ]
    return dashboard("dataflow-runtime", "DataFlow / Database and process", "The machine room: database, process, connections, backup, retention, keys, the ways of log and traces.",
                     [("Database", database), ("Process", process), ("Serving", serving), ("Keeping", keeping), ("Log", log),
                      ("Traces", traces)])


DASHBOARDS = {"overview": overview, "client": client, "deliveries": deliveries, "imports": imports, "runtime": runtime}


def texts():
    """{file: text}"""
    return {PLACE / f"{name}.json": text_of(make()) for name, make in DASHBOARDS.items()}


def main(args):
    if args not in ([], ["--check"]):
        raise SystemExit(__doc__)
    made = texts()
    if not args:
        for path, text in made.items():
            path.write_text(text, encoding="utf-8")
        return 0
    wrong = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in wrong:
        print(f"{path.relative_to(ROOT)} is not what tools/dashboards.py makes", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
