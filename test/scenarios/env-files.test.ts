// Environment variables from fileKeyRef (KEP-3721): files in an emptyDir that an init container writes.
import { expect, test } from "bun:test";
import type { EnvVar, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";

const FOLDER = /\/volumes\/kubernetes\.io~empty-dir\/config$/;

/** Changes a path in the pod's volume `config`, as a container of the pod would. */
async function changeVolumeFile(
  harness: AgentHarness,
  path: string,
  change: (absolute: string) => Promise<void>,
): Promise<void> {
  const folder = harness.disk.paths().find((each) => FOLDER.test(each));
  await change(`${folder}/${path}`);
}
const write = (harness: AgentHarness, text: string) =>
  changeVolumeFile(harness, "app.env", (path) => harness.disk.at("/").write(path, text, 0o644));

/** Lets the init container `setup` run `work` when it is started. */
function runInSetup(harness: AgentHarness, work: () => Promise<void>): void {
  harness.runtime.programs.set("setup", { exitsAfterMs: 1000, exitCode: 0 });
  harness.runtime.after.startContainer = async (about) => {
    if (about.includes("/setup ")) await work();
  };
}

const image = { image: "busybox:1", imagePullPolicy: "IfNotPresent" as const };
const fileKey = (key: string, optional = false): EnvVar => ({
  name: key,
  valueFrom: { fileKeyRef: { volumeName: "config", path: "app.env", key, ...(optional && { optional }) } },
});
const podWith = (...env: readonly EnvVar[]): Partial<PodSpec> => ({
  initContainers: [{ name: "setup", ...image }],
  containers: [{ name: "a", ...image, env }],
  volumes: [{ name: "config", emptyDir: {} }],
});

/** The environment of each instance of the app container: `#0 A=b`. */
function environments(harness: AgentHarness): readonly string[] {
  return [...harness.runtime.containers.values()]
    .filter(({ config }) => config.metadata?.name === "a")
    .map(({ config }) => {
      const variables = config.envs.map(({ key, value }) => `${key}=${new TextDecoder().decode(value)}`);
      return `#${config.metadata?.attempt} ${variables.join(" ")}`;
    });
}
const waitingReason = (harness: AgentHarness) => {
  const { reason, message } = harness.podReports()[0]?.status.containerStatuses?.[0]?.state?.waiting ?? {};
  return `${reason}: ${message?.replace(/\/root\/\S+\/config\//, "…/")}`;
};

apiScenario(
  "a container gets the variables that an init container wrote, and its next instance the current ones",
  async (harness) => {
    runInSetup(harness, () => write(harness, "COLOUR='blue'\nSECRET='hunter2' # not asked for\n"));
    await harness.apply("web", podWith(fileKey("COLOUR"), fileKey("NONE", true)));
    await harness.advance("5s");
    await write(harness, "COLOUR='red'");
    if (harness.runtime.containers.size < 3) await harness.exit("a", 1);
    await harness.advance("30s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: init setup terminated Completed 0, a running (restarts: 1)"]);
    expect(environments(harness)).toEqual(["#0 COLOUR=blue", "#1 COLOUR=red"]);
  },
);

apiScenario(
  "a container waits for a key that is missing in the file, and starts when it is written",
  async (harness) => {
    runInSetup(harness, () => write(harness, "COLOUR='blue'"));
    await harness.apply("web", podWith(fileKey("SIZE")));
    await harness.advance("8s");
    await write(harness, "COLOUR='blue'\nSIZE='1'");
    await harness.advance("20s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: init setup terminated Completed 0, a running"]);
    expect(environments(harness)).toEqual(["#0 SIZE=1"]);
    const failed = (await harness.events("web")).filter((event) => event.includes("Warning"));
    expect(failed).toEqual([
      expect.stringMatching(
        /^\dx Warning Failed: Error: environment variable key "SIZE" not found in file "\/root\/pods\/.*\/config\/app\.env"$/,
      ),
    ]);
  },
);

const invalidFiles: readonly [sentence: string, work: (harness: AgentHarness) => Promise<void>, message: string][] = [
  ["a missing file", async () => {}, "couldn't parse env file: …/app.env does not exist"],
  [
    "a file with a syntax error",
    (harness) => write(harness, "A='1'\nSIZE=hunter2\n"),
    "couldn't parse env file: …/app.env: invalid environment variable format at line 2: value must be enclosed in single quotes",
  ],
  [
    "a symlink to a file of the node",
    async (harness) => {
      await harness.disk.at("/").write("/root/secret.env", "SIZE='hunter2'", 0o600);
      await changeVolumeFile(harness, "app.env", (path) => harness.disk.at("/").link(path, "/root/secret.env"));
    },
    "couldn't parse env file: …/app.env does not exist",
  ],
  [
    "a symlink with .. out of the volume",
    async (harness) => {
      await harness.disk.at("/").write("/root/secret.env", "SIZE='hunter2'", 0o600);
      await changeVolumeFile(harness, "app.env", (path) =>
        harness.disk.at("/").link(path, "../../../../../secret.env"),
      );
    },
    "couldn't parse env file: …/app.env does not exist",
  ],
];
for (const [sentence, work, message] of invalidFiles)
  test(`${sentence} keeps the container from starting, and no content appears in log or events`, async () => {
    const harness = await runInCluster(async (on) => {
      runInSetup(on, () => work(on));
      await on.apply("web", podWith(fileKey("SIZE")));
      await on.advance("8s");
    });
    expect(waitingReason(harness)).toBe(`CreateContainerConfigError: ${message}`);
    expect(environments(harness)).toEqual([]);
    expect([...harness.log, ...(await harness.events("web"))].join("\n")).not.toContain("hunter2");
  });
