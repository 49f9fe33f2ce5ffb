{{- define "dataflow.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of a component; of `root` and `component`. */}}
{{- define "dataflow.selector" -}}
app.kubernetes.io/name: dataflow
{{- if ne .root.Release.Name "dataflow" }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "dataflow.labels" -}}
{{ include "dataflow.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* dataflow.ini. Helm reads every number as a floating one. */}}
{{- define "dataflow.ini" -}}
{{- $own := dict "listen" "0.0.0.0:8080" "data_dir" "/var/lib/dataflow" "drain_seconds" .Values.drainSeconds -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "server" (merge $own (default (dict) $config.server)) -}}
{{- range $section, $keys := $config }}
[{{ $section }}]
{{- range $key, $value := $keys }}
{{ $key }} = {{ kindIs "float64" $value | ternary (int64 $value) $value }}
{{- end }}
{{ end }}
{{- end -}}

{{/* A Deployment; of `root`, `component`, `roles`, `replicas` (0: the autoscaler says), `resources`. */}}
{{- define "dataflow.deployment" -}}
{{- $name := include "dataflow.fullname" .root -}}
{{- $one := eq .component "maintain" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}-{{ .component }}
  labels:
    {{- include "dataflow.labels" . | nindent 4 }}
spec:
  {{- with .replicas }}
  replicas: {{ . }}
  {{- end }}
  strategy:
    {{- if $one }}
    type: Recreate
    {{- else }}
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: {{ eq .component "api" | ternary 0 1 }}
      maxSurge: 1
    {{- end }}
  selector:
    matchLabels:
      {{- include "dataflow.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "dataflow.selector" . | nindent 8 }}
      annotations:
        checksum/config: {{ include "dataflow.ini" .root | sha256sum }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        fsGroupChangePolicy: OnRootMismatch
        seccompProfile:
          type: RuntimeDefault
      {{- if not $one }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "dataflow.selector" . | nindent 14 }}
      {{- end }}
      containers:
        - name: dataflow
          image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
          {{- if ne .root.Values.image.pullPolicy "IfNotPresent" }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          {{- end }}
          args: ["serve", "--config", "/etc/dataflow/dataflow.ini"]
          env:
            - name: DATAFLOW_SERVER_ROLES
              value: {{ .roles | quote }}
          ports:
            - name: http
              containerPort: 8080
          startupProbe:
            httpGet:
              path: /healthz
              port: http
            periodSeconds: 2
            failureThreshold: 150
          livenessProbe:
            httpGet:
              path: /healthz
              port: http
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet:
              path: /readyz
              port: http
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 2
          {{- if and (eq .component "api") .root.Values.preStopSeconds }}
          lifecycle:
            preStop:
              sleep:
                seconds: {{ .root.Values.preStopSeconds }}
          {{- end }}
          {{- with .resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: ["ALL"]
          volumeMounts:
            - name: config
              mountPath: /etc/dataflow
              readOnly: true
            - name: secrets
              mountPath: /run/secrets/dataflow
              readOnly: true
            - name: data
              mountPath: /var/lib/dataflow
      volumes:
        - name: config
          configMap:
            name: {{ $name }}-config
        - name: secrets
          secret:
            secretName: {{ .root.Values.secretName }}
            defaultMode: 0440
        - name: data
          {{- if $one }}
          persistentVolumeClaim:
            claimName: {{ $name }}-maintain
          {{- else }}
          emptyDir:
            sizeLimit: {{ .scratchSize | default .root.Values.scratchSize }}
          {{- end }}
{{- end -}}

{{/* A PodDisruptionBudget; of `root` and `component`. */}}
{{- define "dataflow.pdb" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "dataflow.fullname" .root }}-{{ .component }}
  labels:
    {{- include "dataflow.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "dataflow.selector" . | nindent 6 }}
{{- end -}}

{{/* The head of a HorizontalPodAutoscaler, up to its metrics; of `root`, `component` and `autoscaling`. */}}
{{- define "dataflow.hpa" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ include "dataflow.fullname" .root }}-{{ .component }}
  labels:
    {{- include "dataflow.labels" . | nindent 4 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "dataflow.fullname" .root }}-{{ .component }}
  minReplicas: {{ .autoscaling.min }}
  maxReplicas: {{ .autoscaling.max }}
  behavior:
    scaleDown:
      stabilizationWindowSeconds: 300
  metrics:
{{- end -}}
