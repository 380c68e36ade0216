// Variables from files that the containers of a pod have written into its own folders.
import { expect, test } from "bun:test";
import type { EnvVar, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { apiScenario, play } from "./api-scenario.ts";
import type { Stage } from "./harness.ts";

const FOLDER = /\/volumes\/kubernetes\.io~empty-dir\/config$/;

/** As a container of the pod would, below its `/config`. */
async function put(stage: Stage, path: string, change: (absolute: string) => Promise<void>): Promise<void> {
  const folder = stage.disk.paths().find((each) => FOLDER.test(each));
  await change(`${folder}/${path}`);
}
const write = (stage: Stage, text: string) =>
  put(stage, "app.env", (path) => stage.disk.at("/").write(path, text, 0o644));

/** Of an init container `setup`, which writes this when it is started. */
function whenStarted(stage: Stage, work: () => Promise<void>): void {
  stage.runtime.programs.set("setup", { exitsAfterMs: 1000, exitCode: 0 });
  stage.runtime.after.startContainer = async (about) => {
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

/** What each instance of the app container was told. */
function environments(stage: Stage): readonly string[] {
  return [...stage.runtime.containers.values()]
    .filter(({ config }) => config.metadata?.name === "a")
    .map(({ config }) => {
      const words = config.envs.map(({ key, value }) => `${key}=${new TextDecoder().decode(value)}`);
      return `#${config.metadata?.attempt} ${words.join(" ")}`;
    });
}
const waitsFor = (stage: Stage) => {
  const { reason, message } = stage.pods()[0]?.status.containerStatuses?.[0]?.state?.waiting ?? {};
  return `${reason}: ${message?.replace(/\/root\/\S+\/config\//, "…/")}`;
};

apiScenario(
  "a container is told what an init container has written, and its next instance what stands there by then",
  async (stage) => {
    whenStarted(stage, () => write(stage, "COLOUR='blue'\nSECRET='hunter2' # not asked for\n"));
    await stage.apply("web", podWith(fileKey("COLOUR"), fileKey("NONE", true)));
    await stage.advance("5s");
    await write(stage, "COLOUR='red'");
    if (stage.runtime.containers.size < 3) await stage.exit("a", 1);
    await stage.advance("30s");
  },
  async (end, stage) => {
    expect(end.api).toEqual(["web Running, ready: init setup terminated Completed 0, a running (restarts: 1)"]);
    expect(environments(stage)).toEqual(["#0 COLOUR=blue", "#1 COLOUR=red"]);
  },
);

apiScenario(
  "a container waits for a key that the file lacks, and begins when it is there",
  async (stage) => {
    whenStarted(stage, () => write(stage, "COLOUR='blue'"));
    await stage.apply("web", podWith(fileKey("SIZE")));
    await stage.advance("8s");
    await write(stage, "COLOUR='blue'\nSIZE='1'");
    await stage.advance("20s");
  },
  async (end, stage) => {
    expect(end.api).toEqual(["web Running, ready: init setup terminated Completed 0, a running"]);
    expect(environments(stage)).toEqual(["#0 SIZE=1"]);
    const failed = (await stage.events("web")).filter((event) => event.includes("Warning"));
    expect(failed).toEqual([
      expect.stringMatching(
        /^\dx Warning Failed: Error: environment variable key "SIZE" not found in file "\/root\/pods\/.*\/config\/app\.env"$/,
      ),
    ]);
  },
);

const refused: readonly [sentence: string, work: (stage: Stage) => Promise<void>, message: string][] = [
  ["a file that nobody has written", async () => {}, "couldn't parse env file: …/app.env does not exist"],
  [
    "a file that is no such file",
    (stage) => write(stage, "A='1'\nSIZE=hunter2\n"),
    "couldn't parse env file: …/app.env: invalid environment variable format at line 2: value must be enclosed in single quotes",
  ],
  [
    "a link to a file of the node",
    async (stage) => {
      await stage.disk.at("/").write("/root/secret.env", "SIZE='hunter2'", 0o600);
      await put(stage, "app.env", (path) => stage.disk.at("/").link(path, "/root/secret.env"));
    },
    "couldn't parse env file: …/app.env does not exist",
  ],
  [
    "a link that leads up and out",
    async (stage) => {
      await stage.disk.at("/").write("/root/secret.env", "SIZE='hunter2'", 0o600);
      await put(stage, "app.env", (path) => stage.disk.at("/").link(path, "../../../../../secret.env"));
    },
    "couldn't parse env file: …/app.env does not exist",
  ],
];
for (const [sentence, work, message] of refused)
  test(`${sentence} keeps the container from starting, and nothing of it is told`, async () => {
    const stage = await play(async (on) => {
      whenStarted(on, () => work(on));
      await on.apply("web", podWith(fileKey("SIZE")));
      await on.advance("8s");
    });
    expect(waitsFor(stage)).toBe(`CreateContainerConfigError: ${message}`);
    expect(environments(stage)).toEqual([]);
    expect([...stage.story, ...(await stage.events("web"))].join("\n")).not.toContain("hunter2");
  });
