"""The chart: what it makes is valid Kubernetes, hardened, and of commands and variables that really exist."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from services.server.cli import main as server_main
from tests.deploy.chart import CHART, default_values, manifests, merged, rendered
from tests.deploy.dockerfile import images
from tests.deploy.settings_of import variables
from workers.settings import WorkerSettings

#: Of the Prometheus operator: Kubernetes has no schema of them.
CUSTOM = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
POSTGRES = {"bundled": True, "storageClass": "fast"}
GPU_CLASS = {
    "name": "l4", "kind": "DaemonSet", "replicas": 1, "device": "cuda", "role": "both", "target": {},
    "profiles": "l4", "gpus": 1,
    "cpu": "4", "memory": "16Gi", "workSize": "4Gi", "nodeSelector": {"gpu": "l4"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "runtimeClassName": "nvidia", "settings": {"TILEFARM_WORKER_MAX_WAITING": 4},
}  # fmt: skip
BOARD_TARGET = {"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 4}
#: A board that only times, and who builds for it.
BOARD_CLASSES = [
    {**GPU_CLASS, "name": name, "device": "cpu", "gpus": 0, "role": role, "target": BOARD_TARGET}
    for name, role in (("board", "measure"), ("board-builder", "build"))
]
CASES: dict[str, dict[str, Any]] = {
    "boards": {"workers": BOARD_CLASSES},
    "defaults": {},
    "bundled": {"postgresql": POSTGRES, "valkey": {"bundled": True}},
    "all": {
        "postgresql": POSTGRES,
        "valkey": {"bundled": True},
        "image": {"registry": "registry.example.com/farm", "tag": "1.2.3", "pullSecrets": ["pull"]},
        "secrets": {"existingSecret": "tilefarm", "signingKey": True, "workerTokenName": "workers"},
        "settings": {"api": {"TILEFARM_MAX_TRIALS": 5000}, "tuner": {"TILEFARM_MAX_CHILDREN": 6}},
        "api": {"ingress": {"enabled": True, "className": "nginx"}},
        "workers": [*default_values()["workers"], GPU_CLASS],
        "retention": {"enabled": True, "days": 90},
        "monitoring": {
            "serviceMonitor": True,
            "rules": True,
            "dashboard": True,
            "labels": {"release": "prom"},
        },
    },
    "plain": {
        "api": {"autoscaling": {"enabled": False}, "podDisruptionBudget": {"enabled": False}},
        "networkPolicy": {
            "apiFrom": [{"namespaceSelector": {"matchLabels": {"name": "ci"}}}],
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            "databaseTo": [{"ipBlock": {"cidr": "10.0.0.0/24"}}],
            "brokerTo": [{"ipBlock": {"cidr": "10.0.1.0/24"}}],
        },
    },
}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, list[dict[str, Any]]]:
    return {name: manifests(tmp_path_factory.mktemp(name), changes) for name, changes in CASES.items()}


def of_kind(objects: list[dict[str, Any]], *kinds: str) -> dict[str, dict[str, Any]]:
    """By name."""
    return {each["metadata"]["name"]: each for each in objects if each["kind"] in kinds}


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Pod templates by the name of what makes them."""
    makers = of_kind(objects, "Deployment", "DaemonSet", "StatefulSet", "Job")
    crons = of_kind(objects, "CronJob")
    specs = {name: maker["spec"] for name, maker in makers.items()}
    specs |= {name: cron["spec"]["jobTemplate"]["spec"] for name, cron in crons.items()}
    return {name: spec["template"] for name, spec in specs.items()}


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


@pytest.mark.parametrize("case", CASES)
def test_every_object_is_valid_kubernetes(made, case):
    for each in made[case]:
        if each["kind"] not in CUSTOM:
            kubernetes_validate.validate(each, "1.37", strict=True)


def test_nothing_stands_twice(made):
    for objects in made.values():
        names = [(each["kind"], each["metadata"]["name"]) for each in objects]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("case", CASES)
def test_every_pod_is_hardened_and_bounded(made, case):
    for name, pod in pods(made[case]).items():
        assert pod["spec"]["automountServiceAccountToken"] is False, name
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True, name
        assert pod["spec"]["securityContext"]["runAsUser"] > 0, name
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
            assert container["resources"]["limits"].keys() >= {"cpu", "memory"}, name


