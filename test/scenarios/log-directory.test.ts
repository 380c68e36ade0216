// Pods that cannot be started because of files on the node: the events that a user sees.
import { expect } from "bun:test";
import { apiScenario } from "./api-scenario.ts";

apiScenario(
  "a container whose log directory is a symlink waits with an event, and starts when the symlink is removed",
  async (harness) => {
    const isOfPod = /^\/logs\/default_web_[^/]+$/;
    let isDone = false;
    harness.disk.after = async (verb, path) => {
      if (isDone || verb !== "makeFolder" || !isOfPod.test(path)) return;
      isDone = true;
      await harness.disk.at("/").link(`${path}/a`, "/etc");
    };
    await harness.apply("web");
    await harness.advance("5s");
    const folder = harness.disk.paths().find((path) => isOfPod.test(path));
    await harness.disk.at("/").remove(`${folder}/a`);
    await harness.advance("20s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    const failed = (await harness.events("web")).filter((event) => event.includes("Warning"));
    expect(failed).toEqual([
      expect.stringMatching(
        /^\dx Warning Failed: Error: the log of container a cannot be written: \/logs\/default_web_.*\/a is a symlink; remove it$/,
      ),
    ]);
    expect(harness.disk.paths().filter((path) => path.startsWith("/etc"))).toEqual([]);
  },
);

/** With the namespace and the uid this makes a name of more than 255 bytes. */
const longName = "p".repeat(220);

apiScenario(
  "a pod whose log directory has too long a name stays Pending with an event, and can be deleted",
  async (harness) => {
    await harness.apply(longName);
    await harness.advance("5s");
    harness.appendLog((await harness.apiPods()).map((pod) => `before its deletion: ${pod}`));
    await harness.deletePod(longName);
    await harness.advance("5s");
  },
  async (end, harness) => {
    expect(harness.log).toContain(`5s before its deletion: ${longName} Pending: a waiting ContainerCreating`);
    const failed = (await harness.events(longName)).filter((event) => event.includes("Warning"));
    expect(failed).toEqual([
      expect.stringMatching(
        /^\dx Warning FailedCreatePodSandBox: .*\/logs\/default_p{220}_[^/]* has a name of more than 255 bytes$/,
      ),
    ]);
    expect(end).toEqual({ api: [], node: [] });
  },
);
