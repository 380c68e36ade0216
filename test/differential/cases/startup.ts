import type { Container, Lifecycle, PodSpec, Probe } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage, webImage } from "../../bed/images/images.ts";
import { ignoringSigterm, script, untilStopped } from "../../e2e/manifest.ts";
import { hasEnded, inCrashLoop, isReady, isToldOf, NODE_NAME, type Play, runsBeside, statusOf } from "./pod-case.ts";

const mount = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
const notes = { volumes: [{ name: "notes", emptyDir: {} }] };
const failsOnce = "test -e /notes/tried && exit 0; touch /notes/tried; exit 4";
const note = (word: string) => `echo ${word} >> /notes/all`;
/** What all have noted so far becomes the last words of this one. */
const tellNotes = "cat /notes/all > /dev/termination-log";
/** Runs until SIGTERM, and then this. */
const onSigterm = (text: string) => ["sh", "-c", `trap '${text}; exit 0' TERM; while true; do sleep 0.1; done`];

type Rules = NonNullable<Container["restartPolicyRules"]>;
const restartsOn = (...values: readonly number[]): Rules => [
  { action: "Restart", exitCodes: { operator: "In", values: [...values] } },
];

const initial = (name: string, text: string, more: Partial<Container> = {}): Container => ({
  name,
  image: busyboxImage,
  command: script(text),
  ...mount,
  ...more,
});
const sidecar = (name: string, command: readonly string[], more: Partial<Container> = {}): Container =>
  initial(name, "", { command: [...command], restartPolicy: "Always", ...more });
/** A pod whose containers share their notes. */
const noting = (
  name: string,
  until: Play["until"],
  container: Partial<Container>,
  spec: Partial<PodSpec> = {},
): Play => ({
  name,
  container: { ...mount, ...container },
  spec: { ...notes, ...spec },
  until,
});
const exec = (text: string) => ({ exec: { command: ["sh", "-c", text] } });
/** A busy machine takes its time for a program, and a web server. */
const quickly = { periodSeconds: 5, timeoutSeconds: 20, initialDelaySeconds: 2 };
const web = { image: webImage, command: [] };
const isUnready: Play["until"] = (pod, told) =>
  isToldOf("Unhealthy")(pod, told) && statusOf(pod)?.state?.running !== undefined;
const probed = (name: string, probe: Probe, until: Play["until"], container: Partial<Container> = {}): Play => ({
  name,
  container: { readinessProbe: { ...quickly, ...probe }, ...container },
  until,
});
const hooked = (name: string, lifecycle: Lifecycle, until: Play["until"], container: Partial<Container>): Play =>
  noting(name, until, { lifecycle, ...container }, { restartPolicy: "Never" });

const initContainers: readonly Play[] = [
  noting(
    "group-of-volumes",
    hasEnded,
    {
      command: script("(id; touch /notes/made; stat -c '%a %g' /notes; stat -c %g /notes/made) > /dev/termination-log"),
    },
    { restartPolicy: "Never", securityContext: { runAsUser: 1234, fsGroup: 2345, supplementalGroups: [3456] } },
  ),
  noting(
    "init-privileged",
    hasEnded,
    { command: script(tellNotes) },
    {
      restartPolicy: "Never",
      initContainers: [
        initial("first", "grep CapEff /proc/self/status > /notes/all", { securityContext: { privileged: true } }),
      ],
    },
  ),
  noting(
    "init-order",
    hasEnded,
    { command: script(`${note("main")}; ${tellNotes}`) },
    { restartPolicy: "Never", initContainers: [initial("two", note("two")), initial("one", note("one"))] },
  ),
  noting(
    "init-cannot-start",
    hasEnded,
    {},
    { restartPolicy: "Never", initContainers: [initial("first", "", { command: ["/no/such/command"] })] },
  ),
  { name: "init-loop", spec: { ...notes, initContainers: [initial("first", "exit 3")] }, ...inCrashLoop("first") },
  noting(
    "init-fails-once",
    hasEnded,
    { command: script("exit 0") },
    { restartPolicy: "OnFailure", initContainers: [initial("first", failsOnce)] },
  ),
  noting(
    "init-rule-restarts",
    hasEnded,
    { command: script("exit 0") },
    {
      restartPolicy: "Never",
      initContainers: [initial("first", failsOnce, { restartPolicy: "Never", restartPolicyRules: restartsOn(4) })],
    },
  ),
];

