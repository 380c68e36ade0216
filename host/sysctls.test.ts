import { expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSysctls } from "./sysctls.ts";

test("a setting of more than one digit is read completely", async () => {
  expect(await createSysctls().read("kernel/pid_max")).toMatch(/^\d{4,7}$/);
});

test("a setting that the kernel lacks is an error that names its file", async () => {
  await expect(createSysctls("/proc/sys").read("kernel/no_such_setting")).rejects.toThrow(
    expect.objectContaining({ name: "FilesError", code: "ENOENT", path: "/proc/sys/kernel/no_such_setting" }),
  );
});

test("only a setting that exists is written", async () => {
  const root = await mkdtemp(join(tmpdir(), "berth-sysctls-"));
  try {
    const sysctls = createSysctls(root);
    await writeFile(join(root, "panic"), "0\n");
    await sysctls.write("panic", "10");
    expect(await sysctls.read("panic")).toBe("10");
    await expect(sysctls.write("none", "1")).rejects.toMatchObject({ name: "FilesError", code: "ENOENT" });
  } finally {
    await rm(root, { recursive: true });
  }
});
