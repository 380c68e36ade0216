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
