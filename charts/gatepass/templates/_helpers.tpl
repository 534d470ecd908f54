{{/* Names. At most 63 characters with the longest suffix. */}}
{{- define "gatepass.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 46 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 46 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 46 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gatepass.internalName" -}}
{{- include "gatepass.fullname" . }}-internal
{{- end -}}

{{- define "gatepass.guardName" -}}
{{- include "gatepass.fullname" . }}-guard
{{- end -}}

{{/* Names of a release's short-lived pods: the check of the configuration, and `helm test`. */}}
{{- define "gatepass.checkName" -}}
{{- include "gatepass.fullname" . }}-check
{{- end -}}

{{- define "gatepass.testName" -}}
{{- include "gatepass.fullname" . }}-test
{{- end -}}

{{/*
"true" where Helm renders without the cluster, as `helm template` and GitOps controllers do. Helm then has a list of APIs of its
own, with some that no cluster serves since Kubernetes 1.16.
*/}}
{{- define "gatepass.isOffline" -}}
{{- if .Capabilities.APIVersions.Has "apps/v1beta1" -}}true{{- end -}}
{{- end -}}

{{/* "true" if the release has a guard, in the gateway or asked by it. */}}
{{- define "gatepass.isEnforced" -}}
{{- with .Values.gateway -}}
{{- if or (ne .kind "none") (eq .enforcement "tokenGuard") -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Secret with the configuration of token-guard. */}}
{{- define "gatepass.guardSecret" -}}
{{- .Values.guard.existingSecret | default (include "gatepass.guardName" .) -}}
{{- end -}}

{{/* ServiceAccount of a component. Arguments: the name that the chart gives, the values. */}}
{{- define "gatepass.serviceAccount" -}}
{{- $own := index . 0 -}}
{{- with index . 1 -}}
{{- .name | default (.create | ternary $own "default") -}}
{{- end -}}
{{- end -}}

{{- define "gatepass.keysSecret" -}}
{{- .Values.tokenService.keys.existingSecret | default (printf "%s-keys" (include "gatepass.fullname" .)) -}}
{{- end -}}

{{- define "gatepass.registrationsSecret" -}}
{{- with .Values.tokenService.registrations -}}
{{- if .existingSecret -}}
{{- .existingSecret -}}
{{- else if .text -}}
{{- include "gatepass.fullname" $ }}-registrations
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Host name of a Service of this release, as gateways in other namespaces see it. Arguments: the root, the name. */}}
{{- define "gatepass.host" -}}
{{- $root := index . 0 -}}
{{- printf "%s.%s.svc.%s" (index . 1) $root.Release.Namespace $root.Values.clusterDomain -}}
{{- end -}}

