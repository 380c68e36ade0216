import { expect, test } from "bun:test";
import { readPodManifest } from "../agent/desired/static/manifest.ts";
import { watchStaticPath } from "../agent/desired/static/static-files.ts";
import { createLog } from "../host/log/log.ts";
import { FakeClock } from "./fakes/clock.ts";
import { FakeDisk } from "./fakes/files.ts";
import { readmeManifest, readReadme } from "./readme-manifest.ts";

const manifest = `apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  terminationGracePeriodSeconds: 5
  containers:
    - name: httpd
      image: berth.test/web:1
`;

test("the README shows the log line of a refused manifest as the agent writes it", async () => {
  const readme = await readReadme();
  const clock = new FakeClock();
  const disk = new FakeDisk(clock.now);
  const folder = "/etc/kubernetes/manifests";
  await disk.at("/").makeFolder(folder, 0o755);
  await disk.at(folder).write("web.yaml", manifest, 0o644);
  // The file is older than the settle time, so the agent reads it at once.
  await clock.advance(1000);
  const lines: string[] = [];
  const ending = new AbortController();
  const accepted = Promise.withResolvers<void>();
  const refused = Promise.withResolvers<void>();
  const settings = {
    path: folder,
    nodeName: "node1",
    checkEveryMs: 20_000,
    filesAt: (root: string) => disk.at(root),
    clock,
    log: await createLog({
      format: "text",
      level: "info",
      write: (line) => {
        lines.push(line.slice("12:01:07.123".length));
        refused.resolve();
      },
    }),
    desired: { all: () => [], replaceManifests: async () => accepted.resolve(), setManifestErrors: () => undefined },
  };
  void watchStaticPath(settings, ending.signal);
  await accepted.promise;
  await disk.at(folder).write("web.yaml", manifest.replace("image:", "imag:"), 0o644);
  await refused.promise;
  ending.abort();
  expect(lines).toHaveLength(1);
  expect(readme.split("\n")).toContainEqual(expect.stringMatching(/^\d\d:\d\d:\d\d\.\d{3} error manifest refused/));
  expect(readme).toContain(lines[0]!);
});

test("the example manifest of the README is a valid pod", async () => {
  const read = await readPodManifest(await readmeManifest(), { path: "/hello.yaml", nodeName: "node1" });
  expect(read.problem).toBeUndefined();
  expect(read.pod?.metadata.name).toBe("hello-node1");
});
