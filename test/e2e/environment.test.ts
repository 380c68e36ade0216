import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Container, EnvVar, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { podOf, script } from "./manifest.ts";
import { linesContaining, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;

beforeAll(async () => {
  node = await startNode();
});

afterAll(() => node.tearDown());

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
const reporting = (text: string): Partial<Container> => ({
  command: script(`printf %s "${text}" >/dev/termination-log`),
});
const terminationMessage = async (name: string) => {
  const pod = await node.waitForPod(name, "it has ended", ({ phase }) => phase === "Succeeded" || phase === "Failed");
  return pod.status.containerStatuses?.[0]?.state?.terminated?.message;
};

test("fileKeyRef takes a variable from a file that an init container has written", async () => {
  const text =
    "printf \"# made by setup\\nCOLOUR='deep\\nblue' # two lines\\n\" >/config/now; ln -s now /config/app.env";
  const app = { ...reporting("$COLOUR.$" + "{NONE-unset}"), env: [fileKey("COLOUR"), fileKey("NONE", true)] };
  await node.putManifest(podOf("written", app, setup(text)));
  expect(await terminationMessage("written")).toBe("deep\nblue.unset");
});

test("a container with a missing fileKeyRef key waits, names the key, and starts when the key exists", async () => {
  const app = { ...reporting("$SIZE"), env: [fileKey("SIZE")] };
  await node.putManifest(podOf("missing", app, setup("echo \"COLOUR='blue'\" >/config/app.env")));
  const waiting = await node.waitForPod("missing", "it says so", ({ message }) =>
    message.includes('key "SIZE" not found'),
  );
  expect(waiting).toMatchObject({ phase: "Pending", reason: "CreateContainerConfigError" });
  const path = join(node.paths.agentRoot, "pods", waiting.uid, "volumes/kubernetes.io~empty-dir/config/app.env");
  expect(waiting.message).toContain(`environment variable key "SIZE" not found in file "${path}"`);
  await writeFile(path, "SIZE='large'\n");
  expect(await terminationMessage("missing")).toBe("large");
});

test("fileKeyRef does not follow an init container's symlink to a file of the node", async () => {
  const secret = join(node.folder, "node.env");
  await writeFile(secret, "TOKEN='hunter2'\n", { mode: 0o600 });
  const app = { ...reporting("$TOKEN"), env: [fileKey("TOKEN")] };
  await node.putManifest(podOf("linked", app, setup(`ln -s ${secret} /config/app.env`)));
  const waiting = await node.waitForPod("linked", "it is refused", ({ message }) =>
    message.includes("app.env does not exist"),
  );
  expect(waiting.reason).toBe("CreateContainerConfigError");
  expect(linesContaining(await node.log(), "hunter2")).toEqual([]);
});

/** An environment of about `letters` × 100 kB. */
const large = (letters: number): readonly EnvVar[] => [
  { name: "K", value: "x".repeat(1000) },
  ...Array.from({ length: letters }, (_, n) => ({ name: `V${n}`, value: "$(K)".repeat(100) })),
];

test("an environment of 1 MiB reaches the process", async () => {
  await node.putManifest(
    podOf("mebibyte", { ...reporting("$(env | wc -c)"), env: large(11) }, { restartPolicy: "Never" }),
  );
  expect(Number(await terminationMessage("mebibyte"))).toBeGreaterThan(1024 * 1024);
});

const tooLargeEnvironments: readonly (readonly [sentence: string, env: readonly EnvVar[]])[] = [
  ["an environment above the kernel's limit", large(25)],
  ["a single variable above the kernel's limit", [...large(0), { name: "LONG", value: "$(K)".repeat(200) }]],
];
test.each(tooLargeEnvironments)(
  "%s fails the container with the reason in its log, and the status stays small",
  async (sentence, env) => {
    const name = sentence.includes("single") ? "too-long" : "too-large";
    await node.putManifest(podOf(name, { env, terminationMessagePolicy: "FallbackToLogsOnError" }));
    const pod = await node.waitForPod(name, "it has failed", ({ restarts }) => restarts === 1);
    const end = pod.status.containerStatuses?.[0]?.lastState?.terminated;
    expect(end).toMatchObject({ exitCode: 1, reason: "Error" });
    expect(end?.message).toContain("argument list too long");
    expect(JSON.stringify(pod.status).length).toBeLessThan(4096);
  },
);

test("variables whose expansion grows exponentially are refused", async () => {
  const names = Array.from({ length: 40 }, (_, n) => ({ name: `V${n + 1}`, value: `$(V${n})$(V${n})` }));
  await node.putManifest(podOf("bomb", { env: [{ name: "V0", value: "x".repeat(100) }, ...names] }));
  const pod = await node.waitForPod("bomb", "it is refused", ({ reason }) => reason === "CreateContainerConfigError");
  expect(pod.message).toContain("container main: command, args and env are larger than 6291456 bytes together");
  expect(node.agent.isRunning).toBe(true);
});
