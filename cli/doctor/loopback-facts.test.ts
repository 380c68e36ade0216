import { expect, test } from "bun:test";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../../host/fs/files.ts";
import { readLoopbackFacts } from "./loopback-facts.ts";
import type { RuntimeAnswer, RuntimeFacts } from "./runtime-facts.ts";

const answerOf = (loopback: RuntimeFacts["loopback"], binDirs: readonly string[]): RuntimeAnswer => ({
  isReachable: true,
  facts: {
    name: "containerd",
    version: "1.6.20",
    conditions: [],
    cgroupDriver: undefined,
    cni: { confDir: "/etc/cni/net.d", binDirs },
    loopback,
    imageFolder: undefined,
  },
});

test("loopback is searched in the runtime's folders, if the runtime executes it", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-loopback-"));
  const binDirs = [join(folder, "a"), join(folder, "b")];
  const files = createFiles("/");
  const plugin = { by: "plugin", isOptional: false } as const;
  const read = () => readLoopbackFacts(files, answerOf(plugin, binDirs));
  try {
    expect(await read()).toEqual({ binDirs, found: undefined, isOptional: false });
    await mkdir(join(folder, "b"));
    const path = join(folder, "b", "loopback");
    await writeFile(path, "");
    await chmod(path, 0o644);
    expect(await read()).toMatchObject({ found: { path, isExecutable: false } });
    await chmod(path, 0o755);
    expect(await read()).toMatchObject({ found: { path, isExecutable: true } });
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("a runtime that brings up lo itself, or does not answer, needs no loopback", async () => {
  const files = createFiles("/");
  expect(await readLoopbackFacts(files, answerOf({ by: "runtime" }, ["/nowhere"]))).toBeUndefined();
  expect(await readLoopbackFacts(files, { isReachable: false, code: "UNAVAILABLE", message: "" })).toBeUndefined();
});
