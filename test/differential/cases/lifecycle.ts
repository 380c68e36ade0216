import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage, webImage } from "../../bed/images/images.ts";
import { ignoringSigterm, script, untilStopped } from "../../e2e/manifest.ts";
import { viewScript } from "../container-view.ts";
import {
  containerStatusOf,
  hasEnded,
  IMAGE_BY_DIGEST,
  inCrashLoop,
  isReady,
  type PodCase,
  REGISTRY,
  runOnceCase,
  runsBeside,
  waitsWithSandbox,
} from "./pod-case.ts";
import { exitsByInstance } from "./shared-notes.ts";

const failsOnce = "test -e /notes/tried && exit 0; touch /notes/tried; exit 4";
const withNotes = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
const notes = { volumes: [{ name: "notes", emptyDir: {} }] };
const exitsWith = (code: number) => script(`exit ${code}`);

const initContainer = (name: string, text: string) => ({ name, image: busyboxImage, command: script(text) });

/** A container whose termination message comes from its log. */
const logMessageCase = (name: string, text: string): PodCase => ({
  name,
  container: { command: script(text), terminationMessagePolicy: "FallbackToLogsOnError" },
  spec: { restartPolicy: "Never" },
  until: hasEnded,
});

function isDebuggerEndedOrWaiting(pod: Pod | undefined): boolean {
  const { terminated, waiting } = (pod && containerStatusOf(pod, "debugger"))?.state ?? {};
  return terminated !== undefined || /^(RunContainerError|ImagePullBackOff)$/.test(waiting?.reason ?? "");
}

const isContainerReady = (pod: Pod) => containerStatusOf(pod)?.ready === true;

/** A running pod that gets an ephemeral container by `kubectl debug`. */
const debugCase = (name: string, command: readonly string[], ...options: readonly string[]): PodCase =>
  debugCaseOf(name, busyboxImage, command, ...options);

const debugCaseOf = (
  name: string,
  image: string,
  command: readonly string[],
  ...options: readonly string[]
): PodCase => ({
  name,
  until: isReady,
  afterwards: {
    kind: "debug",
    debug: [
      ...[`--image=${image}`, "--image-pull-policy=IfNotPresent", "--container=debugger", ...options, "--"],
      ...command,
    ],
    until: isDebuggerEndedOrWaiting,
  },
});

