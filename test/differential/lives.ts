import { busyboxImage, webImage } from "../bed/images.ts";
import { ignoringSigterm, script, untilStopped } from "../e2e/manifest.ts";
import { hasEnded, inCrashLoop, isReady, once, type Play, REGISTRY, statusOf, waitsInPlace } from "./pod.ts";

const failsOnce = "test -e /notes/tried && exit 0; touch /notes/tried; exit 4";
const withNotes = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
const notes = { volumes: [{ name: "notes", emptyDir: {} }] };
const failing = (code: number) => script(`exit ${code}`);

const first = (name: string, text: string) => ({ name, image: busyboxImage, command: script(text) });

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
  once("succeeds", "exit 0"),
  once("succeeds-on-failure", "exit 0", { restartPolicy: "OnFailure" }),
  once("fails", "exit 1"),
  once("exits-137", "exit 137"),
  once("ends-by-signal", "kill -TERM $$"),
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
    until: (pod) =>
      statusOf(pod, "other")?.state?.terminated !== undefined && statusOf(pod)?.state?.running !== undefined,
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
  {
    name: "last-words-in-log",
    container: {
      command: script("for i in 1 2 3; do echo error $i >&2; done; exit 2"),
      terminationMessagePolicy: "FallbackToLogsOnError",
    },
    spec: { restartPolicy: "Never" },
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
  { name: "static", isStatic: true, until: isReady },
  { name: "static-crash-loop", isStatic: true, container: { command: failing(1) }, ...inCrashLoop() },
  { name: "tainted-away", until: isReady, afterwards: { kind: "taint the node", until: (pod) => pod === undefined } },
];