const policies: readonly Play[] = [
  {
    name: "rule-for-success-loop",
    container: { command: script("exit 0"), restartPolicy: "Never", restartPolicyRules: restartsOn(0) },
    spec: { restartPolicy: "Never" },
    ...inCrashLoop(),
  },
  noting(
    "rule-restarts",
    hasEnded,
    { command: script(failsOnce), restartPolicy: "Never", restartPolicyRules: restartsOn(4) },
    { restartPolicy: "Never" },
  ),
  noting(
    "rule-for-others",
    hasEnded,
    { command: script(failsOnce), restartPolicy: "Never", restartPolicyRules: restartsOn(5) },
    { restartPolicy: "Never" },
  ),
  noting(
    "rule-restarts-all",
    hasEnded,
    {},
    {
      restartPolicy: "Never",
      initContainers: [initial("first", note("first")), sidecar("side", untilStopped)],
      containers: [
        initial("main", `${note("main")}; until test -e /notes/again; do sleep 0.1; done; ${tellNotes}`),
        initial(
          "watcher",
          "test -e /notes/tried && touch /notes/again && exit 0; touch /notes/tried; sleep 5; exit 4",
          {
            restartPolicy: "Never",
            restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "In", values: [4] } }],
          },
        ),
      ],
    },
  ),
  noting(
    "own-policy",
    hasEnded,
    { command: script(failsOnce), restartPolicy: "OnFailure" },
    { restartPolicy: "Never" },
  ),
  noting(
    "rule-for-all-but",
    hasEnded,
    {
      command: script(failsOnce),
      restartPolicy: "Never",
      restartPolicyRules: [{ action: "Restart", exitCodes: { operator: "NotIn", values: [0] } }],
    },
    { restartPolicy: "Never" },
  ),
  noting(
    "rule-against-always",
    runsBeside("other"),
    {},
    {
      restartPolicy: "Always",
      containers: [
        { name: "main", image: busyboxImage, command: untilStopped },
        {
          ...{ name: "other", image: busyboxImage, command: script("exit 6") },
          ...{ restartPolicy: "Never", restartPolicyRules: restartsOn(4) },
        },
      ],
    },
  ),
  {
    name: "own-policy-never",
    spec: {
      containers: [
        { name: "main", image: busyboxImage, command: untilStopped },
        { name: "other", image: busyboxImage, command: script("exit 5"), restartPolicy: "Never" },
      ],
    },
    until: runsBeside("other"),
  },
];

const sidecars: readonly Play[] = [
  noting(
    "sidecar-deaf",
    hasEnded,
    { command: script("exit 0") },
    {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 2,
      initContainers: [sidecar("side", ignoringSigterm)],
    },
  ),
  noting(
    "sidecar-of-a-failure",
    hasEnded,
    { command: script("exit 3") },
    { restartPolicy: "Never", initContainers: [sidecar("side", untilStopped)] },
  ),
  noting(
    "sidecar-beside-a-failed-init",
    hasEnded,
    {},
    { restartPolicy: "Never", initContainers: [sidecar("side", untilStopped), initial("second", "exit 3")] },
  ),
  noting(
    "sidecar-unready",
    (pod) => statusOf(pod, "side")?.started === true && statusOf(pod)?.ready === true,
    {},
    {
      initContainers: [
        sidecar("side", untilStopped, { readinessProbe: { ...exec("exit 1"), initialDelaySeconds: 1000 } }),
      ],
    },
  ),
  noting(
    "sidecar-and-job",
    hasEnded,
    { command: script(`${note("main")}; ${tellNotes}`) },
    {
      restartPolicy: "Never",
      initContainers: [
        sidecar(
          "side",
          [
            "sh",
            "-c",
            `trap '${note("end")}; ${tellNotes}; exit 0' TERM; ${note("side")}; while true; do sleep 0.1; done`,
          ],
          {
            startupProbe: { ...quickly, ...exec("test -e /notes/all") },
          },
        ),
        initial("second", note("second")),
      ],
    },
  ),
  noting(
    "sidecars-stop-last",
    isReady,
    { command: onSigterm(`sleep 1; ${note("main")}`) },
    {
      initContainers: [
        sidecar("one", onSigterm(`${note("one")}; ${tellNotes}`)),
        sidecar("two", onSigterm(`${note("two")}; ${tellNotes}`)),
      ],
    },
  ),
  {
    name: "sidecar-crashes",
    // Not before the application has begun.
    spec: { ...notes, initContainers: [sidecar("side", script("sleep 1; exit 5"))] },
    ...inCrashLoop("side"),
  },
];

