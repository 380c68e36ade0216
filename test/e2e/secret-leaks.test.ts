import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { ifAbsent } from "../bed/if-absent.ts";
import { podOf, script } from "./manifest.ts";
import { linesContaining, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

/** The prefix of every secret value in this test. */
const secretPrefix = "hunter2-";
let node: TestNode;
let server: Bun.Server<undefined>;

beforeAll(async () => {
  server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(`${secretPrefix}page`, { status: 403 }),
  });
  node = await startNode({
    configuration: {
      logging: { verbosity: 10 },
      staticPodURL: `http://user:${secretPrefix}password@127.0.0.1:${server.port}/?token=${secretPrefix}query`,
      staticPodURLHeader: { Authorization: [`Bearer ${secretPrefix}header`] },
      httpCheckFrequency: "300ms",
    },
  });
});

afterAll(async () => {
  await node.tearDown();
  await server.stop(true);
});

const secretVariable = (name: string) => ({ name, value: `${secretPrefix}${name.toLowerCase()}` });

test("at -v 10 the log contains no environment value, header or password, whatever happens to the pod", async () => {
  const env = [secretVariable("TOKEN"), { name: "URL", value: "https://$(TOKEN)@example.com" }];
  // Pods that run and print it, crash, cannot start, are refused, or change and end.
  await node.putManifest(podOf("runs", { env, command: script("echo $TOKEN; sleep 1000") }));
  await node.putManifest(podOf("crashes", { env, command: script("exit 1") }));
  await node.putManifest(podOf("cannot-start", { env, command: ["/no/such/program"] }));
  await node.putManifest(
    podOf("refused", { env: [...env, { name: "a=b", value: `${secretPrefix}refused` }], image: "" }),
  );
  await node.putManifest(
    podOf("unsupported", { env, livenessProbe: { exec: { command: ["sh", "-c", `echo ${secretPrefix}probe`] } } }),
  );
  await node.waitUntilRunning("runs");
  await node.waitForPod("crashes", "it waits", ({ reason }) => reason === "CrashLoopBackOff");
  await node.waitForPod("cannot-start", "it waits", ({ restarts }) => restarts >= 1);
  await node.waitForLogLine("manifest refused", "refused.yaml");
  await node.waitForLogLine("static pods from the URL refused", "403");
  await node.putManifest(podOf("runs", { env: [secretVariable("TOKEN"), secretVariable("OTHER")] }));
  await node.removeFile("crashes.yaml");
  await node.waitForPod("runs", "the new one runs", ({ uid, ready }) => ready === "1/1" && uid !== "");

  const log = await node.log();
  expect(linesContaining(log, "debug").length).toBeGreaterThan(20);
  expect(linesContaining(log, secretPrefix)).toEqual([]);
});

test("berth pods shows no environment value", async () => {
  const [program = "", ...args] = node.agent.podsArgv;
  for (const format of ["table", "json"]) {
    const { stdout } = await execa(program, [...args, "-o", format]);
    expect(stdout).toContain("runs-berth");
    expect(stdout).not.toContain(secretPrefix);
  }
});

test("files with environment values are readable by root only", async () => {
  const folder = join(node.paths.agentRoot, "berth", "pods");
  const records = await readdir(folder);
  expect(records.length).toBeGreaterThan(0);
  const { stdout } = await execa("find", [node.paths.agentRoot, "-perm", "/077", "-type", "f"]);
  // The agent may remove a file of a container that has ended meanwhile.
  for (const file of stdout.split("\n").filter(Boolean))
    expect(await readFile(file, "utf8").catch(ifAbsent(""))).not.toContain(secretPrefix);
});
