import type { Container, Probe } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { ignoringSigterm, script, untilStopped } from "../../e2e/manifest.ts";
import {
  containerStatusOf,
  hasEnded,
  hasRepeatedEvent,
  inCrashLoop,
  isReady,
  type PodCase,
  runsBeside,
} from "./pod-case.ts";
import {
  appendNote,
  exec,
  exitsByInstance,
  initContainer,
  notes,
  notesCase,
  onSigterm,
  reportNotes,
  sidecar,
  web,
} from "./shared-notes.ts";

const failsOnce = "test -e /notes/tried && exit 0; touch /notes/tried; exit 4";

type Rules = NonNullable<Container["restartPolicyRules"]>;
const restartsOn = (...values: readonly number[]): Rules => [
  { action: "Restart", exitCodes: { operator: "In", values: [...values] } },
];

/** Probe settings that leave a busy machine enough time to start a program and a web server. */
const probeTimes = { periodSeconds: 5, timeoutSeconds: 20, initialDelaySeconds: 2 };
const isUnready: PodCase["until"] = (pod, eventReasons) =>
  hasRepeatedEvent("Unhealthy")(pod, eventReasons) && containerStatusOf(pod)?.state?.running !== undefined;
const probeCase = (
  name: string,
  probe: Probe,
  until: PodCase["until"],
  container: Partial<Container> = {},
): PodCase => ({
  name,
  container: { readinessProbe: { ...probeTimes, ...probe }, ...container },
  until,
});
const initContainerCases: readonly PodCase[] = [
  notesCase(
    "group-of-volumes",
    hasEnded,
    {
      command: script("(id; touch /notes/made; stat -c '%a %g' /notes; stat -c %g /notes/made) > /dev/termination-log"),
    },
    { restartPolicy: "Never", securityContext: { runAsUser: 1234, fsGroup: 2345, supplementalGroups: [3456] } },
  ),
  notesCase(
    "init-privileged",
    hasEnded,
    { command: script(reportNotes) },
    {
      restartPolicy: "Never",
      initContainers: [
        initContainer("first", "grep CapEff /proc/self/status > /notes/all", { securityContext: { privileged: true } }),
      ],
    },
  ),
  notesCase(
    "init-order",
    hasEnded,
    { command: script(`${appendNote("main")}; ${reportNotes}`) },
    {
      restartPolicy: "Never",
      initContainers: [initContainer("two", appendNote("two")), initContainer("one", appendNote("one"))],
    },
  ),
  notesCase(
    "init-cannot-start",
    hasEnded,
    {},
    { restartPolicy: "Never", initContainers: [initContainer("first", "", { command: ["/no/such/command"] })] },
  ),
  {
    name: "init-loop",
    spec: { ...notes, initContainers: [initContainer("first", exitsByInstance)] },
    ...inCrashLoop("first"),
  },
  notesCase(
    "init-fails-once",
    hasEnded,
    { command: script("exit 0") },
    { restartPolicy: "OnFailure", initContainers: [initContainer("first", failsOnce)] },
  ),
  notesCase(
    "init-rule-restarts",
    hasEnded,
    { command: script("exit 0") },
    {
      restartPolicy: "Never",
      initContainers: [
        initContainer("first", failsOnce, { restartPolicy: "Never", restartPolicyRules: restartsOn(4) }),
      ],
    },
  ),
];