const probes: readonly Play[] = [
  probed("ready-by-exec", { ...exec("true"), periodSeconds: 5 }, isReady),
  probed("ready-by-http", { httpGet: { port: 8080 }, initialDelaySeconds: 5 }, isReady, web),
  probed("unready-by-exec", exec("echo not yet; exit 1"), isUnready),
  probed("unready-by-tcp", { tcpSocket: { port: 9 } }, isUnready),
  probed("unready-by-http", { httpGet: { port: 8080, path: "/none" }, initialDelaySeconds: 5 }, isUnready, web),
  probed("ready-by-tcp", { tcpSocket: { port: "web" }, initialDelaySeconds: 5 }, isReady, {
    ...web,
    ports: [{ name: "web", containerPort: 8080 }],
  }),
  probed(
    "ready-by-named-http",
    {
      httpGet: { port: "web", path: "/index.html", httpHeaders: [{ name: "X-A", value: "b" }] },
      initialDelaySeconds: 5,
    },
    isReady,
    { ...web, ports: [{ name: "web", containerPort: 8080 }] },
  ),
  probed("unready-by-grpc", { grpc: { port: 9 } }, isUnready),
  probed("unready-by-tls", { httpGet: { port: 8080, scheme: "HTTPS" }, initialDelaySeconds: 5 }, isUnready, web),
  probed("unready-by-closed-port", { httpGet: { port: 9 } }, isUnready),
  probed("unready-by-name", { httpGet: { port: "none" } }, isUnready),
  probed("unready-by-delay", { ...exec("sleep 1000"), timeoutSeconds: 1 }, isUnready),
  probed("unready-by-no-command", { exec: { command: ["/no/such/command"] } }, isUnready),
  noting(
    "liveness-ends-it",
    hasEnded,
    {
      command: ignoringSigterm,
      livenessProbe: {
        ...{ ...quickly, ...exec("echo dead; exit 1"), failureThreshold: 1 },
        terminationGracePeriodSeconds: 1,
      },
    },
    { restartPolicy: "Never" },
  ),
  noting("liveness-fails-once", (pod) => isReady(pod) && statusOf(pod)?.restartCount === 1, {
    command: script("test -e /notes/begun && touch /notes/again; touch /notes/begun; exec sleep 100000"),
    livenessProbe: { ...quickly, ...exec("test -e /notes/again"), failureThreshold: 1 },
  }),
  noting("startup", isReady, {
    command: script("touch /notes/up; exec sleep 100000"),
    startupProbe: { ...quickly, ...exec("test -e /notes/up") },
  }),
  noting(
    "startup-fails",
    hasEnded,
    { startupProbe: { ...quickly, ...exec("echo never; exit 1"), failureThreshold: 1 } },
    { restartPolicy: "Never" },
  ),
];

const hooks: readonly Play[] = [
  hooked("post-start", { postStart: exec(note("hook")) }, hasEnded, {
    command: script(`until test -e /notes/all; do sleep 0.1; done; ${tellNotes}`),
  }),
  hooked("post-start-fails", { postStart: exec("echo no; exit 7") }, hasEnded, { command: untilStopped }),
  hooked("pre-stop", { preStop: exec(note("hook")) }, isReady, {
    command: onSigterm(`${note("signal")}; ${tellNotes}`),
  }),
  hooked("pre-stop-fails", { preStop: exec("echo no; exit 7") }, isReady, {}),
  hooked("post-start-by-http-fails", { postStart: { httpGet: { port: 9 } } }, hasEnded, { command: untilStopped }),
  hooked("post-start-sleeps", { postStart: { sleep: { seconds: 2 } } }, isReady, {}),
  hooked("post-start-without-command", { postStart: { exec: { command: ["/no/such"] } } }, hasEnded, {
    command: untilStopped,
  }),
  {
    ...hooked("pre-stop-outlasts-its-grace", { preStop: exec("sleep 1000") }, isReady, {}),
    gracePeriodSeconds: 3,
  },
  hooked("pre-stop-by-http", { preStop: { httpGet: { port: 8080 } } }, isReady, web),
  hooked("pre-stop-by-http-fails", { preStop: { httpGet: { port: 9, path: "/none" } } }, isReady, {}),
  hooked("pre-stop-sleeps", { preStop: { sleep: { seconds: 2 } } }, isReady, {}),
];

/** Bound to their node by hand, and refused there. */
const refused: readonly Play[] = [
  {
    name: "out-of-memory-of-the-node",
    container: { resources: { requests: { memory: "1000Ti" } } },
    spec: { nodeName: NODE_NAME },
    until: hasEnded,
  },
  { name: "of-another-system", spec: { nodeName: NODE_NAME, os: { name: "windows" } }, until: hasEnded },
  {
    name: "unsafe-sysctl",
    spec: { securityContext: { sysctls: [{ name: "kernel.msgmax", value: "65536" }] } },
    until: hasEnded,
  },
  {
    name: "unconfinable",
    container: { securityContext: { appArmorProfile: { type: "RuntimeDefault" } } },
    until: hasEnded,
  },
  {
    name: "out-of-cpu",
    container: { resources: { requests: { cpu: "1000" } } },
    spec: { nodeName: NODE_NAME },
    until: hasEnded,
  },
  { name: "no-such-disk", spec: { nodeName: NODE_NAME, nodeSelector: { disk: "none" } }, until: hasEnded },
];

/** How containers come to run, how they are asked how they are, and what runs before and after them. */
export const beginnings: readonly Play[] = [
  ...initContainers,
  ...policies,
  ...sidecars,
  ...probes,
  ...hooks,
  ...refused,
];