@pytest.mark.parametrize("case", CASES)
def test_no_secret_is_in_a_manifest_and_each_file_is_mounted(made, case):
    assert not of_kind(made[case], "Secret")
    for name, pod in pods(made[case]).items():
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        mounted = {item["path"] for item in volumes["secrets"]["secret"]["items"]}
        assert volumes["secrets"]["secret"]["secretName"] == "tilefarm"
        for container in containers(pod):
            given = {entry["name"]: entry.get("value") for entry in container.get("env", ())}
            assert not {"TILEFARM_DATABASE_URL", "TILEFARM_BROKER_URL", "TILEFARM_TOKEN"} & given.keys()
            files = {Path(str(value)).name for key, value in given.items() if key.endswith("_FILE")}
            assert files <= mounted, name


def test_roles_get_variables_that_their_settings_know(made):
    roles = {
        "farm-api": ("api", "api"),
        "farm-tuner": ("tuner", "tuner"),
        "farm-worker-cpu": ("worker", "worker"),
        "farm-worker-l4": ("worker", "worker-cuda"),
    }
    found = pods(made["all"])
    for name, (role, image) in roles.items():
        (container,) = containers(found[name])
        given = {entry["name"] for entry in container["env"]} - {"NODE_NAME", "POD_NAME"}
        assert given <= variables(role), name
        assert container["image"] == f"registry.example.com/farm/{image}:1.2.3"
        assert container["args"] == images()[role].command[1:]


def test_who_builds_for_gpus_without_one_has_the_compiler_for_them(tmp_path):
    target = {"kind": "cuda", "arch": "sm_90", "max_threads_per_block": 1024}
    classes = [
        {**GPU_CLASS, "name": name, "device": "cpu", "gpus": 0, "role": "build", "target": each}
        for name, each in (("told", target), ("tagged", {"tag": "nvidia/nvidia-h100"}), ("cpu", BOARD_TARGET))
    ]
    made = pods(manifests(tmp_path, {"workers": classes}))
    images_of = {
        name: containers(pod)[0]["image"].rpartition("/")[2].split(":")[0] for name, pod in made.items()
    }
    assert images_of["farm-worker-told"] == images_of["farm-worker-tagged"] == "worker-cuda"
    assert images_of["farm-worker-cpu"] == "worker"


def test_probes_ask_health_for_life_and_readiness_for_work(made):
    ports = {"farm-api": 8765, "farm-tuner": 9101, "farm-worker-cpu": 9102}
    for name, number in ports.items():
        (container,) = containers(pods(made["defaults"])[name])
        (port,) = container["ports"]
        assert port["containerPort"] == number
        assert number in images()[name.split("-")[1]].ports
        asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
        assert {get["port"] for get in asked.values()} == {port["name"]}
        assert (asked["liveness"]["path"], asked["readiness"]["path"]) == ("/healthz", "/readyz")


def test_selectors_select_their_own_pods_and_no_others(made):
    found = pods(made["all"])
    labels = {name: pod["metadata"]["labels"] for name, pod in found.items()}
    makers = of_kind(made["all"], "Deployment", "DaemonSet", "StatefulSet")
    for name, maker in makers.items():
        wanted = maker["spec"]["selector"]["matchLabels"].items()
        assert [other for other, own in labels.items() if wanted <= own.items()] == [name]