{{/* Reference of an image. Arguments: the root, the image's values. */}}
{{- define "gatepass.image" -}}
{{- $root := index . 0 -}}
{{- with index . 1 -}}
{{- if .digest -}}
{{- .repository }}@{{ .digest -}}
{{- else -}}
{{- .repository }}:{{ .tag | default $root.Chart.AppVersion -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods of a component. Arguments: the root, the component. */}}
{{- define "gatepass.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of a resource. Arguments: the root, the component. */}}
{{- define "gatepass.labels" -}}
{{- $root := index . 0 -}}
{{ include "gatepass.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
{{- end -}}

{{/* Labels of a pod that ends: a sidecar would keep it running. Arguments: the root, the component. */}}
{{- define "gatepass.endingLabels" -}}
{{ include "gatepass.labels" . }}
sidecar.istio.io/inject: "false"
{{- end -}}

{{/* What the restricted Pod Security Standard asks of a pod, and a file system that nobody writes. */}}
{{- define "gatepass.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  {{- /* OpenShift chooses a user id for each namespace, and refuses others. */}}
  {{- if and .Values.runAsUser (not (.Capabilities.APIVersions.Has "security.openshift.io/v1")) }}
  runAsUser: {{ int64 .Values.runAsUser }}
  runAsGroup: {{ int64 .Values.runAsUser }}
  fsGroup: {{ int64 .Values.runAsUser }}
  {{- end }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "gatepass.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* Probes of a container whose internal listener has the port `internal`. */}}
{{- define "gatepass.probes" -}}
startupProbe:
  httpGet: { path: /healthz, port: internal }
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /healthz, port: internal }
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: { path: /readyz, port: internal }
  periodSeconds: 2
  timeoutSeconds: 5
{{- end -}}

{{/* Where the pods of a component may run. Arguments: the root, the component, its values. */}}
{{- define "gatepass.placement" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- with index . 2 -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
{{- if .topologySpreadConstraints }}
  {{- toYaml .topologySpreadConstraints | nindent 2 }}
{{- else }}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "gatepass.selector" (list $root $component) | nindent 8 }}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Names under which the guard fetches the token service's keys and revocations, as a JSON list. */}}
{{- define "gatepass.ownClusters" -}}
{{- $internal := include "gatepass.internalName" . -}}
{{- with .Values.gateway -}}
{{- if eq .enforcement "tokenGuard" -}}
{{- list "token-service-keys" "token-service-internal" | toJson -}}
{{- else if eq .kind "istio" -}}
{{- $host := include "gatepass.host" (list $ $internal) -}}
{{- list (printf "outbound|9080||%s" $host) (printf "outbound|9081||%s" $host) | toJson -}}
{{- else -}}
{{- list (printf "%s-keys" (include "gatepass.fullname" $)) $internal | toJson -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The configuration of the guard as JSON, because YAML would write large numbers as floats. */}}
{{- define "gatepass.guardConfiguration" -}}
{{- $root := . -}}
{{- $values := $root.Values -}}
{{- $clusters := include "gatepass.ownClusters" . | fromJsonArray -}}
{{- $issuers := $values.guard.issuers -}}
{{- if $values.tokenService.enabled -}}
{{- $authority := include "gatepass.host" (list $root (include "gatepass.internalName" $root)) -}}
{{- $jwks := dict "cluster" (index $clusters 0) "authority" $authority "path" "/auth/jwks" -}}
{{- $revocations := dict "cluster" (index $clusters 1) "authority" $authority "path" "/revocations" -}}
{{- $own := dict
      "issuer" $values.tokenService.issuer
      "audiences" (list $values.tokenService.apiAudience)
      "jwks" (merge $jwks $values.guard.jwks)
      "revocations" (merge $revocations $values.guard.revocations) -}}
{{- $issuers = prepend $issuers (merge $own $values.guard.issuer) -}}
{{- end -}}
{{- toPrettyJson (merge (dict "issuers" $issuers) $values.guard.configuration) -}}
{{- end -}}

{{/* What token-guard is started with: environment, mounts and volumes, for its Deployment and for the check. */}}
{{- define "gatepass.guardEnvironment" -}}
{{- $host := include "gatepass.host" (list . (include "gatepass.internalName" .)) -}}
{{- with .Values.gateway.tokenGuard -}}
{{- $clusters := .clusters -}}
{{- if $.Values.tokenService.enabled -}}
{{- $own := dict
      "token-service-keys" (printf "http://%s:9080" $host)
      "token-service-internal" (printf "http://%s:9081" $host) -}}
{{- $clusters = merge $own $clusters -}}
{{- end -}}
{{- $origins := list -}}
{{- range $cluster := keys $clusters | sortAlpha -}}
{{- $origins = append $origins (printf "%s=%s" $cluster (get $clusters $cluster)) -}}
{{- end -}}
- { name: TOKEN_GUARD_CONFIG, value: /etc/token-guard/guard.json }
- { name: TOKEN_GUARD_LISTEN, value: "{{ $.Values.listenAddress }}:9090" }
- { name: TOKEN_GUARD_INTERNAL_LISTEN, value: "{{ $.Values.listenAddress }}:9091" }
{{- with .trustedPeers | default $.Values.tokenService.trustedProxies }}
- { name: TOKEN_GUARD_TRUSTED_PEERS, value: {{ join "," . | quote }} }
{{- end }}
{{- if $.Values.gateway.clientCertificates }}
- name: TOKEN_GUARD_CLIENT_CERTIFICATE_HEADER
  value: {{ eq $.Values.gateway.kind "traefik" | ternary "X-Forwarded-Tls-Client-Cert" "X-Token-Guard-Client-Certificate" }}
{{- end }}
- { name: TOKEN_GUARD_WORKERS, value: {{ .workers | quote }} }
- { name: TOKEN_GUARD_DRAIN_FOR, value: 5s }
{{- if $origins }}
- name: TOKEN_GUARD_CLUSTERS
  value: {{ join "," $origins }}
{{- end }}
{{- if .caSecret.name }}
- { name: TOKEN_GUARD_CA_FILE, value: /run/secrets/ca/{{ .caSecret.key }} }
{{- end }}
{{- with .extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "gatepass.guardMounts" -}}
- { name: config, mountPath: /etc/token-guard, readOnly: true }
{{- with .Values.gateway.tokenGuard }}
{{- if .caSecret.name }}
- { name: ca, mountPath: /run/secrets/ca, readOnly: true }
{{- end }}
{{- with .extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Arguments: the root, the Secret with the configuration. */}}
{{- define "gatepass.guardVolumes" -}}
- name: config
  secret: { secretName: {{ index . 1 }}, defaultMode: 0440 }
{{- with (index . 0).Values.gateway.tokenGuard }}
{{- with .caSecret.name }}
- name: ca
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- with .extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Rules of a NetworkPolicy: the cluster's resolver, and pods of `helm test` to the internal listener. */}}
{{- define "gatepass.dnsEgress" -}}
{{- with .Values.networkPolicy.dns -}}
- to: {{- toYaml .peers | nindent 4 }}
  ports:
    {{- range .ports }}
    - { port: {{ . }}, protocol: UDP }
    - { port: {{ . }}, protocol: TCP }
    {{- end }}
{{- end -}}
{{- end -}}

{{- define "gatepass.testIngress" -}}
- from:
    - podSelector:
        matchLabels: {{- include "gatepass.selector" (list . "test") | nindent 10 }}
  ports:
    - { port: internal }
{{- end -}}

{{/* What a policy of the gateway applies to. */}}
{{- define "gatepass.targets" -}}
{{- with .Values.gateway -}}
{{- if .targetRefs -}}
targetRefs: {{- toYaml .targetRefs | nindent 2 }}
{{- else -}}
selector:
  matchLabels: {{- toYaml .selector | nindent 4 }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The headers that the guard sets, and nobody else may, as a JSON list. */}}
{{- define "gatepass.guardHeaders" -}}
{{- $headers := keys (.Values.guard.configuration.forward | default dict) -}}
{{- with .Values.guard.configuration.forward_payload -}}
{{- $headers = append $headers . -}}
{{- end -}}
{{- $headers | sortAlpha | toJson -}}
{{- end -}}

{{/* What an EnvoyFilter applies to. */}}
{{- define "gatepass.filterTargets" -}}
{{- with .Values.gateway -}}
{{- if .targetRefs -}}
targetRefs: {{- toYaml .targetRefs | nindent 2 }}
{{- else -}}
workloadSelector:
  labels: {{- toYaml .selector | nindent 4 }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gatepass.httpFilters" -}}
context: GATEWAY
listener:
  filterChain:
    filter:
      name: envoy.filters.network.http_connection_manager
{{- end -}}

{{/* Headers from which some frameworks take another method or path, about which the guard did not decide, as a JSON list. */}}
{{- define "gatepass.overrideHeaders" -}}
{{- list "x-http-method" "x-http-method-override" "x-method-override" "x-original-url" "x-rewrite-url" | toJson -}}
{{- end -}}

{{/* Expressions for the names of the guard's headers and for their other spellings, as a JSON list. */}}
{{- define "gatepass.guardHeaderPatterns" -}}
{{- $patterns := list -}}
{{- range include "gatepass.guardHeaders" . | fromJsonArray -}}
{{- $patterns = append $patterns (replace "-" "[^a-z0-9]" .) -}}
{{- end -}}
{{- toJson $patterns -}}
{{- end -}}

{{/* Entry of Istio's meshConfig.extensionProviders. */}}
{{- define "gatepass.extensionProvider" -}}
- name: {{ .Values.gateway.istio.extensionProvider }}
  envoyExtAuthzHttp:
    service: {{ include "gatepass.host" (list . (include "gatepass.guardName" .)) }}
    port: 9090
    pathPrefix: /ext-authz
    timeout: 10s
    failOpen: false
    clearRouteCache: true
    statusOnError: "503"
    includeRequestHeadersInCheck: [authorization, dpop, x-request-id]
    {{- if .Values.gateway.clientCertificates }}
    includeAdditionalHeadersInCheck:
      x-token-guard-client-certificate: "sha256:%DOWNSTREAM_PEER_FINGERPRINT_256%"
    {{- end }}
    headersToUpstreamOnAllow: {{ prepend (include "gatepass.guardHeaders" . | fromJsonArray) "authorization" | toJson }}
    headersToDownstreamOnDeny: [cache-control, content-type, dpop-nonce, retry-after, www-authenticate]
{{- end -}}
