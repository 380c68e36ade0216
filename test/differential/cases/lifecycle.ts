import { busyboxImage, webImage } from "../../bed/images/images.ts";
import { ignoringSigterm, script, untilStopped } from "../../e2e/manifest.ts";
import { viewScript } from "../container-view.ts";
import {
  hasEnded,
  inCrashLoop,
  isReady,
  once,
  type Play,
  REGISTRY,
  runsBeside,
  statusOf,
  waitsInPlace,
} from "./pod-case.ts";

const failsOnce = "test -e /notes/tried && exit 0; touch /notes/tried; exit 4";
const withNotes = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
const notes = { volumes: [{ name: "notes", emptyDir: {} }] };
const failing = (code: number) => script(`exit ${code}`);

const first = (name: string, text: string) => ({ name, image: busyboxImage, command: script(text) });

/** The last words of a container that fails, from its log where it has none. */
const inLog = (name: string, text: string): Play => ({
  name,
  container: { command: script(text), terminationMessagePolicy: "FallbackToLogsOnError" },
  spec: { restartPolicy: "Never" },
  until: hasEnded,
});

/** Somebody looks into a pod that runs. */
const debugged = (name: string, command: readonly string[], ...options: readonly string[]): Play => ({
  name,
  until: isReady,
  afterwards: {
    kind: "debug",
    debug: [
      ...[`--image=${busyboxImage}`, "--image-pull-policy=IfNotPresent", "--container=look", ...options, "--"],
      ...command,
    ],
    until: (pod) => {
      const { terminated, waiting } = (pod && statusOf(pod, "look"))?.state ?? {};
      return terminated !== undefined || waiting?.reason === "RunContainerError";
    },
  },
});

