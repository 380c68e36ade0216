import type { Container, Lifecycle, PodSpec, Probe } from "../../proto/kubernetes/gen/types.ts";
import { busyboxImage, webImage } from "../bed/images.ts";
import { script, untilStopped } from "../e2e/manifest.ts";
import { hasEnded, inCrashLoop, isReady, isToldOf, NODE_NAME, type Play, statusOf } from "./pod.ts";

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
    "own-policy",
    hasEnded,
    { command: script(failsOnce), restartPolicy: "OnFailure" },
    { restartPolicy: "Never" },
  ),
  {
    name: "own-policy-never",
    spec: {
      containers: [
        { name: "main", image: busyboxImage, command: untilStopped },
        { name: "other", image: busyboxImage, command: script("exit 5"), restartPolicy: "Never" },
      ],
    },
    until: (pod) =>
      statusOf(pod, "other")?.state?.terminated !== undefined && statusOf(pod)?.state?.running !== undefined,
  },
];

const sidecars: readonly Play[] = [
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
    spec: { ...notes, initContainers: [sidecar("side", script("exit 5"))] },
    ...inCrashLoop("side"),
  },
];

const probes: readonly Play[] = [
  probed("ready-by-exec", { ...exec("true"), periodSeconds: 5 }, isReady),
  probed("ready-by-http", { httpGet: { port: 8080 }, initialDelaySeconds: 5 }, isReady, {
    image: webImage,
    command: [],
  }),
  probed("unready-by-exec", exec("echo not yet; exit 1"), isUnready),
  probed("unready-by-tcp", { tcpSocket: { port: 9 } }, isUnready),
  probed("unready-by-http", { httpGet: { port: 8080, path: "/none" }, initialDelaySeconds: 5 }, isUnready, {
    image: webImage,
    command: [],
  }),
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
  hooked("pre-stop-sleeps", { preStop: { sleep: { seconds: 2 } } }, isReady, {}),
];

/** Bound to their node by hand, and refused there. */
const refused: readonly Play[] = [
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
