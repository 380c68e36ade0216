/**
 * Invalid pods. The key names what is wrong; an API server rejects nearly all of them. Keys are the names of rows in
 * test/golden/pod-errors.json.
 */
type Json = { readonly [key: string]: unknown };

function pod(spec: Json, metadata: Json = {}): Json {
  return { apiVersion: "v1", kind: "Pod", metadata: { name: "web", ...metadata }, spec };
}

function one(container: Json, spec: Json = {}): Json {
  return pod({ containers: [{ name: "main", image: "busybox:1", ...container }], ...spec });
}

function volumes(...sources: readonly Json[]): Json {
  return one({}, { volumes: sources.map((source, index) => ({ name: `v${index}`, ...source })) });
}

function mounts(...volumeMounts: readonly Json[]): Json {
  return one({ volumeMounts }, { volumes: [{ name: "v", emptyDir: {} }] });
}

function env(...variables: readonly Json[]): Json {
  return one({ env: variables });
}

const busybox = { name: "main", image: "busybox:1" };
const long = "a".repeat(300);
const tcp = { tcpSocket: { port: 80 } };

export const badPods: Readonly<Record<string, Json>> = {
  "no name": { apiVersion: "v1", kind: "Pod", metadata: {}, spec: { containers: [busybox] } },
  "a name with capitals": pod({ containers: [busybox] }, { name: "Web" }),
  "a name that is too long": pod({ containers: [busybox] }, { name: long }),
  "labels that are none": pod({ containers: [busybox] }, { labels: { "a b": "c", d: "e f", [`x/${long}`]: long } }),
  "annotations that are none": pod({ containers: [busybox] }, { annotations: { "a b": "c", "/a": "b" } }),
  "no containers": pod({ containers: [] }),
  "a container without name and image": pod({ containers: [{}] }),
  "a container with a wrong name": pod({ containers: [{ ...busybox, name: "Main_1" }] }),
  "two containers of one name": pod({ containers: [busybox, busybox], initContainers: [busybox] }),
  "an image with spaces around it": one({ image: " busybox " }),
  "unknown texts where few are allowed": one(
    {
      imagePullPolicy: "Sometimes",
      terminationMessagePolicy: "Nowhere",
      ports: [{ containerPort: 80, protocol: "HTTP" }],
      volumeMounts: [{ name: "v", mountPath: "/v", mountPropagation: "Both" }],
      securityContext: { seccompProfile: { type: "Strict" }, procMount: "Open" },
      resizePolicy: [{ resourceName: "cpu", restartPolicy: "Maybe" }],
    },
    {
      restartPolicy: "Sometimes",
      dnsPolicy: "Cluster",
      preemptionPolicy: "Maybe",
      volumes: [{ name: "v", hostPath: { path: "/v", type: "Folder" } }],
      tolerations: [{ key: "a", operator: "Like", effect: "NoRun" }],
      securityContext: { fsGroupChangePolicy: "Never", supplementalGroupsPolicy: "All", seLinuxChangePolicy: "None" },
    },
  ),
  "an unknown scheme": one({ livenessProbe: { httpGet: { port: 80, scheme: "FTP" } } }),
  "ports out of range": one({
    ports: [{ containerPort: 0 }, { containerPort: 65_536 }, { containerPort: 80, hostPort: -1 }],
  }),
  "ports with wrong names": one({
    ports: ["UPPER", "a--b", "123", "-a", "a".repeat(16), "a_b"].map((name, i) => ({ name, containerPort: i + 1 })),
  }),
  "two ports of one name": one({
    ports: [
      { name: "a", containerPort: 1 },
      { name: "a", containerPort: 2 },
    ],
  }),
  "one host port twice": pod({
    containers: ["a", "b"].map((name) => ({ ...busybox, name, ports: [{ containerPort: 80, hostPort: 80 }] })),
  }),
  "one host port of a sidecar too": pod({
    containers: [{ ...busybox, ports: [{ containerPort: 80, hostPort: 80 }] }],
    initContainers: [
      { ...busybox, name: "side", restartPolicy: "Always", ports: [{ containerPort: 81, hostPort: 80 }] },
    ],
  }),
  "another port on the host's network": one({ ports: [{ containerPort: 80, hostPort: 81 }] }, { hostNetwork: true }),
  "a host IP that is none": one({ ports: [{ containerPort: 80, hostPort: 80, hostIP: "localhost" }] }),
  "environment without names": env({ value: "a" }, { name: "", value: "b" }),
  "environment with wrong names": env({ name: "a=b" }, { name: "ä" }),
  "environment with value and source": env({
    name: "A",
    value: "b",
    valueFrom: { fieldRef: { fieldPath: "metadata.name" } },
  }),
  "environment with two sources": env({
    name: "A",
    valueFrom: { fieldRef: { fieldPath: "metadata.name" }, configMapKeyRef: { name: "a", key: "b" } },
  }),
  "environment with no source": env({ name: "A", valueFrom: {} }),
  "environment from unknown fields": env(
    { name: "A", valueFrom: { fieldRef: { fieldPath: "spec.hostname" } } },
    { name: "B", valueFrom: { fieldRef: { fieldPath: "" } } },
    { name: "C", valueFrom: { fieldRef: { fieldPath: "metadata.labels['a b']" } } },
    { name: "D", valueFrom: { resourceFieldRef: { resource: "limits.gpu" } } },
    { name: "E", valueFrom: { resourceFieldRef: { resource: "limits.cpu", divisor: "2" } } },
  ),
  "environment from keys that are none": env(
    { name: "A", valueFrom: { configMapKeyRef: { name: "", key: "" } } },
    { name: "B", valueFrom: { secretKeyRef: { name: "S", key: "a b" } } },
    { name: "C", valueFrom: { secretKeyRef: { name: "s", key: ".." } } },
  ),
  "environment from files that are none": one(
    {
      env: [
        { name: "A", valueFrom: { fileKeyRef: { key: "", volumeName: "", path: "" } } },
        { name: "B", valueFrom: { fileKeyRef: { key: "a=b", volumeName: "V", path: "../a" } } },
        { name: "C", valueFrom: { fileKeyRef: { key: "c", volumeName: "none", path: "a" } } },
        { name: "D", valueFrom: { fileKeyRef: { key: "d", volumeName: "v", path: "/a" } } },
      ],
    },
    { volumes: [{ name: "v", hostPath: { path: "/v" } }] },
  ),
  "environment from another version": env({
    name: "A",
    valueFrom: { fieldRef: { apiVersion: "v2", fieldPath: "metadata.name" } },
  }),
  "environment from a container that is not there": env({
    name: "A",
    valueFrom: { resourceFieldRef: { containerName: "none", resource: "limits.cpu" } },
  }),
  "environment from nothing": one({ envFrom: [{}, { configMapRef: { name: "" } }] }),
  "requests above limits": one({
    resources: { limits: { cpu: "1", memory: "1Gi" }, requests: { cpu: "2", memory: "2Gi" } },
  }),
  "negative resources": one({ resources: { limits: { cpu: "-1" }, requests: { memory: "-1Gi" } } }),
  "resources with unknown names": one({ resources: { limits: { gpu: "1", "a b": "1" } } }),
  "extended resources that are not whole": one({ resources: { limits: { "example.com/gpu": "500m" } } }),
  "extended resources asked for below their limit": one({
    resources: { limits: { "example.com/gpu": "2" }, requests: { "example.com/gpu": "1" } },
  }),
  "extended resources without a limit": one({ resources: { requests: { "example.com/gpu": "1" } } }),
  "huge pages alone": one({ resources: { limits: { "hugepages-2Mi": "4Mi" } } }),
  "huge pages in part": one({ resources: { limits: { "hugepages-2Mi": "3Mi", cpu: "1" } } }),
  "quantities that are none": one({ resources: { limits: { cpu: "lots" } } }),
  "resources of the pod that it cannot have": one(
    {},
    { resources: { limits: { "ephemeral-storage": "1Gi", cpu: "1" }, requests: { cpu: "2" } } },
  ),
  "volumes with wrong names": volumes({ name: "A", emptyDir: {} }, { name: "", emptyDir: {} }),
  "two volumes of one name": volumes({ name: "v", emptyDir: {} }, { name: "v", emptyDir: {} }),
  "a volume with two sources": volumes({ emptyDir: {}, hostPath: { path: "/a" } }),
  "volumes without what they need": volumes(
    { hostPath: { path: "" } },
    { configMap: {} },
    { secret: {} },
    { persistentVolumeClaim: { claimName: "" } },
  ),
  "a host path with a way up": volumes({ hostPath: { path: "/a/../b" } }),
  "a negative size": volumes({ emptyDir: { sizeLimit: "-1" } }),
  "modes out of range": volumes(
    { configMap: { name: "c", defaultMode: 512 } },
    { secret: { secretName: "s", defaultMode: -1 } },
  ),
  "items that are none": volumes({
    configMap: {
      name: "c",
      items: [
        { key: "", path: "" },
        { key: "a", path: "/a" },
        { key: "a", path: "../a" },
        { key: "a", path: "..a" },
      ],
    },
  }),
  "downward API files that are none": volumes({
    downwardAPI: { items: [{ path: "a" }, { path: "b", fieldRef: { fieldPath: "status.podIP" } }] },
  }),
  "a projected source with two kinds": volumes({
    projected: { sources: [{ configMap: { name: "a" }, secret: { name: "b" } }] },
  }),
  "a projected token without an account": volumes({
    projected: { sources: [{ serviceAccountToken: { path: "t", expirationSeconds: 1 } }] },
  }),
  "a mount of nothing": mounts({ name: "w", mountPath: "/w" }),
  "mounts without what they need": mounts({ name: "", mountPath: "" }),
  "two mounts at one path": mounts({ name: "v", mountPath: "/v" }, { name: "v", mountPath: "/v" }),
  "a mount that needs privileges": mounts({ name: "v", mountPath: "/v", mountPropagation: "Bidirectional" }),
  "mounts at odd paths": mounts(
    { name: "v", mountPath: "a" },
    { name: "v", mountPath: "/a:b" },
    { name: "v", mountPath: "/b/../c" },
    { name: "v", mountPath: "/d", subPath: "../d" },
    { name: "v", mountPath: "/e", subPathExpr: "/e" },
    { name: "v", mountPath: "/f", subPath: "f", subPathExpr: "f" },
  ),
  "paths in the container that are relative, or upon each other": one(
    { workingDir: "a", terminationMessagePath: "v", volumeMounts: [{ name: "v", mountPath: "/v" }] },
    { volumes: [{ name: "v", emptyDir: {} }] },
  ),
  "a device that is no claim": one(
    { volumeDevices: [{ name: "v", devicePath: "/dev/a" }] },
    { volumes: [{ name: "v", emptyDir: {} }] },
  ),
  "probes with wrong numbers": one({
    livenessProbe: {
      ...tcp,
      initialDelaySeconds: -1,
      periodSeconds: -1,
      timeoutSeconds: -1,
      failureThreshold: -1,
      successThreshold: 2,
    },
    startupProbe: { ...tcp, terminationGracePeriodSeconds: 0 },
    readinessProbe: { ...tcp, terminationGracePeriodSeconds: 5 },
  }),
  "a probe of two kinds": one({ livenessProbe: { ...tcp, exec: { command: ["true"] } } }),
  "a probe of no kind": one({ livenessProbe: {} }),
  "probes without what they need": one({
    livenessProbe: { exec: {} },
    readinessProbe: { httpGet: { port: "UPPER", httpHeaders: [{ name: "a b", value: "c" }] } },
    startupProbe: { tcpSocket: { port: 0 } },
  }),
  "a probe without a port": one({ livenessProbe: { grpc: { port: 0 } }, readinessProbe: { grpc: { port: 65_536 } } }),
  "a probe of a port that is not there": one({ livenessProbe: { tcpSocket: { port: "none" } } }),
  "hooks of two kinds and of none": one({
    lifecycle: { postStart: { exec: { command: ["true"] }, httpGet: { port: 80 } }, preStop: {} },
  }),
  "hooks without what they need": one({
    lifecycle: { postStart: { exec: {} }, preStop: { httpGet: { port: 0 } } },
  }),
  "a hook that sleeps too long": one({ lifecycle: { preStop: { sleep: { seconds: 60 } } } }),
  "a stop signal without an operating system": one({ lifecycle: { stopSignal: "SIGTERM" } }),
  "an init container with probes and hooks": pod({
    containers: [busybox],
    initContainers: [
      {
        name: "init",
        image: "busybox:1",
        livenessProbe: tcp,
        readinessProbe: tcp,
        startupProbe: tcp,
        lifecycle: { preStop: { exec: { command: ["a"] } } },
      },
    ],
  }),
  "ids out of range": one(
    { securityContext: { runAsUser: -1, runAsGroup: 2_147_483_648 } },
    { securityContext: { runAsUser: -1, runAsGroup: -1, fsGroup: 2_147_483_648, supplementalGroups: [1, -1] } },
  ),
  "security that contradicts itself": one({
    securityContext: { privileged: true, allowPrivilegeEscalation: false, capabilities: { add: ["CAP_SYS_ADMIN"] } },
  }),
  "profiles that are none": one({
    securityContext: {
      seccompProfile: { type: "Localhost" },
      appArmorProfile: { type: "RuntimeDefault", localhostProfile: "a" },
    },
  }),
  "profiles without names": one({
    securityContext: {
      seccompProfile: { type: "Localhost", localhostProfile: "" },
      appArmorProfile: { type: "Localhost", localhostProfile: "" },
    },
  }),
  "profiles that lie elsewhere": one(
    { securityContext: { seccompProfile: { type: "Localhost", localhostProfile: "/etc/a" } } },
    {
      securityContext: {
        seccompProfile: { type: "Localhost", localhostProfile: "../a" },
        appArmorProfile: { type: "Localhost", localhostProfile: " a" },
      },
    },
  ),
  "capabilities that are none": one({ securityContext: { capabilities: { add: ["NONE_OF_THEM", ""] } } }),
  "sysctls that are none": one(
    {},
    {
      securityContext: {
        sysctls: [
          { name: "", value: "1" },
          { name: "a b", value: "1" },
          { name: "net.a", value: "1" },
          { name: "net.a", value: "1" },
        ],
      },
    },
  ),
  "an unmasked proc without user namespaces": one({ securityContext: { procMount: "Unmasked" } }),
  "host namespaces with users of its own": one({}, { hostUsers: false, hostPID: true, hostIPC: true }),
  "processes shared with the pod and the host": one({}, { shareProcessNamespace: true, hostPID: true }),
  "no name server": one({}, { dnsPolicy: "None" }),
  "no name server in the list": one({}, { dnsPolicy: "None", dnsConfig: { searches: ["a"] } }),
  "name servers that are none": one(
    {},
    {
      dnsConfig: { nameservers: ["a", "10.0.0.1", "::1", "10.0.0.256"], searches: ["a b"], options: [{ value: "a" }] },
    },
  ),
  "too many search domains": one(
    {},
    { dnsConfig: { searches: Array.from({ length: 33 }, (_, index) => `a${index}`) } },
  ),
  "host aliases that are none": one({}, { hostAliases: [{ ip: "nowhere", hostnames: ["A b"] }] }),
  "tolerations that are none": one(
    {},
    {
      tolerations: [
        { operator: "Equal", value: "a" },
        { key: "a b", operator: "Exists" },
        { key: "a", operator: "Exists", value: "b" },
        { key: "a", operator: "Equal", value: "b c" },
        { key: "a", operator: "Exists", effect: "NoSchedule", tolerationSeconds: 5 },
      ],
    },
  ),
  "a negative grace": one({}, { terminationGracePeriodSeconds: -1 }),
  "a medium that is none": volumes({ emptyDir: { medium: "Disk" } }),
  "a deadline of nothing": one({}, { activeDeadlineSeconds: 0 }),
  "names of other things that are none": one(
    {},
    {
      serviceAccountName: "A b",
      nodeName: "N_1",
      hostname: "a.b",
      subdomain: "A",
      priorityClassName: "P!",
      runtimeClassName: "R!",
    },
  ),
  "node labels that are none": one({}, { nodeSelector: { "a b": "c" } }),
  "a name of the host that is too long with its domain": one(
    {},
    { hostname: "h".repeat(63), subdomain: "s".repeat(63), setHostnameAsFQDN: true },
  ),
  "a hostname for the host": one({}, { hostNetwork: true, hostnameOverride: "a" }),
  "rules without a policy": one({ restartPolicyRules: [{ action: "Restart" }] }),
  "a resize policy that cannot be": one(
    {
      resizePolicy: [
        { resourceName: "disk", restartPolicy: "NotRequired" },
        { resourceName: "cpu", restartPolicy: "RestartContainer" },
      ],
    },
    { restartPolicy: "Never" },
  ),
  "an ephemeral container from the start": one({}, { ephemeralContainers: [{ name: "debug", image: "busybox:1" }] }),
  "another kind": { apiVersion: "v1", kind: "Service", metadata: { name: "web" }, spec: {} },
  "a list": { apiVersion: "v1", kind: "List", items: [] },
  "unknown fields": pod({ containers: [{ ...busybox, comand: ["a"] }], restartpolicy: "Never" }, { label: {} }),
  "a text for a list": pod({ containers: "busybox" }),
  "a list for an object": pod({ containers: [busybox], securityContext: [] }),
  "a text for a number": one({}, { terminationGracePeriodSeconds: "30" }),
  "a number for a text": one({ env: [{ name: "A", value: 1 }] }),
  "a number for a flag": one({}, { hostNetwork: 1 }),
  "a number that is too large": one({ ports: [{ containerPort: 3_000_000_000 }] }),
  "a fraction for a number": one({}, { terminationGracePeriodSeconds: 1.5 }),
  "a time that is none": pod({ containers: [busybox] }, { creationTimestamp: "yesterday" }),
};
