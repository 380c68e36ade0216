import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { podOf, script } from "./manifest.ts";
import { linesWith, type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

/** Whatever is planted where a Secret may stand has this in it. */
const planted = "hunter2-";
let node: Node;
let server: Bun.Server<undefined>;

beforeAll(async () => {
  server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(`${planted}page`, { status: 403 }) });
  node = await startNode({
    configuration: {
      logging: { verbosity: 10 },
      staticPodURL: `http://user:${planted}password@127.0.0.1:${server.port}/?token=${planted}query`,
      staticPodURLHeader: { Authorization: [`Bearer ${planted}header`] },
      httpCheckFrequency: "300ms",
    },
  });
});

afterAll(async () => {
  await node.end();
  await server.stop(true);
});

const secretive = (name: string) => ({ name, value: `${planted}${name.toLowerCase()}` });

test("at -v 10 no value of the environment, no header and no password is in the log, whatever happens to the pod", async () => {
  const env = [secretive("TOKEN"), { name: "URL", value: "https://$(TOKEN)@example.com" }];
  // One that runs and prints it, one that crashes, one that cannot start, one that is refused, one that changes and ends.
  await node.put(podOf("runs", { env, command: script("echo $TOKEN; sleep 1000") }));
  await node.put(podOf("crashes", { env, command: script("exit 1") }));
  await node.put(podOf("cannot-start", { env, command: ["/no/such/program"] }));
  await node.put(podOf("refused", { env: [...env, { name: "a=b", value: `${planted}refused` }], image: "" }));
  await node.put(
    podOf("unsupported", { env, livenessProbe: { exec: { command: ["sh", "-c", `echo ${planted}probe`] } } }),
  );
  await node.running("runs");
  await node.pod("crashes", "it waits", ({ reason }) => reason === "CrashLoopBackOff");
  await node.pod("cannot-start", "it waits", ({ restarts }) => restarts === 1);
  await node.logged("manifest refused", "refused.yaml");
  await node.logged("static pods from the URL refused", "403");
  await node.put(podOf("runs", { env: [secretive("TOKEN"), secretive("OTHER")] }));
  await node.removeFile("crashes.yaml");
  await node.pod("runs", "the new one runs", ({ uid, ready }) => ready === "1/1" && uid !== "");

  const log = await node.log();
  expect(linesWith(log, "debug").length).toBeGreaterThan(20);
  expect(linesWith(log, planted)).toEqual([]);
});

test("nor is it in what berth pods shows", async () => {
  const [program = "", ...args] = node.agent.podsArgv;
  for (const format of ["table", "json"]) {
    const { stdout } = await execa(program, [...args, "-o", format]);
    expect(stdout).toContain("runs-berth");
    expect(stdout).not.toContain(planted);
  }
});

test("what the agent keeps of pods on the disk is for root alone", async () => {
  const folder = join(node.paths.agentRoot, "berth", "pods");
  const records = await readdir(folder);
  expect(records.length).toBeGreaterThan(0);
  const { stdout } = await execa("find", [node.paths.agentRoot, "-perm", "/077", "-type", "f"]);
  for (const file of stdout.split("\n").filter(Boolean)) expect(await readFile(file, "utf8")).not.toContain(planted);
});
