"""The manifest for Kubernetes says of `reenact serve` what is so."""

from __future__ import annotations

import re
import tomllib

from packaging.requirements import Requirement

from reenact.actors.journal.opening import is_postgres
from reenact.server.app import OPEN
from reenact.server.http import READY_WITHIN
from reenact.server.service import check_token
from tests.deploy.deployed import (
    container,
    container_command,
    dockerfile,
    manifests,
    pod,
    seconds_to_end,
    variables,
)
from tests.docs.pages import ROOT
from tests.jsons import array_at, at, object_at

LABELS = {"app": "reenact"}


def test_it_has_what_a_deployment_of_several_nodes_needs_and_nothing_else() -> None:
    assert manifests().keys() == {"Secret", "Deployment", "Service", "PodDisruptionBudget"}
    assert at(int, manifests()["Deployment"], "spec", "replicas") >= 2


def test_what_selects_pods_selects_these() -> None:
    all_of_it = manifests()

    assert object_at(all_of_it["Deployment"], "spec", "template", "metadata", "labels") == LABELS
    assert object_at(all_of_it["Deployment"], "spec", "selector", "matchLabels") == LABELS
    assert object_at(all_of_it["PodDisruptionBudget"], "spec", "selector", "matchLabels") == LABELS
    assert object_at(all_of_it["Service"], "spec", "selector") == LABELS
    (spread,) = array_at(pod(), "topologySpreadConstraints")
    assert object_at(spread, "labelSelector", "matchLabels") == LABELS


def test_the_container_listens_where_the_service_and_the_probes_look() -> None:
    command = container_command()
    (port,) = array_at(container(), "ports")
    (served,) = array_at(manifests()["Service"], "spec", "ports")

    assert command[command.index("--port") + 1] == str(at(int, port, "containerPort"))
    names = {at(str, served, "targetPort")} | {
        at(str, container(), probe, "httpGet", "port") for probe in ("readinessProbe", "livenessProbe")
    }
    assert names == {at(str, port, "name")}


def test_probes_need_no_token_and_more_time_than_the_answer_may_take() -> None:
    ready, alive = (object_at(container(), probe) for probe in ("readinessProbe", "livenessProbe"))

    paths = [at(str, probe, "httpGet", "path") for probe in (ready, alive)]
    assert paths == ["/ready", "/health"]
    assert set(paths) <= OPEN
    assert at(int, ready, "timeoutSeconds") > READY_WITHIN


def test_the_pod_has_more_time_to_end_than_the_node_takes() -> None:
    _, pause = array_at(container(), "lifecycle", "preStop", "exec", "command")
    ready = object_at(container(), "readinessProbe")

    assert int(pause) >= at(int, ready, "periodSeconds") * at(int, ready, "failureThreshold")
    assert at(int, pod(), "terminationGracePeriodSeconds") > 2 * seconds_to_end() + int(pause)


def test_a_node_is_always_left() -> None:
    rolling = object_at(manifests()["Deployment"], "spec", "strategy", "rollingUpdate")

    assert at(int, rolling, "maxUnavailable") == 0
    assert at(int, manifests()["PodDisruptionBudget"], "spec", "minAvailable") >= 1


def test_the_secret_has_what_the_container_takes_from_it() -> None:
    secret = object_at(manifests()["Secret"], "stringData")
    name = at(str, manifests()["Secret"], "metadata", "name")
    given = {name: each["valueFrom"]["secretKeyRef"] for name, each in variables().items() if "valueFrom" in each}
    tokens, _ = array_at(pod(), "volumes")
    (item,) = array_at(tokens, "secret", "items")
    mounted, _ = array_at(container(), "volumeMounts")
    command = container_command()

    assert {each["name"] for each in given.values()} == {name} == {at(str, tokens, "secret", "secretName")}
    assert {variable: each["key"] for variable, each in given.items()} == {
        "REENACT_DB": "database",
        "ANTHROPIC_API_KEY": "anthropic-api-key",
    }
    assert {*(each["key"] for each in given.values()), at(str, item, "key")} == secret.keys()
    assert is_postgres(at(str, secret, "database"))
    assert check_token(at(str, secret, "tokens").strip())
    path = f"{at(str, mounted, 'mountPath')}/{at(str, item, 'path')}"
    assert command[command.index("--token-file") + 1] == path


def test_clients_may_call_it_by_the_name_of_the_service() -> None:
    command = container_command()

    assert command[command.index("--host-name") + 1] == at(str, manifests()["Service"], "metadata", "name")


def test_the_image_has_the_extras_that_the_command_needs_and_the_user_that_the_pod_runs_as() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = re.search(r"'(reenact\[.*\])'", dockerfile()["RUN"])
    assert installed is not None

    wanted = Requirement(installed[1]).extras

    assert wanted == {"claude", "cli", "postgresql", "server"}
    assert wanted <= extras.keys()
    security = object_at(pod(), "securityContext")
    assert dockerfile()["USER"] == f"{security['runAsUser']}:{security['runAsGroup']}"


def test_whatever_is_mounted_is_a_volume_and_nothing_else_can_be_written() -> None:
    mounts = {at(str, each, "name"): at(str, each, "mountPath") for each in array_at(container(), "volumeMounts")}

    assert mounts.keys() == {at(str, each, "name") for each in array_at(pod(), "volumes")}
    assert at(bool, container(), "securityContext", "readOnlyRootFilesystem")
    assert variables()["HOME"]["value"] == mounts["tmp"]
