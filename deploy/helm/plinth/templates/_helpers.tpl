{{- /* What names of objects begin with. */}}
{{- define "plinth.name" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}
{{- else if .Values.nameOverride }}{{ .Release.Name }}-{{ .Values.nameOverride }}
{{- else }}plinth
{{- end }}
{{- end }}

{{- define "plinth.controller" -}}{{ include "plinth.name" . }}-cloud-controller-manager{{- end }}
{{- define "plinth.agent" -}}{{ include "plinth.name" . }}-agent{{- end }}

{{- define "plinth.controllerAccount" -}}{{ .Values.controller.serviceAccount.name | default (include "plinth.controller" .) }}{{- end }}
{{- define "plinth.agentAccount" -}}{{ .Values.agent.serviceAccount.name | default (include "plinth.agent" .) }}{{- end }}

{{- /* Labels of every object, and those by which the programs find each other's pods: these
       never follow a name, since a selector cannot be changed. */}}
{{- define "plinth.labels" -}}{{ toJson (merge (dict "app.kubernetes.io/part-of" "plinth") .Values.commonLabels) }}{{- end }}
{{- define "plinth.controllerLabels" -}}{{ toJson (merge (dict "app.kubernetes.io/name" "plinth-cloud-controller-manager" "app.kubernetes.io/part-of" "plinth") .Values.commonLabels) }}{{- end }}
{{- define "plinth.agentLabels" -}}{{ toJson (merge (dict "app.kubernetes.io/name" "plinth-agent" "app.kubernetes.io/part-of" "plinth") .Values.commonLabels) }}{{- end }}

{{- /* Leases that the controller has to read: its own, the usual one, and where there is a cluster to ask that which the
       installation runs on until this release has come. */}}
{{- define "plinth.leases" -}}
{{- $before := dig "metadata" "annotations" "plinth.dev/lease" "" (lookup "v1" "ConfigMap" .Release.Namespace "plinth-accepted") }}
{{- toJson (list "cloud-controller-manager" .Values.controller.leaseName $before | compact | uniq) }}
{{- end }}

{{- define "plinth.image" -}}
{{- if .image.digest }}{{ .image.repository }}@{{ .image.digest }}
{{- else }}{{ .image.repository }}:{{ .image.tag | default (printf "v%s" .root.Chart.AppVersion) }}
{{- end }}
{{- end }}

{{- /* How many controllers: no more than there are machines for. */}}
{{- define "plinth.replicas" -}}
{{- if ne (toString .Values.controller.replicas) "auto" }}{{ .Values.controller.replicas }}
{{- else }}
{{- $onControlPlane := get .Values.controller "nodeAffinity" }}
{{- $fit := 0 }}
{{- range dig "items" list (lookup "v1" "Node" "" "") }}
{{- $labels := dig "metadata" "labels" dict . }}
{{- $fits := or (not $onControlPlane) (hasKey $labels "node-role.kubernetes.io/control-plane") }}
{{- range $key, $value := $.Values.controller.nodeSelector }}
{{- if ne (toString (get $labels $key)) (toString $value) }}
{{- $fits = false }}
{{- end }}
{{- end }}
{{- if $fits }}
{{- $fit = add1 $fit }}
{{- end }}
{{- end }}
{{- if eq (int $fit) 1 }}1{{ else }}2{{ end }}
{{- end }}
{{- end }}
