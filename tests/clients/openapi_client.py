"""Validates the administration's OpenAPI description, generates a client from it, and lists and revokes with that client.

Arguments: the internal listener, the file with the admin token, a folder for the generated client.
"""

import json
import pathlib
import subprocess
import sys

import requests
from openapi_spec_validator import validate

url, token_file, folder = sys.argv[1:]
description = requests.get(f"{url}/admin/openapi.json", timeout=30).json()
validate(description)

folder = pathlib.Path(folder).resolve()
(folder / "openapi.json").write_text(json.dumps(description))
# The generated code is not formatted.
(folder / "generator.yaml").write_text("post_hooks: []\npackage_name_override: administration\n")
generate = [
    sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning",
    "--path", str(folder / "openapi.json"), "--config", str(folder / "generator.yaml"),
    "--output-path", str(folder / "administration"),
]
subprocess.run(generate, check=True, cwd=folder)

sys.path.insert(0, str(folder))
from administration import AuthenticatedClient  # noqa: E402
from administration.api.clients import clients_list, clients_show  # noqa: E402
from administration.api.grants import grants_revoke_all  # noqa: E402

token = pathlib.Path(token_file).read_text().split()[0]
client = AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True)
listed = clients_list.sync(client=client, limit=2)
assert len(listed.items) == 2, listed
assert clients_show.sync("web-demo", client=client).client_id == "web-demo"
assert grants_revoke_all.sync(client=client, client_id="web-demo").revoked == 0
print("validated; web-demo is there")
