"""render.py CHART -- renders the chart by Helm's own library, once for each file of values in its folder ci/, and prints as JSON
what Helm and the schemas of Kubernetes say of it. Helm's library renders without a cluster: all but the case `offline` are
rendered with the answers that a cluster gives about its APIs.

Reads from standard input a JSON object: `values` to render beside those files, by name.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import helm_python
import kubernetes_validate
import yaml

KUBERNETES = "1.37"
NAMESPACE = "token-service"


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


def main():
    folder = pathlib.Path(sys.argv[1])
    further = json.load(sys.stdin)
    cases = {path.name.removesuffix("-values.yaml"): yaml.safe_load(path.read_text()) for path in sorted(folder.glob("ci/*.yaml"))}
    with tempfile.TemporaryDirectory() as copies:
        copies = pathlib.Path(copies)
        with with_apis(folder, copies / "cluster", []) as chart:
            results = {name: rendered(chart, values) for name, values in {**cases, **further}.items()}
            results["upgrade"] = rendered(chart, cases["istio"], is_install=False, is_upgrade=True)
        with with_apis(folder, copies / "openshift", ["security.openshift.io/v1"]) as chart:
            results["openshift"] = rendered(chart, cases["istio"])
    with helm_python.Chart.load(folder) as chart:
        results["offline"] = rendered(chart, cases["istio"])
        results["offline with keys"] = rendered(chart, cases["token-guard-traefik"])
    for name, values in cases.items():
        report = helm_python.lint(folder, values, strict=True)
        results[name]["lint"] = [message["error"] for message in report["messages"] if message["severity"] > 1] + report["errors"]
    wrong = yaml.safe_load("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, dota: {}}")
    results["check"] = {"problems": problems(wrong)}
    json.dump(results, sys.stdout)


main()
