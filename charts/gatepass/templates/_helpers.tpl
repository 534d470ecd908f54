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

{{/* What the restricted Pod Security Standard asks of a pod, and a file system that nobody writes. */}}
{{- define "gatepass.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
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

{{/*
The configuration of the guard as JSON. Arguments: the root, and the two names under which it fetches the token service's
keys and revocations.

JSON because YAML would write large numbers as floats.
*/}}
{{- define "gatepass.guardConfiguration" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values -}}
{{- $issuers := $values.guard.issuers -}}
{{- if $values.tokenService.enabled -}}
{{- $authority := include "gatepass.host" (list $root (include "gatepass.internalName" $root)) -}}
{{- $jwks := dict "cluster" (index . 1) "authority" $authority "path" "/auth/jwks" -}}
{{- $revocations := dict "cluster" (index . 2) "authority" $authority "path" "/revocations" -}}
{{- $own := dict
      "issuer" $values.tokenService.issuer
      "audiences" (list $values.tokenService.apiAudience)
      "jwks" (merge $jwks $values.guard.jwks)
      "revocations" (merge $revocations $values.guard.revocations) -}}
{{- $issuers = prepend $issuers (merge $own $values.guard.issuer) -}}
{{- end -}}
{{- toPrettyJson (merge (dict "issuers" $issuers) $values.guard.configuration) -}}
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

{{/* Expressions for the names of these headers and for their other spellings, as a JSON list. */}}
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
    statusOnError: "503"
    includeRequestHeadersInCheck: [authorization, x-request-id]
    headersToUpstreamOnAllow: {{ include "gatepass.guardHeaders" . }}
    headersToDownstreamOnDeny: [cache-control, content-type, retry-after, www-authenticate]
{{- end -}}