/** How containers end and begin again, images that cannot be had, and deletion. */
export const lives: readonly Play[] = [
  // They begin with the first, since they take longest: a machine that is busy must have started them before their time is over.
  { name: "deadline", spec: { activeDeadlineSeconds: 40, restartPolicy: "Never" }, until: hasEnded },
  {
    name: "deadline-ignored",
    container: { command: ignoringSigterm },
    spec: { activeDeadlineSeconds: 40, terminationGracePeriodSeconds: 1 },
    until: hasEnded,
  },
  {
    name: "deadline-in-init",
    spec: { activeDeadlineSeconds: 40, restartPolicy: "Never", initContainers: [first("one", "exec sleep 1000000")] },
    until: hasEnded,
  },
  once("succeeds", "exit 0"),
  once("succeeds-on-failure", "exit 0", { restartPolicy: "OnFailure" }),
  once("fails", "exit 1"),
  once("exits-137", "exit 137"),
  once("ends-by-signal", "kill -TERM $$"),
  once("kills-itself", "kill -KILL $$"),
  {
    name: "out-of-memory",
    container: { command: ["tail", "-c", "67108864", "/dev/zero"], resources: { limits: { memory: "16Mi" } } },
    spec: { restartPolicy: "Never" },
    // The runtime may hear of the memory a moment after it has shown the end.
    until: (pod) => hasEnded(pod) && statusOf(pod)?.state?.terminated?.reason !== "Error",
  },
  {
    name: "job-that-fails-once",
    container: { command: script(failsOnce), ...withNotes },
    spec: { restartPolicy: "OnFailure", ...notes },
    until: hasEnded,
  },
  { name: "crash-loop", container: { command: failing(1) }, ...inCrashLoop() },
  { name: "success-loop", container: { command: failing(0) }, ...inCrashLoop() },
  {
    name: "failure-loop",
    container: { command: failing(3) },
    spec: { restartPolicy: "OnFailure" },
    ...inCrashLoop(),
  },
  { name: "runs", until: isReady },
  { name: "runs-as-its-image", container: { image: webImage, command: [] }, until: isReady },
  { ...once("no-such-command", ""), container: { command: ["/no/such/command"] } },
  { ...once("not-executable", ""), container: { command: ["/etc/passwd"] } },
  { ...once("no-such-working-dir", ""), container: { command: ["true"], workingDir: "/etc/passwd" } },
  {
    name: "three-containers",
    spec: {
      containers: ["c", "a", "b"].map((name) => ({ name, image: busyboxImage, command: untilStopped })),
    },
    until: isReady,
  },
  {
    name: "one-of-two-fails",
    spec: {
      restartPolicy: "Never",
      containers: [
        { name: "main", image: busyboxImage, command: untilStopped },
        { name: "other", image: busyboxImage, command: failing(5) },
      ],
    },
    until: runsBeside("other"),
  },
  {
    name: "one-of-two-completes",
    spec: {
      restartPolicy: "OnFailure",
      containers: [
        { name: "main", image: busyboxImage, command: untilStopped },
        { name: "other", image: busyboxImage, command: script("exit 0") },
      ],
    },
    until: runsBeside("other"),
  },
  {
    name: "both-end",
    spec: {
      restartPolicy: "Never",
      containers: [
        { name: "main", image: busyboxImage, command: script("exit 0") },
        { name: "other", image: busyboxImage, command: failing(5) },
      ],
    },
    until: hasEnded,
  },
  {
    name: "one-of-two-crashes",
    spec: {
      containers: [
        { name: "main", image: busyboxImage, command: untilStopped },
        { name: "other", image: busyboxImage, command: failing(5) },
      ],
    },
    ...inCrashLoop("other"),
  },
  { name: "deaf-to-sigterm", container: { command: ignoringSigterm }, gracePeriodSeconds: 2, until: isReady },
  {
    name: "deaf-for-the-grace-of-its-pod",
    container: { command: ignoringSigterm },
    spec: { terminationGracePeriodSeconds: 3 },
    until: isReady,
  },
  {
    name: "deleted-in-init",
    spec: { initContainers: [first("one", "exec sleep 1000000")] },
    until: (pod) => statusOf(pod, "one")?.state?.running !== undefined,
  },
  { name: "deleted-by-force", gracePeriodSeconds: 0, until: isReady },
  {
    name: "hears-sigterm",
    container: { command: script("trap 'exit 9' TERM; while true; do sleep 0.1; done") },
    until: isReady,
  },
  { name: "pull-refused", container: { image: "127.0.0.1:1/nobody/here:1" }, until: waitsInPlace("ImagePullBackOff") },
  { name: "pull-not-found", container: { image: `${REGISTRY}/no/such:1` }, until: waitsInPlace("ImagePullBackOff") },
  { name: "image-name-invalid", container: { image: "Not/An/Image::" }, until: waitsInPlace("InvalidImageName") },
  {
    name: "image-never-there",
    container: { image: "berth.test/absent:1", imagePullPolicy: "Never" },
    until: waitsInPlace("ErrImageNeverPull"),
  },
  {
    name: "init-image-never-there",
    spec: { initContainers: [{ ...first("one", ""), image: "berth.test/absent:1", imagePullPolicy: "Never" }] },
    until: waitsInPlace("ErrImageNeverPull", "one"),
  },
  { name: "image-never-pulled", container: { imagePullPolicy: "Never" }, until: isReady },
  {
    name: "pull-latest",
    container: { image: `${REGISTRY}/berth.test/always` },
    until: waitsInPlace("ImagePullBackOff"),
  },
  {
    name: "pull-digest",
    container: { image: `${REGISTRY}/berth.test/once@sha256:${"0".repeat(64)}` },
    until: waitsInPlace("ImagePullBackOff"),
  },
  {
    name: "image-always-pulled",
    container: { image: `${REGISTRY}/berth.test/always:1`, imagePullPolicy: "Always" },
    until: isReady,
  },
  { name: "image-pulled-once", container: { image: `${REGISTRY}/berth.test/once:1` }, until: isReady },
  {
    name: "last-words",
    container: { command: script("echo because > /why; exit 2"), terminationMessagePath: "/why" },
    spec: { restartPolicy: "Never" },
    until: hasEnded,
  },
  inLog("last-words-in-log", "for i in 1 2 3; do echo error $i >&2; done; exit 2"),
  inLog("last-words-in-a-long-log", "for i in $(seq 1 300); do echo error $i; done; exit 2"),
  inLog("last-words-of-success", "echo all is well"),
  inLog("last-words-in-both", "echo in the log; echo in the file > /dev/termination-log; exit 2"),
  {
    name: "last-words-of-four",
    spec: {
      restartPolicy: "Never",
      containers: ["a", "b", "c", "d"].map((name) =>
        first(name, `head -c 5000 /dev/zero | tr '\\0' ${name} > /dev/termination-log`),
      ),
    },
    until: hasEnded,
  },
  {
    name: "last-words-too-many",
    container: { command: script("for i in $(seq 1 900); do echo word $i; done > /dev/termination-log") },
    spec: { restartPolicy: "Never" },
    until: hasEnded,
  },
  {
    name: "init-containers",
    spec: { initContainers: [first("one", "exit 0"), first("two", "exit 0")] },
    until: isReady,
  },
  {
    name: "init-container-fails",
    spec: { restartPolicy: "Never", initContainers: [first("one", "exit 0"), first("two", "exit 3")] },
    until: hasEnded,
  },
  {
    name: "gate-closed",
    spec: { readinessGates: [{ conditionType: "berth.test/open" }] },
    until: (pod) => statusOf(pod)?.ready === true,
  },
  {
    name: "gate-opened",
    spec: { readinessGates: [{ conditionType: "berth.test/open" }] },
    until: (pod) => statusOf(pod)?.ready === true,
    afterwards: { kind: "open gate", until: (pod) => pod !== undefined && isReady(pod) },
  },
  debugged("debugged", script("echo seen > /dev/termination-log; exit 3")),
  debugged("debugged-in-vain", ["/no/such/command"]),
  debugged("debugged-inside", ["sh", "-c", viewScript("first", "namespaces")], "--target=main"),
  { name: "static", isStatic: true, until: isReady },
  { ...once("static-once", "exit 3"), isStatic: true },
  { name: "static-crash-loop", isStatic: true, container: { command: failing(1) }, ...inCrashLoop() },
  { name: "tainted-away", until: isReady, afterwards: { kind: "taint the node", until: (pod) => pod === undefined } },
];
