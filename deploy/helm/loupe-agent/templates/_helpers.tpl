{{- define "loupe-agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "loupe-agent.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "loupe-agent.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "loupe-agent.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "loupe-agent.selector" -}}
app.kubernetes.io/name: {{ include "loupe-agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "loupe-agent.labels" -}}
{{ include "loupe-agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "loupe-agent.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "loupe-agent.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* The port of an address such as ":9090"; empty if there is no server. */}}
{{- define "loupe-agent.port" -}}
{{- if . }}{{ regexFind "[0-9]+$" . }}{{ end }}
{{- end }}

{{- define "loupe-agent.metricsPort" -}}
{{- include "loupe-agent.port" (dig "output" "prometheus" "listen" ":9090" .Values.config) }}
{{- end }}

{{- define "loupe-agent.healthPort" -}}
{{- include "loupe-agent.port" (dig "health" "listen" ":8080" .Values.config) }}
{{- end }}
