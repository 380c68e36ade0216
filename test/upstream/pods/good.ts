/**
 * Valid pods, chosen so that each default of the API applies to one of them and does not apply to another. Keys are the
 * names of rows in test/golden/pod-defaults.json.
 */
type Json = { readonly [key: string]: unknown };

function pod(spec: Json, metadata: Json = {}): Json {
  return { apiVersion: "v1", kind: "Pod", metadata: { name: "web", ...metadata }, spec };
}

function one(container: Json, spec: Json = {}): Json {
  return pod({ containers: [{ name: "main", image: "busybox:1.36", ...container }], ...spec });
}

function withVolumes(...volumes: readonly Json[]): Json {
  return one({}, { volumes });
}

const images = [
  "busybox",
  "busybox:latest",
  "busybox:1",
  "library/busybox",
  "registry.example:5000/app",
  "registry.example:5000/app:2",
  "registry.example/team/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
  "app:latest@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
  "app:1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
  "Upper/Case",
  "localhost/app",
  "[::1]:5000/app",
  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
  "a__b/c--d",
  "a..b",
  "trailing/",
];

export const goodPods: Readonly<Record<string, Json>> = {
  "nothing but a name and an image": one({}),
  "images with and without tag and digest": pod({
    containers: images.map((image, index) => ({ name: `c${index}`, image })),
  }),
  "an explicit pull policy stays": one({ image: "busybox:latest", imagePullPolicy: "Never" }),
  "everything that has a default is given": one(
    {
      imagePullPolicy: "IfNotPresent",
      terminationMessagePath: "/dev/log",
      terminationMessagePolicy: "FallbackToLogsOnError",
      ports: [{ containerPort: 80, protocol: "UDP" }],
    },
    {
      dnsPolicy: "Default",
      restartPolicy: "Never",
      schedulerName: "mine",
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 0,
      securityContext: { runAsUser: 1000 },
    },
  ),
  "ports get a protocol": one({ ports: [{ containerPort: 80 }, { containerPort: 53, protocol: "UDP", name: "dns" }] }),
  "ports on the host's network": one(
    { ports: [{ containerPort: 80 }, { containerPort: 81, hostPort: 81, name: "b" }] },
    { hostNetwork: true, initContainers: [{ name: "init", image: "busybox:1", ports: [{ containerPort: 82 }] }] },
  ),
  "probes by http": one({
    livenessProbe: { httpGet: { port: 80 } },
    readinessProbe: {
      httpGet: { port: "http", path: "/ready", scheme: "HTTPS" },
      periodSeconds: 1,
      failureThreshold: 9,
    },
    startupProbe: { httpGet: { port: 80, path: "", httpHeaders: [{ name: "X-A", value: "b" }] }, timeoutSeconds: 0 },
  }),
  "probes by other means": one({
    livenessProbe: { exec: { command: ["true"] }, initialDelaySeconds: 3, terminationGracePeriodSeconds: 5 },
    readinessProbe: { tcpSocket: { port: 80 }, successThreshold: 2 },
    startupProbe: { grpc: { port: 9000 } },
  }),
  "a grpc probe with a service": one({ livenessProbe: { grpc: { port: 9000, service: "health" } } }),
  "lifecycle hooks": one({
    lifecycle: {
      postStart: { httpGet: { port: 80 } },
      preStop: { httpGet: { port: 80, path: "/stop", host: "127.0.0.1" } },
    },
  }),
  "lifecycle hooks that are no requests": one({
    lifecycle: { postStart: { exec: { command: ["true"] } }, preStop: { sleep: { seconds: 3 } } },
  }),
  "init containers have the defaults of containers": pod({
    initContainers: [
      { name: "once", image: "busybox", resources: { limits: { cpu: "1" } } },
      { name: "side", image: "busybox:1", restartPolicy: "Always", startupProbe: { tcpSocket: { port: 1 } } },
    ],
    containers: [{ name: "main", image: "busybox" }],
  }),
  "requests from limits": one({ resources: { limits: { cpu: "2", memory: "1Gi", "example.com/gpu": "1" } } }),
  "requests from some limits": one({
    resources: { limits: { cpu: "2", memory: "1Gi" }, requests: { cpu: "500m", "ephemeral-storage": "1G" } },
  }),
  "requests alone": one({ resources: { requests: { cpu: "100m" } } }),
  "quantities that are not canonical": one({
    resources: { limits: { cpu: "0.5", memory: "1048576Ki" }, requests: { cpu: "0.1234567", memory: "0.5Gi" } },
  }),
  "quantities as numbers": one({ resources: { limits: { cpu: 2, memory: 1000000 }, requests: { cpu: 0.5 } } }),
  "resources of the pod from its containers": one(
    { resources: { requests: { cpu: "100m", memory: "64Mi" } } },
    { resources: { limits: { cpu: "2", memory: "1Gi" } } },
  ),
  "resources of the pod from its limits": one({}, { resources: { limits: { cpu: "2", memory: "1Gi" } } }),
  "resources of the pod with init containers": pod({
    resources: { limits: { cpu: "3" }, requests: { memory: "1Gi" } },
    initContainers: [
      {
        name: "side",
        image: "busybox:1",
        restartPolicy: "Always",
        resources: { requests: { cpu: "100m", memory: "64Mi" } },
      },
      { name: "big", image: "busybox:1", resources: { requests: { cpu: "1500m", memory: "32Mi" } } },
      { name: "side-2", image: "busybox:1", restartPolicy: "Always", resources: { requests: { cpu: "200m" } } },
    ],
    containers: [
      { name: "a", image: "busybox:1", resources: { requests: { cpu: "300m", memory: "64Mi" } } },
      { name: "b", image: "busybox:1", resources: { requests: { cpu: "400m" }, limits: { cpu: "400m" } } },
    ],
  }),
  "huge pages of the pod from its containers": one(
    { resources: { limits: { "hugepages-2Mi": "4Mi", cpu: "1" } } },
    { resources: { requests: { cpu: "1" } } },
  ),
  "a volume without a source": withVolumes({ name: "v" }),
  "local volumes": withVolumes(
    { name: "a", emptyDir: {} },
    { name: "b", emptyDir: { medium: "Memory", sizeLimit: "1048576Ki" } },
    { name: "c", hostPath: { path: "/a" } },
    { name: "d", hostPath: { path: "/a", type: "DirectoryOrCreate" } },
  ),
  "volumes from API objects": withVolumes(
    { name: "a", configMap: { name: "c" } },
    { name: "b", secret: { secretName: "s", defaultMode: 256 } },
    { name: "c", configMap: { name: "c", items: [{ key: "a", path: "b" }], optional: true } },
    { name: "d", persistentVolumeClaim: { claimName: "p" } },
  ),
  "downward API volumes": withVolumes({
    name: "a",
    downwardAPI: {
      items: [
        { path: "labels", fieldRef: { fieldPath: "metadata.labels" } },
        { path: "cpu", resourceFieldRef: { containerName: "main", resource: "limits.cpu", divisor: "1m" } },
        { path: "memory", resourceFieldRef: { containerName: "main", resource: "limits.memory" } },
      ],
    },
  }),
  "projected volumes": one(
    {},
    {
      serviceAccountName: "robot",
      volumes: [
        {
          name: "a",
          projected: {
            sources: [
              { serviceAccountToken: { path: "token" } },
              { serviceAccountToken: { path: "token-2", expirationSeconds: 7200, audience: "me" } },
              { configMap: { name: "c" } },
              { secret: { name: "s" } },
              { downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
            ],
          },
        },
      ],
    },
  ),
  "an ephemeral volume": withVolumes({
    name: "a",
    ephemeral: {
      volumeClaimTemplate: {
        metadata: { labels: { a: "b" } },
        spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1024Mi" } } },
      },
    },
  }),
  "image volumes": withVolumes(
    { name: "a", image: { reference: "app:latest" } },
    { name: "b", image: { reference: "app:1" } },
    { name: "c", image: { reference: "app:1", pullPolicy: "Always" } },
  ),
  "volumes of storage systems": withVolumes(
    { name: "a", iscsi: { targetPortal: "10.0.0.1", iqn: "iqn.2001-04.com.example:storage", lun: 0 } },
    { name: "b", rbd: { monitors: ["10.0.0.1"], image: "i" } },
    { name: "c", nfs: { server: "10.0.0.1", path: "/" } },
    { name: "d", csi: { driver: "csi.example.com" } },
  ),
  "environment from fields": one({
    env: [
      { name: "A", value: "b" },
      { name: "IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
      { name: "CPU", valueFrom: { resourceFieldRef: { resource: "limits.cpu" } } },
      { name: "S", valueFrom: { secretKeyRef: { name: "s", key: "k" } } },
    ],
    envFrom: [{ prefix: "P_", configMapRef: { name: "c" } }],
  }),
  "a service account": one({}, { serviceAccountName: "robot" }),
  "a service account by its old name": one({}, { serviceAccount: "robot" }),
  "a host of small things": pod(
    {
      activeDeadlineSeconds: 60,
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: ["n"] }] }],
          },
        },
      },
      containers: [
        {
          name: "main",
          image: "busybox:1",
          command: ["sh"],
          args: ["-c", "true"],
          stdin: true,
          stdinOnce: true,
          tty: true,
          workingDir: "/tmp",
          securityContext: {
            capabilities: { add: ["NET_ADMIN"], drop: ["ALL"] },
            readOnlyRootFilesystem: true,
            seccompProfile: { type: "RuntimeDefault" },
          },
          volumeMounts: [{ name: "v", mountPath: "/v", subPath: "a/b", readOnly: true }],
        },
      ],
      dnsConfig: { nameservers: ["10.0.0.1"], searches: ["example.com"], options: [{ name: "ndots", value: "2" }] },
      hostAliases: [{ ip: "10.0.0.1", hostnames: ["a", "b"] }],
      hostPID: true,
      hostname: "h",
      imagePullSecrets: [{ name: "s" }],
      nodeName: "n",
      nodeSelector: { a: "b" },
      os: { name: "linux" },
      priorityClassName: "high",
      readinessGates: [{ conditionType: "example.com/ready" }],
      subdomain: "s",
      tolerations: [{ operator: "Exists" }, { key: "a", operator: "Equal", value: "b", effect: "NoSchedule" }],
      topologySpreadConstraints: [
        {
          maxSkew: 1,
          topologyKey: "zone",
          whenUnsatisfiable: "DoNotSchedule",
          labelSelector: { matchLabels: { a: "b" } },
        },
      ],
      volumes: [{ name: "v", emptyDir: {} }],
    },
    { labels: { app: "web" }, annotations: { "example.com/a": "b" } },
  ),
};
