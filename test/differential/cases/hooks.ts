import type { Container, Lifecycle } from "../../../proto/kubernetes/gen/types.ts";
import { script } from "../../e2e/manifest.ts";
import { hasEnded, inCrashLoop, isReady, type PodCase } from "./pod-case.ts";
import { appendNote, exec, initContainer, notesCase, onSigterm, reportNotes, sidecar, web } from "./shared-notes.ts";

const hookCase = (
  name: string,
  lifecycle: Lifecycle,
  until: PodCase["until"],
  container: Partial<Container>,
): PodCase => notesCase(name, until, { lifecycle, ...container }, { restartPolicy: "Never" });

/** Notes that it runs, and sleeps: a hook that fails sooner may stop the container before that. */
const noteUpAndSleep = script("touch /notes/up; exec sleep 1000000");
const untilUp = "until test -e /notes/up; do sleep 0.1; done";
/**
 * Closes each connection without a response, which fails a hook, but only once another container handles SIGTERM. A
 * response of any status would be a success.
 */
const closingServer = ["nc", "-ll", "-p", "8080", "-e", "sh", "-c", untilUp];

/** Hooks after the start and before the stop of a container. */
export const hookCases: readonly PodCase[] = [
  hookCase("post-start", { postStart: exec(appendNote("hook")) }, hasEnded, {
    command: script(`until test -s /notes/all; do sleep 0.1; done; ${reportNotes}`),
  }),
  hookCase("post-start-fails", { postStart: exec(`${untilUp}; echo no; exit 7`) }, hasEnded, {
    command: noteUpAndSleep,
  }),
  {
    // Each instance has a file system of its own, in which it notes that it handles SIGTERM, and an exit code of its own.
    ...notesCase("post-start-loop", inCrashLoop().until, {
      command: script(
        'echo >> /notes/tries; trap "exit $((10 + $(wc -l < /notes/tries)))" TERM; touch /up; while true; do sleep 0.1; done',
      ),
      lifecycle: { postStart: exec("until test -e /up; do sleep 0.1; done; echo no; exit 7") },
    }),
    ...inCrashLoop(),
  },
  hookCase("pre-stop", { preStop: exec(appendNote("hook")) }, isReady, {
    command: onSigterm(`${appendNote("signal")}; ${reportNotes}`),
  }),
  hookCase("pre-stop-fails", { preStop: exec("echo no; exit 7") }, isReady, {}),
  notesCase(
    "post-start-by-http-fails",
    hasEnded,
    {
      command: noteUpAndSleep,
      lifecycle: { postStart: { httpGet: { port: 8080 } } },
    },
    {
      restartPolicy: "Never",
      initContainers: [
        sidecar("server", ["catatonit", "--", ...closingServer]),
        initContainer("listens", "until grep -q ':1F90 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done"),
      ],
    },
  ),
  hookCase("post-start-sleeps", { postStart: { sleep: { seconds: 2 } } }, isReady, {}),
  notesCase(
    "post-start-without-command",
    hasEnded,
    { command: ["sleep", "1000000"], lifecycle: { postStart: { exec: { command: ["/no/such"] } } } },
    // This hook cannot wait for the container. In the sandbox's process namespace the container needs no handler of SIGTERM.
    { restartPolicy: "Never", shareProcessNamespace: true },
  ),
  {
    ...hookCase("pre-stop-outlasts-its-grace", { preStop: exec("sleep 1000") }, isReady, {}),
    gracePeriodSeconds: 3,
  },
  hookCase("pre-stop-by-http", { preStop: { httpGet: { port: 8080 } } }, isReady, web),
  hookCase("pre-stop-by-http-fails", { preStop: { httpGet: { port: 9, path: "/none" } } }, isReady, {}),
  hookCase("pre-stop-sleeps", { preStop: { sleep: { seconds: 2 } } }, isReady, {}),
];
