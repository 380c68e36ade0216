import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Container, EnvVar, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { podOf, script } from "./manifest.ts";
import { linesWith, type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

let node: Node;

beforeAll(async () => {
  node = await startNode();
});

afterAll(() => node.end());

const mounted = { volumeMounts: [{ name: "config", mountPath: "/config" }] };
const setup = (text: string): Partial<PodSpec> => ({
  initContainers: [{ name: "setup", image: busyboxImage, command: script(text), ...mounted }],
  volumes: [{ name: "config", emptyDir: {} }],
  restartPolicy: "Never",
});
const fileKey = (name: string, optional = false): EnvVar => ({
  name,
  valueFrom: { fileKeyRef: { volumeName: "config", path: "app.env", key: name, optional } },
});
const telling = (text: string): Partial<Container> => ({
  command: script(`printf %s "${text}" >/dev/termination-log`),
});
const lastWords = async (name: string) => {
  const pod = await node.pod(name, "it has ended", ({ phase }) => phase === "Succeeded" || phase === "Failed");
  return pod.status.containerStatuses?.[0]?.state?.terminated?.message;
};

test("a variable is what an init container has written into a file of the pod", async () => {
  const text =
    "printf \"# made by setup\\nCOLOUR='deep\\nblue' # two lines\\n\" >/config/now; ln -s now /config/app.env";
  const app = { ...telling("$COLOUR.$" + "{NONE-unset}"), env: [fileKey("COLOUR"), fileKey("NONE", true)] };
  await node.put(podOf("written", app, setup(text)));
  expect(await lastWords("written")).toBe("deep\nblue.unset");
});

test("a container whose key is missing waits, says for what, and begins when it is there", async () => {
  const app = { ...telling("$SIZE"), env: [fileKey("SIZE")] };
  await node.put(podOf("missing", app, setup("echo \"COLOUR='blue'\" >/config/app.env")));
  const waiting = await node.pod("missing", "it says so", ({ message }) => message.includes('key "SIZE" not found'));
  expect(waiting).toMatchObject({ phase: "Pending", reason: "CreateContainerConfigError" });
  const path = join(node.paths.agentRoot, "pods", waiting.uid, "volumes/kubernetes.io~empty-dir/config/app.env");
  expect(waiting.message).toContain(`environment variable key "SIZE" not found in file "${path}"`);
  await writeFile(path, "SIZE='large'\n");
  expect(await lastWords("missing")).toBe("large");
});

test("a link that an init container leaves in the place of the file does not lead to the node's files", async () => {
  const secret = join(node.folder, "node.env");
  await writeFile(secret, "TOKEN='hunter2'\n", { mode: 0o600 });
  const app = { ...telling("$TOKEN"), env: [fileKey("TOKEN")] };
  await node.put(podOf("linked", app, setup(`ln -s ${secret} /config/app.env`)));
  const waiting = await node.pod("linked", "it is refused", ({ message }) =>
    message.includes("app.env does not exist"),
  );
  expect(waiting.reason).toBe("CreateContainerConfigError");
  expect(linesWith(await node.log(), "hunter2")).toEqual([]);
});

/** Of `letters` times a thousand. */
const large = (letters: number): readonly EnvVar[] => [
  { name: "K", value: "x".repeat(1000) },
  ...Array.from({ length: letters }, (_, n) => ({ name: `V${n}`, value: "$(K)".repeat(100) })),
];

test("an environment of 1 MiB reaches the process", async () => {
  await node.put(podOf("mebibyte", { ...telling("$(env | wc -c)"), env: large(11) }, { restartPolicy: "Never" }));
  expect(Number(await lastWords("mebibyte"))).toBeGreaterThan(1024 * 1024);
});

const unfit: readonly (readonly [sentence: string, env: readonly EnvVar[]])[] = [
  ["an environment that is larger than the kernel takes", large(25)],
  [
    "a single variable that is longer than the kernel takes",
    [...large(0), { name: "LONG", value: "$(K)".repeat(200) }],
  ],
];
test.each(unfit)("%s fails the container, whose log tells why, and its status stays small", async (sentence, env) => {
  const name = sentence.includes("single") ? "too-long" : "too-large";
  await node.put(podOf(name, { env, terminationMessagePolicy: "FallbackToLogsOnError" }));
  const pod = await node.pod(name, "it has failed", ({ restarts }) => restarts === 1);
  const end = pod.status.containerStatuses?.[0]?.lastState?.terminated;
  expect(end).toMatchObject({ exitCode: 1, reason: "Error" });
  expect(end?.message).toContain("argument list too long");
  expect(JSON.stringify(pod.status).length).toBeLessThan(4096);
});

test("variables that double each other ask for more than there is, and are refused", async () => {
  const names = Array.from({ length: 40 }, (_, n) => ({ name: `V${n + 1}`, value: `$(V${n})$(V${n})` }));
  await node.put(podOf("bomb", { env: [{ name: "V0", value: "x".repeat(100) }, ...names] }));
  const pod = await node.pod("bomb", "it is refused", ({ reason }) => reason === "CreateContainerConfigError");
  expect(pod.message).toContain("container main: command, args and env are larger than 6291456 bytes together");
  expect(node.agent.isRunning).toBe(true);
});
