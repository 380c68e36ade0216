// What somebody does to a pod, or has written into it, that cannot be carried out: what a user sees of it.
import { expect } from "bun:test";
import { apiScenario } from "./api-scenario.ts";

apiScenario(
  "a container whose folder of logs is a link is not created, says why, and begins when the link is gone",
  async (stage) => {
    const isOfPod = /^\/logs\/default_web_[^/]+$/;
    let isDone = false;
    stage.disk.after = async (verb, path) => {
      if (isDone || verb !== "makeFolder" || !isOfPod.test(path)) return;
      isDone = true;
      await stage.disk.at("/").link(`${path}/a`, "/etc");
    };
    await stage.apply("web");
    await stage.advance("5s");
    const folder = stage.disk.paths().find((path) => isOfPod.test(path));
    await stage.disk.at("/").remove(`${folder}/a`);
    await stage.advance("20s");
  },
  async (end, stage) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    const failed = (await stage.events("web")).filter((event) => event.includes("Warning"));
    expect(failed).toEqual([
      expect.stringMatching(
        /^\dx Warning Failed: Error: the log of container a cannot be written: \/logs\/default_web_.*\/a is a symlink; remove it$/,
      ),
    ]);
    expect(stage.disk.paths().filter((path) => path.startsWith("/etc"))).toEqual([]);
  },
);
