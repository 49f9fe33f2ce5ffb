#!/usr/bin/python3
"""A real storage that speaks S3 and verifies signatures, for tests: Debian's OpenStack Swift, all of it in one process.

    tests/s3_server.py DIRECTORY [[HOST:]PORT]

Prints its URL when it answers and serves until it is killed. Objects live in memory, the rest in DIRECTORY. The
access key is test:tester, the secret key testing, the region us-east-1; buckets are addressed by path, or by host
below localhost.

Requests can be made to go wrong: POST /faults with {"status": 503, "count": 2, "method": "PUT"} fails the next two
PUTs before Swift sees them ("after": seconds for Retry-After). Instead of a status: "flip": true changes a byte of the
answer; "lose": true has Swift do its work and answers 500; "hold": true lets the request wait until the next POST
/faults. "match" is text that the request has in its path and query. GET /faults tells what is left, and every request
that came since: ["PUT /bucket/key?x=", ...].
"""

import json
import os
import sys
from pathlib import Path

import eventlet

eventlet.monkey_patch()

from eventlet import wsgi  # noqa: E402
from swift.account.server import AccountController  # noqa: E402
from swift.common import storage_policy, utils  # noqa: E402
from swift.common.ring.builder import RingBuilder  # noqa: E402
from swift.common.wsgi import loadapp  # noqa: E402
from swift.container.server import ContainerController  # noqa: E402
from swift.obj.mem_server import ObjectController  # noqa: E402

SWIFT = """
[swift-hash]
swift_hash_path_suffix = tests
swift_hash_path_prefix = tests

[storage-policy:0]
name = memory
default = yes
"""

PROXY = """
[DEFAULT]
swift_dir = {root}
user = {user}
log_level = ERROR

[pipeline:main]
pipeline = faults memory s3api tempauth copy slo proxy-server

[filter:faults]
paste.filter_factory = s3_server:faults_factory

[filter:memory]
paste.filter_factory = s3_server:memory_factory

[filter:s3api]
use = egg:swift#s3api
location = us-east-1
storage_domain = localhost

[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin

[filter:copy]
use = egg:swift#copy

[filter:slo]
use = egg:swift#slo

[app:proxy-server]
use = egg:swift#proxy
allow_account_management = true
account_autocreate = true
# Of its own parts, which all are this process: by default half a second, which a busy machine may take.
conn_timeout = 30
node_timeout = 60
"""


class Memory:
    """What Swift wants of memcached."""

    def __init__(self):
        self.values = {}

    def get(self, key, *_args, **_kwargs):
        return self.values.get(key)

    def set(self, key, value, *_args, **_kwargs):
        self.values[key] = value

    def delete(self, key, *_args, **_kwargs):
        self.values.pop(key, None)

    def incr(self, key, delta=1, **_kwargs):
        self.values[key] = int(self.values.get(key, 0)) + delta
        return self.values[key]


def memory_factory(_global_conf, **_conf):
    memory = Memory()

    def wrap(app):
        def serve(env, start_response):
            env["swift.cache"] = memory
            return app(env, start_response)
        return serve
    return wrap


def faults_factory(_global_conf, **_conf):
    faults, seen = [], []

    def answer(start_response, status, document, *headers):
        start_response(f"{status} Planned", [("Content-Type", "application/json"), *headers])
        return [json.dumps(document).encode()]

    def fault_for(method, target):
        for fault in faults:
            if fault["count"] > 0 and fault.get("method", method) == method and fault.get("match", "") in target:
                fault["count"] -= 1
                return fault
        return None

    def wrap(app):
        def serve(env, start_response):
            method = env["REQUEST_METHOD"]
            if env["PATH_INFO"] == "/faults":
                if method == "POST":
                    seen.clear()
                    faults[:] = [json.loads(env["wsgi.input"].read())]
                return answer(start_response, 200, {"faults": faults, "seen": seen})
            query = env.get("QUERY_STRING")
            target = env["PATH_INFO"] + (f"?{query}" if query else "")
            seen.append(f"{method} {target}")
            fault = fault_for(method, target)
            if fault and "status" in fault:
                env["wsgi.input"].read()
                headers = [("Retry-After", str(fault["after"]))] if "after" in fault else []
                return answer(start_response, fault["status"], {}, *headers)
            if fault and fault.get("lose"):
                list(app(env, lambda *_args: None))
                return answer(start_response, 500, {})
            if fault and fault.get("hold"):
                while fault in faults:
                    eventlet.sleep(0.02)
            if fault and fault.get("flip"):
                # A body of the length it should have, but for one byte.
                body = b"".join(app(env, start_response))
                return [bytes([body[0] ^ 1]) + body[1:]]
            return app(env, start_response)
        return serve
    return wrap


def make_ring(root, name, port):
    builder = RingBuilder(1, 1, 0)
    builder.add_dev({"id": 0, "zone": 0, "region": 1, "weight": 1, "ip": "127.0.0.1", "port": port,
                     "device": "disk", "meta": ""})
    builder.rebalance()
    builder.get_ring().save(str(root / f"{name}.ring.gz"))


def main():
    root = Path(sys.argv[1]).resolve()
    (root / "disk").mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    utils.HASH_PATH_PREFIX = utils.HASH_PATH_SUFFIX = b"tests"
    utils.SWIFT_CONF_FILE = str(root / "swift.conf")
    Path(utils.SWIFT_CONF_FILE).write_text(SWIFT, encoding="utf-8")
    storage_policy.reload_storage_policies()

    listeners = {name: eventlet.listen(("127.0.0.1", 0)) for name in ("account", "container", "object")}
    host, _, port = (sys.argv[2] if len(sys.argv) > 2 else "0").rpartition(":")
    proxy = eventlet.listen((host or "127.0.0.1", int(port)))
    for name, listener in listeners.items():
        make_ring(root, name, listener.getsockname()[1])
    conf = {"devices": str(root), "mount_check": "false", "swift_dir": str(root)}
    apps = {"account": AccountController, "container": ContainerController, "object": ObjectController}
    quiet = open(os.devnull, "w", encoding="utf-8")
    for name, listener in listeners.items():
        eventlet.spawn(wsgi.server, listener, apps[name](conf), quiet)
    config = root / "proxy-server.conf"
    user = os.environ.get("USER") or "root"
    config.write_text(PROXY.format(root=root, user=user), encoding="utf-8")
    app = loadapp(str(config))
    print("http://{}:{}".format(*proxy.getsockname()), flush=True)
    wsgi.server(proxy, app, quiet, minimum_chunk_size=65536)


if __name__ == "__main__":
    main()
