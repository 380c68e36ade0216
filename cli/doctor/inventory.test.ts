import { expect, test } from "bun:test";
import { type Exec, ExecError } from "../../host/exec.ts";
import { inventoryOf } from "./inventory.ts";

const options = { berth: ["/proc/self/exe"], path: "/bin", timeoutMs: 8_000 } as const;

test("the inventory comes from a process of this program, without the environment of this one", async () => {
  const asked: unknown[] = [];
  const exec: Exec = {
    run: async (argv, given) => {
      asked.push(argv, given);
      return { stdout: '{"board":"Pi","disks":[]}\n', stderr: "" };
    },
  };
  expect(await inventoryOf(exec, options)).toEqual({ board: "Pi", disks: [] });
  expect(asked).toEqual([
    ["/proc/self/exe", "doctor", "--inventory"],
    { env: { PATH: "/bin", LC_ALL: "C" }, timeoutMs: 8_000 },
  ]);
});

test("an inventory that hangs is named by its command", async () => {
  const exec: Exec = {
    run: (argv) => Promise.reject(new ExecError(argv, undefined, "", "/proc/self/exe did not end within 8000 ms")),
  };
  await expect(inventoryOf(exec, options)).rejects.toThrow(/^berth doctor --inventory did not end within 8000 ms$/);
});