const restartPolicyCases: readonly PodCase[] = [
  {
    name: "rule-for-success-loop",
    container: { command: script("exit 0"), restartPolicy: "Never", restartPolicyRules: restartsOn(0) },
    spec: { restartPolicy: "Never" },
    ...inCrashLoop(),
  },
  notesCase(
    "rule-restarts",
    hasEnded,
    { command: script(failsOnce), restartPolicy: "Never", restartPolicyRules: restartsOn(4) },
    { restartPolicy: "Never" },
  ),
  notesCase(
    "rule-for-others",
    hasEnded,
    { command: script(failsOnce), restartPolicy: "Never", restartPolicyRules: restartsOn(5) },
    { restartPolicy: "Never" },
  ),
  notesCase(
    "rule-restarts-all",
    hasEnded,
    {},
    {
      restartPolicy: "Never",
      initContainers: [initContainer("first", appendNote("first")), sidecar("side", untilStopped)],
      containers: [
        initContainer("main", `${appendNote("main")}; until test -e /notes/again; do sleep 0.1; done; ${reportNotes}`),
        initContainer(
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
  notesCase(
    "own-policy",
    hasEnded,
    { command: script(failsOnce), restartPolicy: "OnFailure" },
    { restartPolicy: "Never" },
  ),
  notesCase(
    "rule-for-all-but",
    hasEnded,
    {
      command: script(failsOnce),
      restartPolicy: "Never",
      restartPolicyRules: [{ action: "Restart", exitCodes: { operator: "NotIn", values: [0] } }],
    },
    { restartPolicy: "Never" },
  ),
  notesCase(
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

const sidecarCases: readonly PodCase[] = [
  notesCase(
    "sidecar-ignores-sigterm",
    hasEnded,
    { command: script("exit 0") },
    {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 2,
      initContainers: [sidecar("side", ignoringSigterm)],
    },
  ),
  notesCase(
    "sidecar-of-a-failure",
    hasEnded,
    { command: script("exit 3") },
    { restartPolicy: "Never", initContainers: [sidecar("side", untilStopped)] },
  ),
  notesCase(
    "sidecar-beside-a-failed-init",
    hasEnded,
    {},
    { restartPolicy: "Never", initContainers: [sidecar("side", untilStopped), initContainer("second", "exit 3")] },
  ),
  notesCase(
    "sidecar-unready",
    (pod) => containerStatusOf(pod, "side")?.started === true && containerStatusOf(pod)?.ready === true,
    {},
    {
      initContainers: [
        sidecar("side", untilStopped, { readinessProbe: { ...exec("exit 1"), initialDelaySeconds: 1000 } }),
      ],
    },
  ),
  notesCase(
    "sidecar-and-job",
    hasEnded,
    { command: script(`${appendNote("main")}; ${reportNotes}`) },
    {
      restartPolicy: "Never",
      initContainers: [
        sidecar(
          "side",
          [
            "sh",
            "-c",
            `trap '${appendNote("end")}; ${reportNotes}; exit 0' TERM; ${appendNote("side")}; while true; do sleep 0.1; done`,
          ],
          {
            startupProbe: { ...probeTimes, ...exec("test -e /notes/all") },
          },
        ),
        initContainer("second", appendNote("second")),
      ],
    },
  ),
  notesCase(
    "sidecars-stop-last",
    isReady,
    { command: onSigterm(`sleep 1; ${appendNote("main")}`) },
    {
      initContainers: [
        sidecar("one", onSigterm(`${appendNote("one")}; ${reportNotes}`)),
        sidecar("two", onSigterm(`${appendNote("two")}; ${reportNotes}`)),
      ],
    },
  ),
  {
    name: "sidecar-crashes",
    // It crashes after the application has started.
    spec: { ...notes, initContainers: [sidecar("side", script(`sleep 1; ${exitsByInstance}`))] },
    ...inCrashLoop("side"),
  },
];

const probeCases: readonly PodCase[] = [
  probeCase("ready-by-exec", { ...exec("true"), periodSeconds: 5 }, isReady),
  probeCase("ready-by-http", { httpGet: { port: 8080 }, initialDelaySeconds: 5 }, isReady, web),
  probeCase("unready-by-exec", exec("echo not yet; exit 1"), isUnready),
  probeCase("unready-by-tcp", { tcpSocket: { port: 9 } }, isUnready),
  probeCase("unready-by-http", { httpGet: { port: 8080, path: "/none" }, initialDelaySeconds: 5 }, isUnready, web),
  probeCase("ready-by-tcp", { tcpSocket: { port: "web" }, initialDelaySeconds: 5 }, isReady, {
    ...web,
    ports: [{ name: "web", containerPort: 8080 }],
  }),
  probeCase(
    "ready-by-named-http",
    {
      httpGet: { port: "web", path: "/index.html", httpHeaders: [{ name: "X-A", value: "b" }] },
      initialDelaySeconds: 5,
    },
    isReady,
    { ...web, ports: [{ name: "web", containerPort: 8080 }] },
  ),
  // A client of gRPC tries to connect until the timeout.
  probeCase("unready-by-grpc", { grpc: { port: 9 }, timeoutSeconds: 5 }, isUnready),
  probeCase("unready-by-tls", { httpGet: { port: 8080, scheme: "HTTPS" }, initialDelaySeconds: 5 }, isUnready, web),
  probeCase("unready-by-closed-port", { httpGet: { port: 9 } }, isUnready),
  probeCase("unready-by-name", { httpGet: { port: "none" } }, isUnready),
  probeCase("unready-by-delay", { ...exec("sleep 1000"), timeoutSeconds: 1 }, isUnready),
  probeCase("unready-by-no-command", { exec: { command: ["/no/such/command"] } }, isUnready),
  notesCase(
    "liveness-ends-it",
    hasEnded,
    {
      command: ignoringSigterm,
      livenessProbe: {
        ...{ ...probeTimes, ...exec("echo dead; exit 1"), failureThreshold: 1 },
        terminationGracePeriodSeconds: 1,
      },
    },
    { restartPolicy: "Never" },
  ),
  notesCase("liveness-fails-once", (pod) => isReady(pod) && containerStatusOf(pod)?.restartCount === 1, {
    command: script("test -e /notes/started && touch /notes/again; touch /notes/started; exec sleep 100000"),
    livenessProbe: { ...probeTimes, ...exec("test -e /notes/again"), failureThreshold: 1 },
  }),
  notesCase("startup", isReady, {
    command: script("touch /notes/up; exec sleep 100000"),
    startupProbe: { ...probeTimes, ...exec("test -e /notes/up") },
  }),
  notesCase(
    "startup-fails",
    hasEnded,
    { startupProbe: { ...probeTimes, ...exec("echo never; exit 1"), failureThreshold: 1 } },
    { restartPolicy: "Never" },
  ),
];

/** Init containers, sidecars, restart policies and probes. */
export const startupCases: readonly PodCase[] = [
  ...initContainerCases,
  ...restartPolicyCases,
  ...sidecarCases,
  ...probeCases,
];
