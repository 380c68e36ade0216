import { expect, test } from "bun:test";
import { createSysctls } from "./sysctls.ts";

test("a setting of more than one digit is read completely", async () => {
  expect(await createSysctls().read("kernel/pid_max")).toMatch(/^\d{4,7}$/);
});

test("a setting that the kernel lacks is an error that names its file", async () => {
  await expect(createSysctls("/proc/sys").read("kernel/no_such_setting")).rejects.toThrow(
    expect.objectContaining({ name: "FilesError", code: "ENOENT", path: "/proc/sys/kernel/no_such_setting" }),
  );
});
