import type { Container, EnvVar, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { script } from "../../e2e/manifest.ts";
import { viewScript } from "../container-view.ts";
import { hasEnded, isToldOf, type Play, viewer, waitsInPlace } from "./pod-case.ts";

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

const ofFile = (key: string, optional = false) => ({
  fileKeyRef: { volumeName: "written", path: "told", key, optional },
});
/** What an init container writes for the others. */
const withFile: Partial<PodSpec> = {
  initContainers: [
    {
      name: "first",
      image: busyboxImage,
      command: script('(echo "# of the pod"; echo "ONE=\'first\'"; echo "TWO=\'a b # c\'") > /written/told'),
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
const resources = { requests: { cpu: "25m", memory: "24Mi" }, limits: { cpu: "250m", memory: "48Mi" } };
const amounts = [
  ["limits.cpu"],
  ["limits.cpu", "1m"],
  ["limits.memory"],
  ["limits.memory", "1Mi"],
  ["requests.cpu", "1m"],
  ["requests.memory", "1k"],
] as const;
const secured = (name: string, securityContext: Container["securityContext"], spec: Partial<PodSpec> = {}): Play =>
  viewer(name, ["id", "status"], { securityContext: securityContext ?? {} }, spec);
const mounted = (name: string, hostPath: { path: string; type?: string }, readOnly = false): Play =>
  viewer(
    name,
    ["mounts"],
    { volumeMounts: [{ name: "host", mountPath: "/seen", readOnly }] },
    { volumes: [{ name: "host", hostPath: hostPath as { path: string } }] },
  );
const unmountable = (name: string, hostPath: { path: string; type: string }): Play => ({
  ...mounted(name, hostPath),
  until: isToldOf("FailedMount"),
  seen: [],
});

const waitingWith = (name: string, container: Partial<Container>, spec: Partial<PodSpec> = {}): Play => ({
  ...viewer(name, [], container, spec),
  until: waitsInPlace("CreateContainerConfigError"),
});
const waitingFor = (name: string, variable: Pick<EnvVar, "valueFrom">): Play =>
  waitingWith(name, { env: [{ name: "A", ...variable }] });

/** What containers see of themselves, of their pod and of their node. */
export const views: readonly Play[] = [
  viewer("sees-itself", ["hostname", "id", "cwd", "args", "mounts", "oom", "namespaces"]),
  viewer("arguments", ["args", "cwd"], {
    args: ["one", "two words", "$(NAME)", "$$(NAME)", "$(NONE)"],
    workingDir: "/tmp",
    env: [{ name: "NAME", value: "told" }],
  }),
  viewer("working-dir-made", ["cwd"], { workingDir: "/made/for/it" }),
  viewer(
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
  viewer(
    "environment-of-references",
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
  viewer(
    "environment-in-circles",
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
  viewer("environment-over-services", ["env"], {
    env: [
      { name: "BACK_END_SERVICE_HOST", value: "mine, not $(PLAIN_SERVICE_PORT)" },
      { name: "KUBERNETES_SERVICE_PORT", value: "$(KUBERNETES_SERVICE_PORT)0" },
    ],
  }),
  {
    // No shell hands on a name that it could not have.
    ...viewer(
      "environment-of-odd-names",
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
  viewer(
    "environment-of-a-file",
    ["env"],
    ...env(
      {
        env: [
          { name: "PLAIN", valueFrom: ofFile("ONE") },
          { name: "QUOTED", valueFrom: ofFile("TWO") },
          { name: "BOTH", value: "$(PLAIN)+$(QUOTED)" },
          { name: "NONE", valueFrom: ofFile("NONE", true) },
        ],
      },
      withFile,
    ),
  ),
  waitingWith("environment-of-a-file-without-it", { env: [{ name: "NONE", valueFrom: ofFile("NONE") }] }, withFile),
  waitingFor("config-map-missing", { valueFrom: { configMapKeyRef: { name: "none", key: "k" } } }),
  waitingWith("environment-from-no-secret", { envFrom: [{ secretRef: { name: "none" } }] }),
  waitingWith("environment-from-no-config-map", {
    envFrom: [{ configMapRef: { name: "site" } }, { configMapRef: { name: "none" } }],
  }),
  waitingFor("secret-missing", { valueFrom: { secretKeyRef: { name: "none", key: "k" } } }),
  waitingFor("key-missing", { valueFrom: { configMapKeyRef: { name: "site", key: "none" } } }),
  viewer("pull-secret-missing", ["hostname"], {}, { imagePullSecrets: [{ name: "none" }, { name: "login" }] }),
  viewer("environment-of-fields", ["env"], ...env({ env: fields.map(fieldEnv) })),
  viewer(
    "environment-of-resources",
    ["env"],
    ...env({ resources, env: amounts.map(([resource, divisor]) => resourceEnv(resource, divisor)) }),
  ),
  viewer(
    "environment-without-limits",
    ["env"],
    ...env({ env: amounts.map(([resource, divisor]) => resourceEnv(resource, divisor)) }),
  ),
  viewer("services", ["env"]),
  viewer("services-unlinked", ["env"], ...env({})),
  viewer("dns-cluster-first", ["resolv", "hostname"]),
  viewer("dns-default", ["resolv"], {}, { dnsPolicy: "Default" }),
  viewer(
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
  viewer(
    "dns-merged",
    ["resolv"],
    {},
    { dnsConfig: { nameservers: ["198.51.100.53"], searches: ["a.test"], options: [{ name: "ndots", value: "1" }] } },
  ),
  viewer(
    "dns-too-many",
    ["resolv"],
    {},
    { dnsConfig: { nameservers: ["198.51.100.1", "198.51.100.2", "198.51.100.3"] } },
  ),
  viewer("dns-of-the-host", ["resolv", "namespaces"], {}, { hostNetwork: true }),
  viewer("dns-on-host-network", ["resolv"], {}, { hostNetwork: true, dnsPolicy: "ClusterFirstWithHostNet" }),
  viewer("hostname", ["hostname", "resolv"], {}, { hostname: "own-name", subdomain: "sub" }),
  viewer(`name-of-${"many".repeat(16)}-letters`, ["hostname"]),
  viewer("host-pid", ["namespaces", "first"], {}, { hostPID: true }),
  viewer("host-everything", ["namespaces", "first"], {}, { hostIPC: true, hostPID: true, hostNetwork: true }),
  viewer("host-ipc", ["namespaces"], {}, { hostIPC: true }),
  viewer("shared-processes", ["namespaces", "first"], {}, { shareProcessNamespace: true }),
  viewer("hosts", ["hosts"], {}, { hostAliases: [{ ip: "198.51.100.9", hostnames: ["alias.test", "alias"] }] }),
  viewer(
    "aliases-on-the-host",
    ["hosts"],
    {},
    { hostNetwork: true, hostAliases: [{ ip: "198.51.100.9", hostnames: ["alias.test"] }] },
  ),
  viewer(
    "hosts-of-its-own",
    ["hosts"],
    { volumeMounts: [{ name: "host", mountPath: "/etc/hosts" }] },
    {
      volumes: [{ name: "host", hostPath: { path: "/etc/hostname" } }],
      hostAliases: [{ ip: "198.51.100.9", hostnames: ["alias.test"] }],
    },
  ),
  viewer("hostname-of-its-own", ["hosts", "hostname", "resolv"], {}, { hostnameOverride: "other.name.test" }),
  {
    ...viewer(
      "name-with-too-long-a-domain",
      [],
      {},
      { hostname: "own".repeat(12), subdomain: "sub".repeat(6), setHostnameAsFQDN: true },
    ),
    until: isToldOf("FailedCreatePodSandBox"),
  },
  viewer("hosts-of-the-host", ["hosts"], {}, { hostNetwork: true }),
  viewer(
    "name-with-domain",
    ["hosts", "hostname"],
    {},
    { hostname: "own-name", subdomain: "sub", setHostnameAsFQDN: true },
  ),
  viewer("ports", ["hostname"], {
    ports: [
      { name: "web", containerPort: 8080 },
      { containerPort: 8443, hostPort: 18443, protocol: "TCP" },
    ],
  }),
  viewer(
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
  mounted("host-path", { path: "/etc/hostname" }, true),
  mounted("host-path-file", { path: "/etc/hostname", type: "File" }),
  mounted("host-path-device", { path: "/dev/null", type: "CharDevice" }),
  unmountable("host-path-no-device", { path: "/dev/null", type: "BlockDevice" }),
  mounted("host-path-directory", { path: "/etc", type: "Directory" }),
  unmountable("host-path-no-directory", { path: "/etc/hostname", type: "Directory" }),
  unmountable("host-path-no-file", { path: "/no/such/file", type: "File" }),
  unmountable("host-path-no-socket", { path: "/etc/hostname", type: "Socket" }),
  secured("user", { runAsUser: 1234 }),
  secured(
    "user-and-group",
    { runAsUser: 1234, runAsGroup: 2345 },
    { securityContext: { supplementalGroups: [3456, 4567] } },
  ),
  secured("user-of-the-pod", {}, { securityContext: { runAsUser: 1234, runAsGroup: 2345, runAsNonRoot: true } }),
  secured("capabilities", { capabilities: { add: ["NET_ADMIN", "SYS_TIME"], drop: ["CHOWN", "KILL"] } }),
  secured("no-capabilities", { capabilities: { drop: ["ALL"] }, runAsUser: 1 }),
  secured("privileged", { privileged: true }),
  secured("no-more-privileges", { allowPrivilegeEscalation: false }),
  secured("seccomp-of-the-runtime", { seccompProfile: { type: "RuntimeDefault" } }),
  secured("seccomp-of-the-pod", {}, { securityContext: { seccompProfile: { type: "RuntimeDefault" } } }),
  secured("seccomp-off", { seccompProfile: { type: "Unconfined" } }),
  viewer("read-only-root", ["mounts"], { securityContext: { readOnlyRootFilesystem: true, procMount: "Default" } }),
  viewer("read-only-root-is-kept", ["args"], {
    securityContext: { readOnlyRootFilesystem: true },
    command: ["sh", "-c", "(echo view; touch /x; echo args $?) > /dev/termination-log 2>&1"],
  }),
  secured("groups-of-the-pod", {}, { securityContext: { fsGroup: 2345, supplementalGroups: [3456, 2345] } }),
  secured(
    "user-over-that-of-the-pod",
    { runAsUser: 4321 },
    { securityContext: { runAsUser: 1234, runAsGroup: 2345, supplementalGroupsPolicy: "Merge" } },
  ),
  secured("privileges-of-a-user", { privileged: true, runAsUser: 1234 }),
  viewer("privileged-mounts", ["mounts"], { securityContext: { privileged: true } }),
  secured("apparmor-off", { appArmorProfile: { type: "Unconfined" } }),
  {
    ...secured("group-without-user", { runAsGroup: 2345 }),
    until: hasEnded,
    seen: [],
  },
  {
    ...secured("seccomp-missing", { seccompProfile: { type: "Localhost", localhostProfile: "none.json" } }),
    until: waitsInPlace("CreateContainerError"),
    seen: [],
  },
  {
    ...secured("root-against-the-rule", { runAsNonRoot: true }),
    until: waitsInPlace("CreateContainerConfigError"),
    seen: [],
  },
  {
    ...secured("root-by-number", { runAsNonRoot: true, runAsUser: 0 }),
    until: waitsInPlace("CreateContainerConfigError"),
    seen: [],
  },
  viewer(
    "safe-sysctl",
    ["hostname"],
    {},
    { securityContext: { sysctls: [{ name: "net.ipv4.tcp_syncookies", value: "0" }] } },
  ),
  viewer(
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
  viewer("request-of-memory", ["limits", "oom"], { resources: { requests: { memory: "64Mi" } } }),
  viewer("little-of-a-cpu", ["limits", "oom"], { resources: { requests: { cpu: "1m" }, limits: { cpu: "2m" } } }),
  viewer("burstable", ["limits", "oom"], { resources }),
  viewer("guaranteed", ["limits", "oom"], { resources: { limits: resources.limits } }),
  viewer("limit-of-cpu", ["limits", "oom"], { resources: { limits: { cpu: "1" } } }),
  viewer("runtime-class", ["hostname"], {}, { runtimeClassName: "heavy" }),
  {
    ...viewer("runtime-class-unknown-handler", ["hostname"], {}, { runtimeClassName: "nowhere" }),
    until: isToldOf("FailedCreatePodSandBox"),
    seen: [],
  },
  viewer(
    "terminal",
    ["env", "cwd"],
    { ...env({})[0], tty: true, stdin: true, stdinOnce: true },
    { enableServiceLinks: false },
  ),
  viewer(
    "two-views",
    ["hostname", "id", "namespaces"],
    {},
    {
      containers: ["first", "second"].map((name) => ({
        name,
        image: busyboxImage,
        command: ["sh", "-c", viewScript("hostname", "id", "namespaces")],
      })),
    },
  ),
];