/** Exits and restarts of containers, unavailable images, and deletion. */
export const lifecycleCases: readonly PodCase[] = [
  // These take longest and so are first: a busy machine must have started them before their deadline is over.
  { name: "deadline", spec: { activeDeadlineSeconds: 40, restartPolicy: "Never" }, until: hasEnded },
  {
    name: "deadline-ignored",
    container: { command: ignoringSigterm },
    spec: { activeDeadlineSeconds: 40, terminationGracePeriodSeconds: 1 },
    until: hasEnded,
  },
  {
    name: "deadline-in-init",
    spec: {
      activeDeadlineSeconds: 40,
      restartPolicy: "Never",
      initContainers: [initContainer("one", "exec sleep 1000000")],
    },
    until: hasEnded,
  },
  {
    name: "past-its-deadline",
    container: { command: ignoringSigterm },
    spec: { activeDeadlineSeconds: 20, terminationGracePeriodSeconds: 20 },
    until: ({ status }) => status?.conditions?.some(({ reason }) => reason === "PodFailed") ?? false,
  },
  runOnceCase("succeeds", "exit 0"),
  runOnceCase("succeeds-on-failure", "exit 0", { restartPolicy: "OnFailure" }),
  runOnceCase("fails", "exit 1"),
  runOnceCase("exits-137", "exit 137"),
  runOnceCase("ends-by-signal", "kill -TERM $$"),
  runOnceCase("kills-itself", "kill -KILL $$"),
  {
    name: "out-of-memory",
    container: { command: ["tail", "-c", "67108864", "/dev/zero"], resources: { limits: { memory: "16Mi" } } },
    spec: { restartPolicy: "Never" },
    // The runtime may learn of the OOM kill shortly after it has reported the exit.
    until: (pod) => hasEnded(pod) && containerStatusOf(pod)?.state?.terminated?.reason !== "Error",
  },
  {
    name: "job-that-fails-once",
    container: { command: script(failsOnce), ...withNotes },
    spec: { restartPolicy: "OnFailure", ...notes },
    until: hasEnded,
  },
  { name: "crash-loop", container: { command: script(exitsByInstance), ...withNotes }, spec: notes, ...inCrashLoop() },
  { name: "success-loop", container: { command: exitsWith(0) }, ...inCrashLoop() },
  {
    name: "failure-loop",
    container: { command: script(exitsByInstance), ...withNotes },
    spec: { restartPolicy: "OnFailure", ...notes },
    ...inCrashLoop(),
  },
  { name: "runs", until: isReady },
  { name: "runs-as-its-image", container: { image: webImage, command: [] }, until: isReady },
  { ...runOnceCase("no-such-command", ""), container: { command: ["/no/such/command"] } },
  { ...runOnceCase("not-executable", ""), container: { command: ["/etc/passwd"] } },
  { ...runOnceCase("no-such-working-dir", ""), container: { command: ["true"], workingDir: "/etc/passwd" } },
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
        { name: "other", image: busyboxImage, command: exitsWith(5) },
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
        { name: "other", image: busyboxImage, command: exitsWith(5) },
      ],
    },
    until: hasEnded,
  },
  {
    name: "one-of-two-crashes",
    spec: {
      ...notes,
      containers: [
        { name: "main", image: busyboxImage, command: untilStopped },
        { name: "other", image: busyboxImage, command: script(exitsByInstance), ...withNotes },
      ],
    },
    ...inCrashLoop("other"),
  },
  { name: "ignores-sigterm", container: { command: ignoringSigterm }, gracePeriodSeconds: 2, until: isReady },
  {
    name: "ignores-sigterm-for-pod-grace",
    container: { command: ignoringSigterm },
    spec: { terminationGracePeriodSeconds: 3 },
    until: isReady,
  },
  {
    name: "deleted-in-init",
    spec: { initContainers: [initContainer("one", "exec sleep 1000000")] },
    until: (pod) => containerStatusOf(pod, "one")?.state?.running !== undefined,
  },
  { name: "deleted-by-force", gracePeriodSeconds: 0, until: isReady },
  {
    name: "handles-sigterm",
    container: { command: script("trap 'exit 9' TERM; while true; do sleep 0.1; done") },
    until: isReady,
  },
  {
    name: "pull-refused",
    container: { image: "127.0.0.1:1/refused/image:1" },
    until: waitsWithSandbox("ImagePullBackOff"),
  },
  {
    name: "pull-refused-until-its-deadline",
    container: { image: "127.0.0.1:1/refused/image:1" },
    // More than a busy machine needs for the sandbox, and less than the first back-off.
    spec: { activeDeadlineSeconds: 8, restartPolicy: "Never" },
    until: (pod) => hasEnded(pod) && containerStatusOf(pod)?.state?.terminated !== undefined,
  },
  {
    name: "pull-not-found",
    container: { image: `${REGISTRY}/no/such:1` },
    until: waitsWithSandbox("ImagePullBackOff"),
  },
  { name: "image-name-invalid", container: { image: "Not/An/Image::" }, until: waitsWithSandbox("InvalidImageName") },
  {
    name: "image-never-there",
    container: { image: "berth.test/absent:1", imagePullPolicy: "Never" },
    until: waitsWithSandbox("ErrImageNeverPull"),
  },
  {
    name: "init-image-never-there",
    spec: { initContainers: [{ ...initContainer("one", ""), image: "berth.test/absent:1", imagePullPolicy: "Never" }] },
    until: waitsWithSandbox("ErrImageNeverPull", "one"),
  },
  { name: "image-never-pulled", container: { imagePullPolicy: "Never" }, until: isReady },
  {
    name: "pull-latest",
    container: { image: `${REGISTRY}/berth.test/always` },
    until: waitsWithSandbox("ImagePullBackOff"),
  },
  {
    name: "pull-digest",
    container: { image: `${REGISTRY}/berth.test/once@sha256:${"0".repeat(64)}` },
    until: waitsWithSandbox("ImagePullBackOff"),
  },
  { name: "image-by-digest", container: { image: IMAGE_BY_DIGEST }, until: isReady },
  {
    name: "image-always-pulled",
    container: { image: `${REGISTRY}/berth.test/always:1`, imagePullPolicy: "Always" },
    until: isReady,
  },
  { name: "image-pulled-once", container: { image: `${REGISTRY}/berth.test/once:1` }, until: isReady },
  {
    name: "termination-message",
    container: { command: script("echo because > /why; exit 2"), terminationMessagePath: "/why" },
    spec: { restartPolicy: "Never" },
    until: hasEnded,
  },
  logMessageCase("termination-message-from-log", "for i in 1 2 3; do echo error $i >&2; done; exit 2"),
  logMessageCase("termination-message-from-long-log", "for i in $(seq 1 300); do echo error $i; done; exit 2"),
  logMessageCase("termination-message-of-success", "echo all is well"),
  logMessageCase(
    "termination-message-file-and-log",
    "echo in the log; echo in the file > /dev/termination-log; exit 2",
  ),
  {
    name: "termination-messages-of-four-containers",
    spec: {
      restartPolicy: "Never",
      containers: ["a", "b", "c", "d"].map((name) =>
        initContainer(name, `head -c 5000 /dev/zero | tr '\\0' ${name} > /dev/termination-log`),
      ),
    },
    until: hasEnded,
  },
  {
    name: "termination-message-too-long",
    container: { command: script("for i in $(seq 1 900); do echo word $i; done > /dev/termination-log") },
    spec: { restartPolicy: "Never" },
    until: hasEnded,
  },
  {
    name: "init-containers",
    spec: { initContainers: [initContainer("one", "exit 0"), initContainer("two", "exit 0")] },
    until: isReady,
  },
  {
    name: "init-container-fails",
    spec: { restartPolicy: "Never", initContainers: [initContainer("one", "exit 0"), initContainer("two", "exit 3")] },
    until: hasEnded,
  },
  {
    name: "gate-closed",
    spec: { readinessGates: [{ conditionType: "berth.test/open" }] },
    until: isContainerReady,
  },
  {
    name: "gate-opened",
    spec: { readinessGates: [{ conditionType: "berth.test/open" }] },
    until: isContainerReady,
    afterwards: { kind: "open gate", until: (pod) => pod !== undefined && isReady(pod) },
  },
  {
    name: "sidecar-in-back-off-at-the-end",
    container: { command: script("sleep 8") },
    spec: {
      ...notes,
      restartPolicy: "Never",
      initContainers: [
        { ...initContainer("side", `sleep 1; ${exitsByInstance}`), ...withNotes, restartPolicy: "Always" },
      ],
    },
    until: (pod) => hasEnded(pod) && containerStatusOf(pod, "side")?.state?.terminated !== undefined,
  },
  debugCase("debugged", script("echo seen > /dev/termination-log; exit 3")),
  debugCase("debug-command-missing", ["/no/such/command"]),
  debugCaseOf("debug-image-refused", "127.0.0.1:1/refused/image:1", ["true"]),
  debugCase("debugged-inside", ["sh", "-c", viewScript("first", "namespaces")], "--target=main"),
  { name: "static", isStatic: true, until: isReady },
  { ...runOnceCase("static-once", "exit 3"), isStatic: true },
  {
    name: "static-crash-loop",
    isStatic: true,
    container: { command: script(exitsByInstance), ...withNotes },
    spec: notes,
    ...inCrashLoop(),
  },
  {
    name: "evicted-by-taint",
    until: isReady,
    afterwards: { kind: "taint the node", until: (pod) => pod === undefined },
  },
];
