"""render.py CHART -- renders the chart by Helm's own library, once for each file of values in its folder ci/, and with the values
of refused.yaml. Prints as JSON what Helm and the schemas of Kubernetes say, and in `files` what the folder rendered/ must hold.
Helm's library renders without a cluster: all but the cases `offline` are rendered with the answers that a cluster gives about its
APIs.
"""

import difflib
import json
import pathlib
import re
import shutil
import sys
import tempfile

import helm_python
import kubernetes_validate
import yaml

KUBERNETES = "1.37"
NAMESPACE = "token-service"


class Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no references to what was written before."""

    def ignore_aliases(self, data):
        return True


Dumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)
)


def dumped(documents):
    return yaml.dump_all(documents, Dumper=Dumper, width=240, default_flow_style=None, sort_keys=False)


def problems(document):
    """What Kubernetes would refuse, unknown fields included; custom resources have schemas of their own."""
    group = document["apiVersion"].rpartition("/")[0]
    if "." in group and not group.endswith(".k8s.io") or group == "gateway.networking.k8s.io":
        return []
    try:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{document['kind']}: {error.message} at {'/'.join(map(str, error.path))}"]
    return []


def rendered(chart, values, **options):
    """The documents that Helm makes of the values, or the error."""
    try:
        files = chart.render(values=values, name="gatepass", namespace=NAMESPACE, **options)
    except helm_python.HelmError as error:
        return {"error": str(error)}
    notes = [text for name, text in files.items() if name.endswith("/NOTES.txt")]
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    documents = [document for text in texts for document in yaml.safe_load_all(text) if document]
    found = [problem for document in documents for problem in problems(document)]
    return {"documents": documents, "problems": found, "notes": "\n".join(notes)}


def with_apis(folder, copy, served):
    """Copies the chart, and answers what its templates ask about the cluster's APIs."""
    shutil.copytree(folder, copy)
    helpers = copy / "templates/_helpers.tpl"
    text = helpers.read_text()
    for api in ["apps/v1beta1", "security.openshift.io/v1"]:
        asked = f'.Capabilities.APIVersions.Has "{api}"'
        if asked not in text:
            sys.exit(f"the templates do not ask for {api}")
        text = text.replace(asked, json.dumps(api in served))
    helpers.write_text(text)
    return helm_python.Chart.load(copy)


def shown(folder, result):
    """The documents for readers: without random keys, without the version, and without what stands in other files."""
    version = yaml.safe_load((folder / "Chart.yaml").read_text())["version"]
    alerts = yaml.safe_load((folder / "files/prometheus-alerts.yml").read_text())
    dashboard = (folder / "files/grafana-dashboard.json").read_text()

    def document(original):
        copy = json.loads(json.dumps(original))
        data = copy.get("data", {})
        for name, value in data.items():
            if copy["kind"] == "Secret":
                data[name] = f"{len(value)} characters"
            if value == dashboard:
                data[name] = "files/grafana-dashboard.json"
        if copy.get("spec") == alerts:
            copy["spec"] = "files/prometheus-alerts.yml"
        return copy

    notes = {"NOTES.txt": result["notes"].strip() + "\n"}
    return dumped([*map(document, result["documents"]), notes]).replace(version, "VERSION")


def difference(text, base):
    lines = difflib.unified_diff(base.splitlines(), text.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def message(error):
    """An error of Helm, without the place in a template."""
    return "\n".join(line.rstrip() for line in re.sub(r" at \(gatepass/templates/.*?\)", "", error).strip().splitlines())


def main():
    folder = pathlib.Path(sys.argv[1])
    cases = {path.name.removesuffix("-values.yaml"): yaml.safe_load(path.read_text()) for path in sorted(folder.glob("ci/*.yaml"))}
    wrong = yaml.safe_load(pathlib.Path(__file__).with_name("refused.yaml").read_text())
    with tempfile.TemporaryDirectory() as copies:
        copies = pathlib.Path(copies)
        with with_apis(folder, copies / "cluster", []) as chart:
            results = {name: rendered(chart, values) for name, values in {**cases, **wrong}.items()}
            results["upgrade without keys"] = rendered(chart, cases["istio"], is_install=False, is_upgrade=True)
        with with_apis(folder, copies / "openshift", ["security.openshift.io/v1"]) as chart:
            results["openshift"] = rendered(chart, cases["istio"])
    with helm_python.Chart.load(folder) as chart:
        results["offline"] = rendered(chart, cases["istio"])
        results["offline with keys"] = rendered(chart, cases["token-guard-traefik"])
    for name, values in cases.items():
        report = helm_python.lint(folder, values, strict=True)
        results[name]["lint"] = [message["error"] for message in report["messages"] if message["severity"] > 1] + report["errors"]

    def text_of(result):
        return shown(folder, result)

    # One renders the token service with the filter, the other nearly all else.
    pairs = [("openshift", "istio"), ("offline with keys", "token-guard-traefik")]
    files = {f"{name}.yaml": text_of(results[name]) for _, name in pairs}
    differences = {f"{case}, compared with {base}": difference(text_of(results[case]), text_of(results[base])) for case, base in pairs}
    files["differences.yaml"] = dumped([differences])
    errors = {name: message(result["error"]) for name, result in results.items() if "error" in result}
    files["refused.yaml"] = dumped([errors])
    unknown = yaml.safe_load("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, dota: {}}")
    json.dump({"results": results, "cases": list(cases), "files": files, "unknown field": problems(unknown)}, sys.stdout)


main()