def test_a_gpu_class_takes_gpus_where_they_are(made):
    maker = of_kind(made["all"], "DaemonSet")["farm-worker-l4"]
    assert "replicas" not in maker["spec"]
    spec = maker["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"gpu": "l4"}
    assert spec["tolerations"] == GPU_CLASS["tolerations"]
    assert spec["runtimeClassName"] == "nvidia"
    resources = spec["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"] == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": 1}


def test_a_cpu_class_has_cores_of_its_own(made):
    resources = containers(pods(made["defaults"])["farm-worker-cpu"])[0]["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "2", "memory": "4Gi"}


def test_the_api_scales_is_spared_and_ends_tls(made):
    scaler = of_kind(made["all"], "HorizontalPodAutoscaler")["farm-api"]["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 8)
    deployment = of_kind(made["all"], "Deployment")["farm-api"]["spec"]
    # A number in the manifest would undo the autoscaler's at every upgrade.
    assert "replicas" not in deployment
    assert of_kind(made["plain"], "Deployment")["farm-api"]["spec"]["replicas"] == 2
    budget = of_kind(made["all"], "PodDisruptionBudget")["farm-api"]["spec"]
    assert budget["selector"] == deployment["selector"]
    (tls,) = of_kind(made["all"], "Ingress")["farm-api"]["spec"]["tls"]
    assert tls == {"hosts": ["tilefarm.example.com"], "secretName": "tilefarm-tls"}
    annotations = of_kind(made["all"], "Ingress")["farm-api"]["metadata"]["annotations"]
    body_size = annotations["nginx.ingress.kubernetes.io/proxy-body-size"]
    assert int(body_size.removesuffix("m")) << 20 > WorkerSettings().max_artifact_bytes
    assert not of_kind(made["plain"], "HorizontalPodAutoscaler", "PodDisruptionBudget", "Ingress")


@pytest.mark.parametrize(
    ("case", "upgrade", "hook"),
    [
        ("defaults", False, "pre-install,pre-upgrade"),
        ("defaults", True, "pre-install,pre-upgrade"),
        ("bundled", True, "pre-install,pre-upgrade"),
        # A hook after the install would come only when the workers are ready, whose token it adopts.
        ("bundled", False, None),
    ],
)
def test_the_schema_comes_first_and_then_the_token(tmp_path, case, upgrade, hook):
    job = migration(manifests(tmp_path, CASES[case], upgrade=upgrade))
    assert job["metadata"]["annotations"].get("helm.sh/hook") == hook
    spec = job["spec"]["template"]["spec"]
    assert [each["args"][:2] for each in spec["initContainers"]] == [images()["admin"].command[1:]]
    assert spec["containers"][0]["args"][:3] == ["token", "adopt", "workers"]


def migration(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (job,) = of_kind(objects, "Job").values()
    return job


def test_old_trials_are_thinned_where_that_is_asked_for_by_a_command_that_exists(made, tmp_path, monkeypatch):
    assert not of_kind(made["defaults"], "CronJob")
    (cron,) = of_kind(made["all"], "CronJob").values()
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"
    (container,) = containers(cron["spec"]["jobTemplate"]["spec"]["template"])
    assert container["args"][2:] == ["--days", "90", "--keep", "128"]
    monkeypatch.setenv("TILEFARM_DATABASE_URL", f"sqlite:///{tmp_path}/farm.db")
    assert server_main(["db", "upgrade"]) == 0
    assert server_main(container["args"]) == 0


def test_what_knows_no_upgrade_runs_the_migration_between_the_database_and_the_others(made):
    """Argo CD renders each upgrade as an install; Helm's hooks would come before the database is there."""
    waves: dict[int, set[str]] = {}
    for each in made["bundled"]:
        wave = each["metadata"].get("annotations", {}).get("argocd.argoproj.io/sync-wave", "0")
        waves.setdefault(int(wave), set()).add(each["kind"])
    assert sorted(waves) == [-2, -1, 0]
    assert waves[-2] == {"StatefulSet", "Service"}
    assert waves[-1] == {"Job"}
    job = migration(made["bundled"])["metadata"]["annotations"]
    assert job["argocd.argoproj.io/hook"] == "Sync"
    assert job["argocd.argoproj.io/hook-delete-policy"] == "BeforeHookCreation"
    assert not [name for name in migration(made["defaults"])["metadata"]["annotations"] if "argocd" in name]


def test_another_image_or_token_is_another_job_and_the_same_is_the_same(tmp_path):
    """`kubectl apply` may not change a Job's pods."""

    def name(changes: dict[str, Any]) -> str:
        return migration(manifests(tmp_path, changes))["metadata"]["name"]

    changed = [
        {"image": {"tag": "2"}},
        {"secrets": {"workerTokenName": "workers-2"}},
        {"migration": {"backoffLimit": 1}},
    ]
    assert len({name(changes) for changes in [{}, *changed]}) == 4
    assert name({}) == name({"api": {"replicas": 3}})


def test_a_board_runs_the_image_without_a_compiler_and_names_its_target(made):
    found = pods(made["boards"])
    for name, image, role in (("board", "measurer", "measure"), ("board-builder", "worker", "build")):
        (container,) = containers(found[f"farm-worker-{name}"])
        assert f"/{image}:" in container["image"]
        variables = {each["name"]: each.get("value") for each in container["env"]}
        assert variables["TILEFARM_WORKER_ROLE"] == role
        assert json.loads(variables["TILEFARM_WORKER_TARGET"]) == BOARD_TARGET
    (container,) = containers(pods(made["defaults"])["farm-worker-cpu"])
    assert "TILEFARM_WORKER_TARGET" not in {each["name"] for each in container["env"]}


def test_workers_reach_api_and_broker_and_nothing_else(made):
    for case, database in (("bundled", 5432), ("plain", 5432)):
        policies = of_kind(made[case], "NetworkPolicy")
        ports = {
            name: {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
            for name, policy in policies.items()
        }
        assert ports["farm-worker-cpu"] == {53, 8765, 6379}
        assert ports["farm-api"] == ports["farm-tuner"] == {53, database, 6379}
        assert ports["farm-migrate"] == {53, database}
        for policy in policies.values():
            assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        selected = [policy["spec"]["podSelector"]["matchLabels"] for policy in policies.values()]
        for pod in pods(made[case]).values():
            assert any(labels.items() <= pod["metadata"]["labels"].items() for labels in selected)


def test_monitors_select_what_has_metrics(made):
    monitor = of_kind(made["all"], "ServiceMonitor")["farm-api"]
    service = of_kind(made["all"], "Service")["farm-api"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    processes = of_kind(made["all"], "PodMonitor")["farm-processes"]["spec"]
    (expression,) = processes["selector"]["matchExpressions"]
    parts = {
        pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods(made["all"]).values()
    } - set(expression["values"])
    assert parts == {"tuner", "worker-cpu", "worker-l4"}


def test_rules_and_dashboard_are_those_of_the_files(made):
    rules = of_kind(made["all"], "PrometheusRule")["farm"]["spec"]
    assert rules == yaml.safe_load((CHART / "monitoring" / "alerts.yaml").read_text(encoding="utf-8"))
    board = of_kind(made["all"], "ConfigMap")["farm-dashboard"]["data"]["tilefarm.json"]
    assert json.loads(board)["title"] == "tilefarm"


def test_a_bundled_database_is_ready_when_others_reach_it(made):
    """The image's first server, which makes the database, listens at its socket alone."""
    (container,) = containers(pods(made["bundled"])["farm-postgresql"])
    assert "--host" in container["readinessProbe"]["exec"]["command"]


def test_a_release_name_may_be_long(tmp_path):
    for each in manifests(
        tmp_path, CASES["all"], release="a-very-long-name-of-a-release-that-helm-takes-yet-53"
    ):
        assert len(each["metadata"]["name"]) <= 63
        if each["kind"] not in CUSTOM:
            kubernetes_validate.validate(each, "1.37", strict=True)


def test_the_notes_name_a_command_that_exists(tmp_path):
    notes = rendered(tmp_path, CHART / "templates" / "NOTES.txt", {})
    assert "tilefarm-server token create alice --scope jobs:read" in notes


@pytest.mark.parametrize("case", CASES)
def test_the_schema_of_values_takes_what_is_right(case):
    jsonschema.validate(merged(default_values(), CASES[case]), schema())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"api": {"replicas": 0}}, "api.replicas"),
        ({"api": {"replica": 2}}, "api"),
        ({"secrets": {"existingSecret": ""}}, "secrets.existingSecret"),
        ({"settings": {"api": {"TILEFARM_DATABASE_URL": "postgresql://user:password@db"}}}, "settings.api"),
        ({"settings": {"tuner": {"PATH": "/"}}}, "settings.tuner"),
        ({"workers": [{**GPU_CLASS, "kind": "Pod"}]}, "workers.0.kind"),
        ({"workers": [{**GPU_CLASS, "role": "time"}]}, "workers.0.role"),
        ({"workers": [{**BOARD_CLASSES[0], "target": {}}]}, "workers.0.target"),
        ({"workers": [{**GPU_CLASS, "name": "L4 GPU"}]}, "workers.0.name"),
        ({"tuner": {"resources": {"limits": {"cpu": "lots"}}}}, "tuner.resources"),
        ({"networkPolicy": {"databasePort": 70000}}, "networkPolicy.databasePort"),
        ({"retention": {"schedule": "nightly"}}, "retention.schedule"),
        ({"retention": {"keep": 1}}, "retention.keep"),
    ],
)
def test_the_schema_of_values_refuses_what_is_wrong(changes, named):
    faults = jsonschema.Draft7Validator(schema()).iter_errors(merged(default_values(), changes))
    found = {".".join(str(part) for part in fault.absolute_path) for fault in faults}
    assert any(path == named or path.startswith(f"{named}.") for path in found), found


def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return found
