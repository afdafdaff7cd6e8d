{{/* Names, labels and what all pods share. They print JSON, which is YAML at any indentation. */}}

{{- define "tilefarm.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}

{{/* (list . "part"): what selects a part's pods. */}}
{{- define "tilefarm.selector" -}}
{{- $root := index . 0 -}}
{{ dict "app.kubernetes.io/name" "tilefarm" "app.kubernetes.io/instance" $root.Release.Name "app.kubernetes.io/component" (index . 1) | toJson }}
{{- end -}}

{{- define "tilefarm.labels" -}}
{{- $root := index . 0 -}}
{{ dict "app.kubernetes.io/name" "tilefarm" "app.kubernetes.io/instance" $root.Release.Name "app.kubernetes.io/component" (index . 1) "app.kubernetes.io/version" $root.Chart.AppVersion "app.kubernetes.io/managed-by" $root.Release.Service "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) | toJson }}
{{- end -}}

{{/* (list . "role"): the image of a role. */}}
{{- define "tilefarm.image" -}}
{{- $root := index . 0 -}}
{{ printf "%s/%s:%s" $root.Values.image.registry (index . 1) (default $root.Chart.AppVersion $root.Values.image.tag) | toJson }}
{{- end -}}

{{- define "tilefarm.pullSecrets" -}}
{{- $found := list -}}
{{- range .Values.image.pullSecrets }}{{- $found = append $found (dict "name" .) -}}{{- end -}}
{{ $found | toJson }}
{{- end -}}

{{- define "tilefarm.podSecurity" -}}
{"runAsNonRoot": true, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
{{- end -}}

{{- define "tilefarm.containerSecurity" -}}
{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}
{{- end -}}

{{/* (list . "key" …): keys of the Secret as files of a volume. */}}
{{- define "tilefarm.secretVolume" -}}
{{- $root := index . 0 -}}
{{- $items := list -}}
{{- range rest . }}{{- $items = append $items (dict "key" . "path" .) -}}{{- end -}}
{{ dict "secretName" $root.Values.secrets.existingSecret "defaultMode" 288 "items" $items | toJson }}
{{- end -}}

{{/* (list port "path"): a probe. */}}
{{- define "tilefarm.probe" -}}
{{ dict "httpGet" (dict "path" (index . 1) "port" (index . 0)) "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 3 | toJson }}
{{- end -}}
