import type { Container, EnvVar, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { script } from "../../e2e/manifest.ts";
import { viewScript } from "../container-view.ts";
import { hasEnded, hasRepeatedEvent, type PodCase, viewCase, waitsWithSandbox } from "./pod-case.ts";
import { resources } from "./resources.ts";

const env = (container: Partial<Container>, spec: Partial<PodSpec> = {}) =>
  [container, { enableServiceLinks: false, ...spec }] as const;
const fieldEnv = (fieldPath: string) => ({
  name: fieldPath.replaceAll(/[^A-Za-z]/g, "_").toUpperCase(),
  valueFrom: { fieldRef: { fieldPath } },
});
const resourceEnv = (resource: string, divisor?: string) => ({
  name: `${resource}_${divisor ?? "whole"}`.replaceAll(/[^A-Za-z0-9]/g, "_").toUpperCase(),
  valueFrom: { resourceFieldRef: { resource, ...(divisor === undefined ? {} : { divisor }) } },
});

const fromFile = (key: string, optional = false) => ({
  fileKeyRef: { volumeName: "written", path: "variables", key, optional },
});
/** An init container that writes an env file for the other containers. */
const withFile: Partial<PodSpec> = {
  initContainers: [
    {
      name: "first",
      image: busyboxImage,
      command: script('(echo "# of the pod"; echo "ONE=\'first\'"; echo "TWO=\'a b # c\'") > /written/variables'),
      volumeMounts: [{ name: "written", mountPath: "/written" }],
    },
  ],
  volumes: [{ name: "written", emptyDir: {} }],
};

const fields = [
  "metadata.uid",
  "metadata.name",
  "metadata.namespace",
  "metadata.labels['app']",
  "metadata.annotations['none']",
  "spec.nodeName",
  "spec.serviceAccountName",
  "status.hostIP",
  "status.hostIPs",
  "status.podIP",
  "status.podIPs",
];
const resourceFields = [
  ["limits.cpu"],
  ["limits.cpu", "1m"],
  ["limits.memory"],
  ["limits.memory", "1Mi"],
  ["requests.cpu", "1m"],
  ["requests.memory", "1k"],
] as const;
const securityCase = (
  name: string,
  securityContext: Container["securityContext"],
  spec: Partial<PodSpec> = {},
): PodCase => viewCase(name, ["id", "status"], { securityContext: securityContext ?? {} }, spec);
const hostPathCase = (name: string, hostPath: { path: string; type?: string }, readOnly = false): PodCase =>
  viewCase(
    name,
    ["mounts"],
    { volumeMounts: [{ name: "host", mountPath: "/seen", readOnly }] },
    { volumes: [{ name: "host", hostPath: hostPath as { path: string } }] },
  );
const failedMountCase = (name: string, hostPath: { path: string; type: string }): PodCase => ({
  ...hostPathCase(name, hostPath),
  until: hasRepeatedEvent("FailedMount"),
  viewParts: [],
});

const configErrorCase = (name: string, container: Partial<Container>, spec: Partial<PodSpec> = {}): PodCase => ({
  ...viewCase(name, [], container, spec),
  until: waitsWithSandbox("CreateContainerConfigError"),
});
const missingVariableCase = (name: string, variable: Pick<EnvVar, "valueFrom">): PodCase =>
  configErrorCase(name, { env: [{ name: "A", ...variable }] });

/** Pods that record their environment, network, mounts, limits and security settings as seen inside the container. */
export const containerEnvironmentCases: readonly PodCase[] = [
  viewCase("default-view", ["hostname", "id", "cwd", "args", "mounts", "oom", "namespaces"]),
  viewCase("arguments", ["args", "cwd"], {
    args: ["one", "two words", "$(NAME)", "$$(NAME)", "$(NONE)"],
    workingDir: "/tmp",
    env: [{ name: "NAME", value: "value" }],
  }),
  viewCase("working-dir-made", ["cwd"], { workingDir: "/made/for/it" }),
  viewCase(
    "environment",
    ["env"],
    ...env({
      env: [
        { name: "PLAIN", value: "a b  c" },
        { name: "EMPTY" },
        { name: "EARLIER", value: "$(PLAIN)-$(LATER)-$$(PLAIN)-$" },
        { name: "LATER", value: "later" },
        { name: "TWICE", value: "first" },
        { name: "TWICE", value: "second $(TWICE)" },
        { name: "PATH", value: "/bin:/usr/bin" },
        { name: "HOSTNAME", value: "mine" },
      ],
    }),
  ),
  viewCase(
    "environment-from-references",
    ["env"],
    ...env({
      envFrom: [
        { secretRef: { name: "login" } },
        { configMapRef: { name: "site" } },
        { prefix: "P_", secretRef: { name: "login" } },
        { configMapRef: { name: "none", optional: true } },
      ],
      env: [
        { name: "ONE", valueFrom: { secretKeyRef: { name: "login", key: "pass" } } },
        { name: "TWO", valueFrom: { configMapKeyRef: { name: "site", key: "zone" } } },
        { name: "BOTH", value: "$(ONE) $(TWO) $(P_user) $(NONE)" },
        { name: "colour", value: "not $(colour)" },
        { name: "user", valueFrom: { secretKeyRef: { name: "login", key: "none", optional: true } } },
        { name: "NONE", valueFrom: { configMapKeyRef: { name: "none", key: "k", optional: true } } },
      ],
    }),
  ),
  viewCase(
    "environment-cycle",
    ["env", "args"],
    ...env({
      args: ["$(A)", "$(B)", "$(SELF)"],
      env: [
        { name: "A", value: "a $(B)" },
        { name: "B", value: "b $(A)" },
        { name: "A", value: "again $(B)" },
        { name: "SELF", value: "$(SELF) $($(A)) $( $(" },
      ],
    }),
  ),
  viewCase("environment-over-services", ["env"], {
    env: [
      { name: "BACK_END_SERVICE_HOST", value: "mine, not $(PLAIN_SERVICE_PORT)" },
      { name: "KUBERNETES_SERVICE_PORT", value: "$(KUBERNETES_SERVICE_PORT)0" },
    ],
  }),
  {
    // awk instead of a shell, because a shell drops variables whose names it cannot use.
    ...viewCase(
      "environment-unusual-names",
      ["env"],
      ...env({
        command: [
          ...[
            "awk",
            'BEGIN { f = "/dev/termination-log"; print "view" > f; for (k in ENVIRON) print "env " k "=" ENVIRON[k] > f }',
          ],
        ],
        env: [
          { name: "a.b-c", value: "dots" },
          { name: "1st", value: "a digit" },
          { name: "with space", value: "a space" },
          { name: "$(x)", value: "no reference" },
        ],
        envFrom: [{ prefix: "9.", secretRef: { name: "login" } }],
      }),
    ),
  },
  viewCase(
    "environment-from-file",
    ["env"],
    ...env(
      {
        env: [
          { name: "PLAIN", valueFrom: fromFile("ONE") },
          { name: "QUOTED", valueFrom: fromFile("TWO") },
          { name: "BOTH", value: "$(PLAIN)+$(QUOTED)" },
          { name: "NONE", valueFrom: fromFile("NONE", true) },
        ],
      },
      withFile,
    ),
  ),
  configErrorCase(
    "environment-from-file-missing-key",
    { env: [{ name: "NONE", valueFrom: fromFile("NONE") }] },
    withFile,
  ),
  missingVariableCase("config-map-missing", { valueFrom: { configMapKeyRef: { name: "none", key: "k" } } }),
  configErrorCase("environment-from-no-secret", { envFrom: [{ secretRef: { name: "none" } }] }),
  configErrorCase("environment-from-no-config-map", {
    envFrom: [{ configMapRef: { name: "site" } }, { configMapRef: { name: "none" } }],
  }),
  missingVariableCase("secret-missing", { valueFrom: { secretKeyRef: { name: "none", key: "k" } } }),
  missingVariableCase("key-missing", { valueFrom: { configMapKeyRef: { name: "site", key: "none" } } }),
  viewCase("pull-secret-missing", ["hostname"], {}, { imagePullSecrets: [{ name: "none" }, { name: "login" }] }),
  viewCase("environment-of-fields", ["env"], ...env({ env: fields.map(fieldEnv) })),
  viewCase(
    "environment-of-resources",
    ["env"],
    ...env({ resources, env: resourceFields.map(([resource, divisor]) => resourceEnv(resource, divisor)) }),
  ),
  viewCase(
    "environment-without-limits",
    ["env"],
    ...env({ env: resourceFields.map(([resource, divisor]) => resourceEnv(resource, divisor)) }),
  ),
  viewCase("services", ["env"]),
  viewCase("services-unlinked", ["env"], ...env({})),
  viewCase("dns-cluster-first", ["resolv", "hostname"]),
  viewCase("dns-default", ["resolv"], {}, { dnsPolicy: "Default" }),
  viewCase(
    "dns-none",
    ["resolv"],
    {},
    {
      dnsPolicy: "None",
      dnsConfig: {
        nameservers: ["198.51.100.53"],
        searches: ["a.test", "b.test"],
        options: [{ name: "ndots", value: "2" }, { name: "edns0" }],
      },
    },
  ),
  viewCase(
    "dns-merged",
    ["resolv"],
    {},
    { dnsConfig: { nameservers: ["198.51.100.53"], searches: ["a.test"], options: [{ name: "ndots", value: "1" }] } },
  ),
  viewCase(
    "dns-too-many",
    ["resolv"],
    {},
    { dnsConfig: { nameservers: ["198.51.100.1", "198.51.100.2", "198.51.100.3"] } },
  ),
  viewCase("dns-of-the-host", ["resolv", "namespaces"], {}, { hostNetwork: true }),
  viewCase("dns-on-host-network", ["resolv"], {}, { hostNetwork: true, dnsPolicy: "ClusterFirstWithHostNet" }),
  viewCase("hostname", ["hostname", "resolv"], {}, { hostname: "own-name", subdomain: "sub" }),
  viewCase(`name-of-${"many".repeat(16)}-letters`, ["hostname"]),
  viewCase("host-pid", ["namespaces", "first"], {}, { hostPID: true }),
  viewCase("host-everything", ["namespaces", "first"], {}, { hostIPC: true, hostPID: true, hostNetwork: true }),
  viewCase("host-ipc", ["namespaces"], {}, { hostIPC: true }),
  viewCase("shared-processes", ["namespaces", "first"], {}, { shareProcessNamespace: true }),
  viewCase("hosts", ["hosts"], {}, { hostAliases: [{ ip: "198.51.100.9", hostnames: ["alias.test", "alias"] }] }),
  viewCase(
    "aliases-on-the-host",
    ["hosts"],
    {},
    { hostNetwork: true, hostAliases: [{ ip: "198.51.100.9", hostnames: ["alias.test"] }] },
  ),
  viewCase(
    "hosts-of-its-own",
    ["hosts"],
    { volumeMounts: [{ name: "host", mountPath: "/etc/hosts" }] },
    {
      volumes: [{ name: "host", hostPath: { path: "/etc/hostname" } }],
      hostAliases: [{ ip: "198.51.100.9", hostnames: ["alias.test"] }],
    },
  ),
  viewCase("hostname-override", ["hosts", "hostname", "resolv"], {}, { hostnameOverride: "other.name.test" }),
  {
    ...viewCase(
      "hostname-as-fqdn-too-long",
      [],
      {},
      { hostname: "own".repeat(12), subdomain: "sub".repeat(6), setHostnameAsFQDN: true },
    ),
    until: hasRepeatedEvent("FailedCreatePodSandBox"),
  },
  viewCase("hosts-of-the-host", ["hosts"], {}, { hostNetwork: true }),
  viewCase(
    "hostname-as-fqdn",
    ["hosts", "hostname"],
    {},
    { hostname: "own-name", subdomain: "sub", setHostnameAsFQDN: true },
  ),
  viewCase("ports", ["hostname"], {
    ports: [
      { name: "web", containerPort: 8080 },
      { containerPort: 8443, hostPort: 18443, protocol: "TCP" },
    ],
  }),
  viewCase(
    "empty-dir",
    ["mounts"],
    {
      volumeMounts: [
        { name: "v", mountPath: "/v" },
        { name: "v", mountPath: "/readable", readOnly: true },
      ],
    },
    { volumes: [{ name: "v", emptyDir: {} }] },
  ),
  hostPathCase("host-path", { path: "/etc/hostname" }, true),
  hostPathCase("host-path-file", { path: "/etc/hostname", type: "File" }),
  hostPathCase("host-path-device", { path: "/dev/null", type: "CharDevice" }),
  failedMountCase("host-path-no-device", { path: "/dev/null", type: "BlockDevice" }),
  hostPathCase("host-path-directory", { path: "/etc", type: "Directory" }),
  failedMountCase("host-path-no-directory", { path: "/etc/hostname", type: "Directory" }),
  failedMountCase("host-path-no-file", { path: "/no/such/file", type: "File" }),
  failedMountCase("host-path-no-socket", { path: "/etc/hostname", type: "Socket" }),
  securityCase("user", { runAsUser: 1234 }),
  securityCase(
    "user-and-group",
    { runAsUser: 1234, runAsGroup: 2345 },
    { securityContext: { supplementalGroups: [3456, 4567] } },
  ),
  securityCase("user-of-the-pod", {}, { securityContext: { runAsUser: 1234, runAsGroup: 2345, runAsNonRoot: true } }),
  securityCase("capabilities", { capabilities: { add: ["NET_ADMIN", "SYS_TIME"], drop: ["CHOWN", "KILL"] } }),
  securityCase("no-capabilities", { capabilities: { drop: ["ALL"] }, runAsUser: 1 }),
  securityCase("privileged", { privileged: true }),
  securityCase("no-privilege-escalation", { allowPrivilegeEscalation: false }),
  securityCase("seccomp-of-the-runtime", { seccompProfile: { type: "RuntimeDefault" } }),
  securityCase("seccomp-of-the-pod", {}, { securityContext: { seccompProfile: { type: "RuntimeDefault" } } }),
  securityCase("seccomp-off", { seccompProfile: { type: "Unconfined" } }),
  viewCase("read-only-root", ["mounts"], { securityContext: { readOnlyRootFilesystem: true, procMount: "Default" } }),
  viewCase("read-only-root-enforced", ["args"], {
    securityContext: { readOnlyRootFilesystem: true },
    command: ["sh", "-c", "(echo view; touch /x; echo args $?) > /dev/termination-log 2>&1"],
  }),
  securityCase("groups-of-the-pod", {}, { securityContext: { fsGroup: 2345, supplementalGroups: [3456, 2345] } }),
  securityCase(
    "user-overrides-pod",
    { runAsUser: 4321 },
    { securityContext: { runAsUser: 1234, runAsGroup: 2345, supplementalGroupsPolicy: "Merge" } },
  ),
  securityCase("privileges-of-a-user", { privileged: true, runAsUser: 1234 }),
  viewCase("privileged-mounts", ["mounts"], { securityContext: { privileged: true } }),
  securityCase("apparmor-off", { appArmorProfile: { type: "Unconfined" } }),
  {
    ...securityCase("group-without-user", { runAsGroup: 2345 }),
    until: hasEnded,
    viewParts: [],
  },
  {
    ...securityCase("seccomp-missing", { seccompProfile: { type: "Localhost", localhostProfile: "none.json" } }),
    until: waitsWithSandbox("CreateContainerError"),
    viewParts: [],
  },
  {
    ...securityCase("root-with-run-as-non-root", { runAsNonRoot: true }),
    until: waitsWithSandbox("CreateContainerConfigError"),
    viewParts: [],
  },
  {
    ...securityCase("root-by-number", { runAsNonRoot: true, runAsUser: 0 }),
    until: waitsWithSandbox("CreateContainerConfigError"),
    viewParts: [],
  },
  viewCase(
    "safe-sysctl",
    ["hostname"],
    {},
    { securityContext: { sysctls: [{ name: "net.ipv4.tcp_syncookies", value: "0" }] } },
  ),
  viewCase(
    "sysctls-with-slashes",
    ["args"],
    {
      command: [
        "sh",
        "-c",
        "(echo view; echo args $(cat /proc/sys/net/ipv4/ip_local_port_range)) > /dev/termination-log",
      ],
    },
    { securityContext: { sysctls: [{ name: "net/ipv4/ip_local_port_range", value: "20000 30000" }] } },
  ),
  viewCase("runtime-class", ["hostname"], {}, { runtimeClassName: "heavy" }),
  {
    ...viewCase("runtime-class-unknown-handler", ["hostname"], {}, { runtimeClassName: "nowhere" }),
    until: hasRepeatedEvent("FailedCreatePodSandBox"),
    viewParts: [],
  },
  viewCase(
    "terminal",
    ["env", "cwd"],
    { ...env({})[0], tty: true, stdin: true, stdinOnce: true },
    { enableServiceLinks: false },
  ),
  viewCase(
    "two-views",
    ["hostname", "id", "namespaces"],
    {},
    {
      // They meet at a port before they end: the kernel gives the id of a namespace that has gone to the next one.
      containers: [
        ["first", "nc -l -p 7000 < /dev/null"] as const,
        ["second", "until nc 127.0.0.1 7000 < /dev/null; do sleep 0.1; done"] as const,
      ].map(([name, meet]) => ({
        name,
        image: busyboxImage,
        command: ["sh", "-c", `${viewScript("hostname", "id", "namespaces")}; ${meet}`],
      })),
    },
  ),
];
