// Reads a JSON list of custom resources from standard input and prints a JSON list of what their CRDs would refuse: by the CRDs'
// schemas, and unknown fields by their types.

import { text } from "node:stream/consumers";
import path from "node:path";
import ts from "typescript";

// The release of @kubernetes-models/istio has no TrafficExtension. By istio/api (extensions/v1alpha1/traffic_extension.proto)
// its fields are those of a WasmPlugin, some of them moved into `wasm`.
const TRAFFIC_EXTENSION = `
type Plugin = import("@kubernetes-models/istio/extensions.istio.io/v1alpha1").IWasmPlugin;
type TrafficExtension = Omit<Plugin, "kind" | "spec"> & { kind: "TrafficExtension"; spec: Pick<Plugin["spec"],
  "selector" | "targetRefs" | "phase" | "priority" | "match"> & { wasm: Pick<Plugin["spec"], "url" | "sha256"
  | "imagePullPolicy" | "imagePullSecret" | "pluginConfig" | "pluginName" | "failStrategy" | "vmConfig" | "type"> } };
`;

// The release of @kubernetes-models/envoy-gateway has no dynamic modules. By envoyproxy/gateway v1.9
// (api/v1alpha1/dynamic_module_types.go, envoyextensionypolicy_types.go):
const EXTENSION_POLICY = `
type Policy = import("@kubernetes-models/envoy-gateway/gateway.envoyproxy.io/v1alpha1").IEnvoyExtensionPolicy;
type EnvoyExtensionPolicy = Omit<Policy, "spec"> & { spec: NonNullable<Policy["spec"]> & { dynamicModule?:
  { name: string; filterName?: string; config?: unknown; terminalFilter?: boolean }[] } };
`;

const OWN_TYPES = { TrafficExtension: TRAFFIC_EXTENSION, EnvoyExtensionPolicy: EXTENSION_POLICY };

const PACKAGES = {
  "istio.io": "istio",
  "envoyproxy.io": "envoy-gateway",
  "gateway.networking.k8s.io": "gateway-api",
  "monitoring.coreos.com": "prometheus-operator",
  "traefik.io": "traefik",
};

const moduleOf = ({ apiVersion }) => {
  const group = apiVersion.split("/")[0];
  const known = Object.keys(PACKAGES).find((name) => group === name || group.endsWith(`.${name}`));
  return `@kubernetes-models/${PACKAGES[known]}/${apiVersion}`;
};

// A TrafficExtension as the WasmPlugin of the same fields.
const asPlugin = ({ wasm, ...spec }) => ({ ...spec, ...wasm });

// The schema of an HTTPRoute is that of the standard channel. The filter ExternalAuth is experimental, and has its own schema.
const isExternalAuth = ({ type }) => type === "ExternalAuth";

function standard(resource) {
  if (resource.kind !== "HTTPRoute") return [resource, []];
  const { rules } = resource.spec;
  const others = rules.map((rule) => ({ ...rule, filters: rule.filters?.filter((filter) => !isExternalAuth(filter)) }));
  const found = rules.flatMap(({ filters }) => filters?.filter(isExternalAuth) ?? []);
  return [{ ...resource, spec: { ...resource.spec, rules: others } }, found.map(({ externalAuth }) => externalAuth)];
}

async function schemaProblems(given) {
  const [resource, experimental] = standard(given);
  const isExtension = resource.kind === "TrafficExtension";
  const { dynamicModule, ...spec } = resource.spec ?? {};
  const known = isExtension
    ? { ...resource, kind: "WasmPlugin", spec: asPlugin(spec) }
    : dynamicModule === undefined ? resource : { ...resource, spec };
  const models = await import(moduleOf(known));
  try {
    new models[known.kind](known).validate();
    for (const filter of experimental) new models.HTTPExternalAuthFilter(filter).validate();
  } catch (error) {
    return [`${resource.kind} ${resource.metadata.name}: ${error.message}`];
  }
  return [];
}

function typeProblems(resources) {
  const file = path.join(import.meta.dirname, "resources.ts");
  const lines = resources.map((resource, index) => {
    const type = resource.kind in OWN_TYPES ? resource.kind : `import("${moduleOf(resource)}").I${resource.kind}`;
    return `export const resource${index}: ${type} = ${JSON.stringify(resource)};`;
  });
  const source = Object.values(OWN_TYPES).join("").replaceAll("\n", " ") + "\n" + lines.join("\n") + "\n";
  const options = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (name) => name === file || fileExists(name);
  host.getSourceFile = (name, ...rest) =>
    name === file ? ts.createSourceFile(name, source, ts.ScriptTarget.ES2022) : getSourceFile(name, ...rest);
  return ts.getPreEmitDiagnostics(ts.createProgram([file], options, host)).map((found) => {
    const line = found.file === undefined ? 0 : found.file.getLineAndCharacterOfPosition(found.start).line;
    const resource = resources[line - 1];
    const message = ts.flattenDiagnosticMessageText(found.messageText, " ");
    return resource === undefined ? message : `${resource.kind} ${resource.metadata.name}: ${message}`;
  });
}

const resources = JSON.parse(await text(process.stdin));
const problems = (await Promise.all(resources.map(schemaProblems))).flat();
console.log(JSON.stringify([...problems, ...typeProblems(resources)]));
