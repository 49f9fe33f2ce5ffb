"""`dataflow import`: upload, progress, watching, the end; on a terminal and without one."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time

import pytest
from harness import BIN, SANITIZER, TIMEOUT, environment, run, wait_for
from test_imports_read import COMPLETED, FAILED, PROCESSING, SCHEDULED, WITH_ERRORS, Rows, at
from test_sandbox import Sandbox

import pg

LEADS = json.dumps([{"PhoneNumber": f"+55119123{i:05}", "Name": f"n{i}"} for i in range(50)])

SOMEBODY = {"DATAFLOW_CLIENT_ID": "a", "DATAFLOW_CLIENT_SECRET": "b"}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "leads.json"
    path.write_text(LEADS, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def rows(server):
    """No OmniFlow is configured: what is uploaded stays as it is until the test changes it."""
    return Rows(server.backend)


@pytest.fixture
def caller(server):
    return server.new_client(scopes=["imports"])


def credentials(caller):
    return {"DATAFLOW_CLIENT_ID": caller.id, "DATAFLOW_CLIENT_SECRET": caller.secret}


def batch_of(output):
    return re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", output)[0]


class Watch:
    """The command while it runs."""

    def __init__(self, server, caller, *args, terminal=False):
        self.master = None
        stderr = subprocess.PIPE
        if terminal:
            self.master, stderr = pty.openpty()
            fcntl.ioctl(stderr, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen([BIN, "import", *map(str, args), "--server", server.url],
                                        stdout=subprocess.PIPE, stderr=stderr, env=environment(**credentials(caller)))
        if terminal:
            os.close(stderr)
        self.told = b""
        self.said = b""
        self.threads = [threading.Thread(target=self._read_told), threading.Thread(target=self._read_said)]
        for thread in self.threads:
            thread.start()

    def _read_told(self):
        while data := self._read():
            self.told += data

    def _read(self):
        try:
            return os.read(self.master or self.process.stderr.fileno(), 4096)
        except OSError:
            return b""  # the other end of a terminal is closed

    def _read_said(self):
        self.said = self.process.stdout.read()

    def wait_for(self, pattern):
        return wait_for(lambda: re.search(pattern, self.told.decode(errors="replace")), f"{pattern} in {self.told}")

    def end(self):
        """(exit status, standard output, standard error)"""
        code = self.process.wait(TIMEOUT)
        for thread in self.threads:
            thread.join()
        if self.master:
            os.close(self.master)
        else:
            self.process.stderr.close()
        self.process.stdout.close()
        assert not SANITIZER.search(self.told.decode()), self.told.decode()
        return code, self.said.decode(), self.told.decode()


def test_an_upload_is_told_and_can_be_looked_at(server, caller, file):
    done = run("import", file, "--server", server.url + "/", "--origin", "Fair", env=credentials(caller))
    assert done.returncode == 0, done.stderr
    batch_id = batch_of(done.stdout)
    assert f"batch {batch_id}: Pending\n" in done.stdout
    assert f"dataflow import --batch {batch_id} --watch --server {server.url}/" in done.stdout
    batch = caller.get(f"/imports/{batch_id}").json
    assert (batch["fileName"], batch["originDefault"], batch["fileType"]) == ("leads.json", "Fair", "Json")
    assert batch["fileSizeBytes"] == len(LEADS)
    looked = run("import", "--batch", batch_id.upper(), "--server", server.url, env=credentials(caller))
    assert looked.returncode == 0 and looked.stdout.startswith(f"leads.json: Pending\nbatch     {batch_id}\n")
    assert looked.stderr == ""


def test_credentials_by_options_and_the_answer_as_json(server, caller, file):
    done = run("import", file, "--json", "--server", server.url, "--client-id", caller.id,
               "--client-secret", caller.secret)
    assert done.returncode == 0 and done.stderr == ""
    answer = json.loads(done.stdout)
    assert answer["status"] == "Pending"
    looked = run("import", "--batch", answer["batchId"], "--json", "--server", server.url, env=credentials(caller))
    assert json.loads(looked.stdout) == caller.get(f"/imports/{answer['batchId']}").json


def test_a_large_file_is_streamed_with_a_line_for_every_tenth(server, caller, tmp_path):
    path = tmp_path / "large.json"
    with open(path, "w", encoding="utf-8") as f:
        f.write("[")
        f.write(",".join('{"PhoneNumber":"+5511912345678","x":"' + "y" * 1000 + '"}' for _ in range(100000)))
        f.write("]")
    argv = ["/usr/bin/time", "-f", "%M KB", BIN, "import", path, "--server", server.url]
    done = subprocess.run(argv, env=environment(**credentials(caller)), capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("upload")]
    percents = [int(re.search(r"(\d+) %", line)[1]) for line in lines]
    assert percents[-1] == 100 and percents == sorted(set(percents)) and 2 <= len(percents) <= 10
    assert all(re.search(r"of 9\d\.\d MiB", line) for line in lines)
    if "asan" not in BIN:
        assert int(re.search(r"(\d+) KB", done.stderr)[1]) < 40000, "memory does not grow with the file"


def test_watching_without_a_terminal(server, rows, caller, file):
    watch = Watch(server, caller, file, "--watch")
    batch_id = batch_of(watch.wait_for(r"batch (\S+)\n")[0])
    rows.change(batch_id, Status=PROCESSING, StartedAt=at(1), TotalRecords=50)
    watch.wait_for(r"processing    0 %  0 of 50 records, 0 errors")
    rows.change(batch_id, ProcessedRecords=25, ErrorCount=2)
    watch.wait_for(r"processing   50 %  25 of 50 records, 2 errors")
    rows.change(batch_id, ProcessedRecords=26)
    rows.change(batch_id, ProcessedRecords=50, ErrorCount=0, SkippedCount=1, Status=COMPLETED, CompletedAt=at(4))
    code, said, told = watch.end()
    assert code == 0
    assert said == (f"leads.json: Completed\nbatch     {batch_id}\nrecords   50\nimported  49\nerrors    0\n"
                    "skipped   1\ntook      3.0 s\n")
    assert told.splitlines()[-1].startswith("processing  100 %  50 of 50 records, 0 errors")
    assert "\033" not in told and "\r" not in told


@pytest.mark.parametrize("status,name", [(WITH_ERRORS, "CompletedWithErrors"), (FAILED, "Failed")])
def test_an_end_that_is_not_completed(server, rows, caller, file, status, name):
    watch = Watch(server, caller, file, "--watch")
    batch_id = batch_of(watch.wait_for(r"batch (\S+)\n")[0])
    rows.change(batch_id, Status=status, ProcessedRecords=1234567, TotalRecords=1234567, ErrorCount=1234,
                LastError="a\x1b[31mb\nc")
    code, said, _ = watch.end()
    assert code == 1
    assert f"leads.json: {name}\n" in said and "records   1,234,567\n" in said and "errors    1,234\n" in said
    assert "reason    a [31mb c\n" in said
    assert f"{server.url}/imports/{batch_id}/errors.xlsx\n" in said
    assert caller.secret not in said


def test_watching_as_json_says_one_thing(server, rows, caller, file):
    watch = Watch(server, caller, file, "--watch", "--json")
    batch_id = wait_for(lambda: caller.get("/imports").json["items"], "the batch")[0]["batchId"]
    rows.change(batch_id, Status=COMPLETED)
    code, said, told = watch.end()
    assert code == 0 and told == ""
    assert json.loads(said) == caller.get(f"/imports/{batch_id}").json


def test_on_a_terminal_a_line_is_drawn_again(server, rows, caller, file):
    watch = Watch(server, caller, file, "--watch", terminal=True)
    batch_id = batch_of(watch.wait_for(r"batch (\S+)\r\n")[0])
    watch.wait_for(r"\rPending: waits for its turn\x1b\[K")
    rows.change(batch_id, Status=SCHEDULED, ScheduledFor=at(59))
    watch.wait_for(r"\rScheduled: waits until 2026-01-02T03:00:59.678Z\x1b\[K")
    rows.change(batch_id, Status=PROCESSING, TotalRecords=50, ProcessedRecords=10)
    watch.wait_for(r"\rprocessing  \[####\.+\]  20 %  10 of 50 records, 0 errors")
    time.sleep(0.7)
    rows.change(batch_id, ProcessedRecords=40, ErrorCount=3)
    watch.wait_for(r"\rprocessing  \[#{19}\.+\]  80 %  40 of 50 records, 3 errors, \d+/s, \d+\.\d s left")
    rows.change(batch_id, Status=COMPLETED, ProcessedRecords=50)
    code, said, told = watch.end()
    assert code == 0 and said.startswith("leads.json: Completed\n")
    assert re.search(r"\[#{24}\] 100 %.*\r?\n$", told)


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_watching(server, caller, file, sig):
    watch = Watch(server, caller, file, "--watch")
    batch_id = batch_of(watch.wait_for(r"batch (\S+)\n")[0])
    time.sleep(0.3)
    watch.process.send_signal(sig)
    code, said, told = watch.end()
    assert code == 130 and said == ""
    again = f"dataflow import --batch {batch_id} --watch --server {server.url}\n"
    assert "the import goes on; look again with: " + again in told
    assert caller.get(f"/imports/{batch_id}").json["status"] == "Pending"


def test_a_server_that_is_started_again_is_waited_for(make_server, file):
    server = make_server(config={"server": {"listen": f"127.0.0.1:{pg.free_port()}"}})
    caller, rows = server.new_client(scopes=["imports"]), Rows(server.backend)
    watch = Watch(server, caller, file, "--watch")
    batch_id = batch_of(watch.wait_for(r"batch (\S+)\n")[0])
    assert server.stop() == 0
    watch.wait_for("trying again")
    server.start()
    rows.change(batch_id, Status=COMPLETED)
    code, said, _ = watch.end()
    assert code == 0 and said.startswith("leads.json: Completed\n")


def test_from_the_file_to_acknowledged_leads(make_server, tmp_path):
    """With the sandbox as OmniFlow, which refuses one of them; another has no phone, a third comes twice."""
    box = Sandbox(tmp_path)
    url = "http://{}:{}".format(*box.host_port)
    server = make_server(config={"omniflow": {"url": url, "api_key": "k", "batch_size": 10}})
    caller = server.new_client(scopes=["imports"])
    records = [{"Telefone": f"11 9{i:08}", "Nome": f"n{i}"} for i in range(100, 150)]
    records[7]["sandboxError"] = "known already"
    records[20] = {"Nome": "nobody"}
    path = tmp_path / "leads.json"
    path.write_text(json.dumps(records[:1] + records), encoding="utf-8")
    watch = Watch(server, caller, path, "--watch", "--origin", "Fair")
    code, said, _ = watch.end()
    assert code == 1 and "leads.json: CompletedWithErrors\n" in said
    for line in ("records   51", "imported  48", "errors    2", "skipped   1"):
        assert line + "\n" in said
    batch_id = batch_of(said)
    failed = caller.get(f"/imports/{batch_id}/items?status=Error").json["items"]
    assert [(i["sequence"], i["errorMessage"]) for i in failed] == [(8, "known already"),
                                                                     (21, "PhoneNumber: there is none")]
    assert failed[0]["payload"]["PhoneNumber"] == "+5511900000107" and failed[0]["payload"]["Origin"] == "Fair"
    table = caller.get(f"/imports/{batch_id}/errors.csv").body.decode("utf-8-sig").splitlines()
    assert table == ["Telefone,Nome,sandboxError,DataFlow Sequence,DataFlow Error",
                     "11 900000107,n107,known already,8,known already", ",nobody,,21,PhoneNumber: there is none"]
    assert [i["sequence"] for i in caller.get(f"/imports/{batch_id}/items?status=Skipped").json["items"]] == [1]
    batch = caller.get(f"/imports/{batch_id}").json
    assert (batch["totalRecords"], batch["processedRecords"], batch["importedCount"]) == (51, 51, 48)
    box.finish()


def test_what_the_server_refuses_is_told(server, caller, file, tmp_path):
    unknown = "00000000-0000-4000-8000-000000000000"
    cases = [
        ((file,), {**credentials(caller), "DATAFLOW_CLIENT_SECRET": "wrong"}, "the server answered 401"),
        (("--batch", unknown), credentials(caller), "the server answered 404: There is no import"),
        (("--batch", unknown, "--watch"), credentials(caller), "the server answered 404"),
        ((file,), credentials(server.new_client(scopes=["acks"])), "the server answered 403"),
        ((file, "--origin", "x" * 300), credentials(caller), "originDefault: "),
    ]
    for args, env, expected in cases:
        done = run("import", *args, "--server", server.url, env=env)
        assert done.returncode == 1 and done.stdout == "", done
        assert expected in done.stderr and "correlation id" in done.stderr, done.stderr


def test_a_file_that_is_refused_while_it_is_sent(make_server, tmp_path):
    server = make_server(config={"server": {"max_upload_bytes": 1000000}})
    path = tmp_path / "large.csv"
    path.write_bytes(b"phone,name\n" + b"11912345678,x\n" * 1000000)
    done = run("import", path, "--server", server.url, env=credentials(server.new_client(scopes=["imports"])))
    assert done.returncode == 1 and "the server answered 413" in done.stderr, done.stderr


def test_nobody_there(file):
    done = run("import", file, "--server", "http://127.0.0.1:1", env=SOMEBODY)
    assert done.returncode == 1 and "http://127.0.0.1:1: " in done.stderr


@pytest.mark.parametrize("args,expected", [
    ((), "usage: dataflow import"),
    (("FILE", "FILE"), "usage: dataflow import"),
    (("FILE", "--batch", "00000000-0000-4000-8000-000000000000"), "usage: dataflow import"),
    (("--batch", "1"), "usage: dataflow import"),
    (("FILE", "--nonsense"), "unknown option --nonsense"),
    (("missing.json",), "missing.json: No such file or directory"),
    (("/",), "/: not a file"),
    (("/dev/null",), "/dev/null: not a file"),
    (("EMPTY",), "the file is empty"),
    (("FILE", "--server", "ftp://x"), "--server: "),
    (("FILE", "--client-id", "a\nb"), "cannot be sent in a header"),
])
def test_wrong_usage(file, tmp_path, args, expected):
    (tmp_path / "empty").touch()
    names = {"FILE": str(file), "EMPTY": str(tmp_path / "empty")}
    done = run("import", *(names.get(a, a) for a in args), env=SOMEBODY, cwd=tmp_path)
    assert done.returncode == 2 and expected in done.stderr and done.stdout == "", done


def test_without_credentials(file):
    done = run("import", file)
    assert done.returncode == 2 and "DATAFLOW_CLIENT_SECRET" in done.stderr


def test_a_mapping_and_a_preview(server, caller, tmp_path):
    leads, mapping = tmp_path / "leads.csv", tmp_path / "mapping.json"
    leads.write_text("Contato;Nome\n11 91234-5678;Ana\n123;Bia\n", encoding="utf-8")
    mapping.write_text('{"Contato": "PhoneNumber"}', encoding="utf-8")
    env = credentials(caller)
    done = run("import", leads, "--mapping", mapping, "--preview", "--server", server.url, env=env)
    assert done.returncode == 0, done
    assert re.search(r"Contato +PhoneNumber +mapping", done.stdout) and re.search(r"PhoneTooShort +1 +3", done.stdout)
    done = run("import", leads, "--preview", "--json", "--server", server.url, env=env)
    assert json.loads(done.stdout)["columns"][0] == {
        "name": "Contato", "canonical": None, "by": None, "samples": ["11 91234-5678", "123"]}
    assert caller.get("/imports").json["total"] == 0
    done = run("import", leads, "--mapping", mapping, "--server", server.url, env=env)
    assert done.returncode == 0 and caller.get("/imports").json["total"] == 1
    for wrong in (("--preview", "--watch"), ("--mapping", tmp_path / "nothing.json")):
        assert run("import", leads, *wrong, "--server", server.url, env=env).returncode == 2
    mapping.write_text('{"Contato": "Phone"}', encoding="utf-8")
    assert run("import", leads, "--mapping", mapping, "--server", server.url, env=env).returncode == 1
