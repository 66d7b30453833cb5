#!/usr/bin/python3
"""kubernetes_test.py TOOL: deploy/kubernetes.yaml is what Kubernetes' API has, and its parts fit each other and the tool.

python3-kubernetes of Debian, generated from that API, reads each object and writes it again: a field that it does not know is lost
on the way, a value of another type comes out as another one, and a missing field is an error. (Debian's Python, whose packages
are wanted, and not any other.)
"""
import copy
import json
import pathlib
import subprocess
import sys
import types
import unittest

try:
    import kubernetes.client
    import yaml
except ImportError as error:
    print(f"skipped: {error} (Debian's python3-kubernetes)")
    sys.exit(77)

TOOL = sys.argv.pop() if len(sys.argv) > 1 else "reprofuse"
MANIFEST = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "kubernetes.yaml"
API = kubernetes.client.ApiClient()


def problem(document):
    """What is wrong with an object, or None."""
    name = "V1" + document.get("kind", "Nothing")
    try:
        known = API.deserialize(types.SimpleNamespace(data=json.dumps(document)), name)
    except (AttributeError, TypeError, ValueError) as error:
        return f"{name}: {error}"
    again = API.sanitize_for_serialization(known)
    return None if again == document else f"{name}: {document} is understood as {again}"


class Manifest(unittest.TestCase):
    def setUp(self):
        documents = list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))
        self.documents = documents
        (self.service,) = [one for one in documents if one["kind"] == "Service"]
        (self.deployment,) = [one for one in documents if one["kind"] == "Deployment"]
        self.pod = self.deployment["spec"]["template"]
        (self.container,) = self.pod["spec"]["containers"]

    def test_every_object_is_of_the_api(self):
        for document in self.documents:
            self.assertIsNone(problem(document))

    def test_what_is_not_of_the_api_is_found(self):
        def broken(change):
            document = copy.deepcopy(self.deployment)
            change(document["spec"]["template"]["spec"]["containers"][0])
            return problem(document)

        self.assertIsNone(broken(lambda container: None))
        self.assertIsNotNone(broken(lambda container: container.update(readynessProbe=container.pop("readinessProbe"))))
        self.assertIsNotNone(broken(lambda container: container["ports"][0].update(containerPort="8000")))
        self.assertIsNotNone(broken(lambda container: container["resources"]["limits"].update(cpu=4)))
        self.assertIsNotNone(broken(lambda container: container.pop("name")))
        self.assertIsNotNone(problem({"apiVersion": "apps/v1", "kind": "Deploiement"}))

    def test_the_service_finds_the_pods_and_so_does_the_deployment(self):
        labels = self.pod["metadata"]["labels"].items()
        self.assertLessEqual(self.service["spec"]["selector"].items(), labels)
        self.assertLessEqual(self.deployment["spec"]["selector"]["matchLabels"].items(), labels)
        self.assertIn("pool", self.service["spec"]["selector"])

    def test_ports_probes_and_scrapes_lead_to_the_server(self):
        arguments = self.container["args"]
        port = arguments[arguments.index("--port") + 1]
        self.assertEqual(self.container["ports"], [{"name": "http", "containerPort": int(port)}])
        self.assertEqual([one["targetPort"] for one in self.service["spec"]["ports"]], ["http"])
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(self.container[probe]["httpGet"], {"path": "/health", "port": "http"})
        annotations = self.pod["metadata"]["annotations"]
        self.assertEqual({name.split("/")[1]: value for name, value in annotations.items()},
                         {"scrape": "true", "port": port, "path": "/metrics"})
        self.assertIn("--metrics-without-key", arguments)

    def test_volumes_and_keys_are_there(self):
        volumes = {one["name"]: one for one in self.pod["spec"]["volumes"]}
        for container in [self.container, *self.pod["spec"]["initContainers"]]:
            self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]}, set(volumes))
            self.assertIn("limits", container["resources"])
        environment = {one["name"]: one for one in self.container["env"]}
        secret = environment["REPROFUSE_API_KEY"]["valueFrom"]["secretKeyRef"]["name"]
        self.assertEqual(secret, volumes["secret"]["secret"]["secretName"])
        self.assertEqual(environment["REPROFUSE_KEY"]["value"], self.pod["spec"]["initContainers"][0]["command"][-1])

    def test_the_server_has_time_to_drain(self):
        pause = int(self.container["lifecycle"]["preStop"]["exec"]["command"][-1])
        self.assertGreater(self.pod["spec"]["terminationGracePeriodSeconds"], pause + 30)

    def test_the_tool_has_these_options_and_this_version(self):
        def told(*arguments):
            return subprocess.run([TOOL, *arguments], check=True, capture_output=True, text=True).stdout

        self.assertEqual(self.container["command"], ["reprofuse", "serve"])
        known = told("serve", "--help")
        for option in self.container["args"]:
            if option.startswith("--"):
                self.assertIn(option, known)
        version = told("--version").split()[1]
        for container in [self.container, *self.pod["spec"]["initContainers"]]:
            self.assertEqual(container["image"], f"reprofuse:{version}")


if __name__ == "__main__":
    unittest.main()
