import { expect, test } from "bun:test";
import { FakeLog } from "../../test/fakes/log.ts";
import { FakeSysctls } from "../../test/fakes/sysctls.ts";
import { applyKernelTunables, kernelTunables } from "./kernel-tunables.ts";

const expected = {
  "vm/overcommit_memory": "1",
  "vm/panic_on_oom": "0",
  "kernel/panic": "10",
  "kernel/panic_on_oops": "1",
  "kernel/keys/root_maxkeys": "1000000",
  "kernel/keys/root_maxbytes": "25000000",
};
/** Linux's own. */
const stock = {
  "vm/overcommit_memory": "0",
  "vm/panic_on_oom": "0",
  "kernel/panic": "0",
  "kernel/panic_on_oops": "0",
  "kernel/keys/root_maxkeys": "200",
  "kernel/keys/root_maxbytes": "20000",
};
const sets = { protectKernelDefaults: false, setsKernelTunables: true };
const protects = { protectKernelDefaults: true, setsKernelTunables: true };

async function apply(settings: typeof sets, found: Readonly<Record<string, string>>, readOnly: readonly string[] = []) {
  const sysctls = new FakeSysctls(found, readOnly);
  const log = new FakeLog();
  await applyKernelTunables(settings, sysctls, log);
  return { ...sysctls, lines: log.takeLines() };
}

test("what differs is set, and the log names it", async () => {
  const { values, written, lines } = await apply(sets, stock);
  expect(values).toEqual(expected);
  expect(written).toEqual([
    "vm/overcommit_memory",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
  ]);
  expect(lines).toEqual(written.map(() => "info: set a sysctl as Kubernetes expects it"));
});

test("nothing is written where nothing differs, and root keeps a higher number of keys", async () => {
  const { written, lines } = await apply(sets, { ...expected, "kernel/keys/root_maxkeys": "2000000" });
  expect([written, lines]).toEqual([[], []]);
});

test("with --set-kernel-tunables=false nothing is read or written", async () => {
  const { written, lines } = await apply({ ...sets, setsKernelTunables: false }, {});
  expect([written, lines]).toEqual([[], []]);
});

test("one warning lists what cannot be set, and the rest is set", async () => {
  const { "kernel/keys/root_maxbytes": _missing, ...others } = stock;
  const { values, lines } = await apply(sets, others, ["kernel/panic"]);
  expect(values).toMatchObject({ "vm/overcommit_memory": "1", "kernel/panic": "0", "kernel/panic_on_oops": "1" });
  expect(lines.filter((line) => line.startsWith("warn"))).toEqual([
    "warn: cannot set sysctls as Kubernetes expects them: kernel.panic=10 (/proc/sys/kernel/panic is read-only), kernel.keys.root_maxbytes=25000000 (/proc/sys/kernel/keys/root_maxbytes does not exist); set them where /proc/sys can be written, or start with --set-kernel-tunables=false",
  ]);
});

test("protectKernelDefaults accepts a kernel that has Kubernetes' settings", async () => {
  expect((await apply(protects, expected)).written).toEqual([]);
});

test("protectKernelDefaults refuses any other setting, sets none, and names the command that corrects those that can be set", async () => {
  const { "kernel/keys/root_maxkeys": _missing, ...others } = expected;
  const sysctls = new FakeSysctls({ ...others, "vm/overcommit_memory": "0", "kernel/panic": "0" });
  const refused = applyKernelTunables(protects, sysctls, new FakeLog());
  expect(await refused.catch(String)).toMatchInlineSnapshot(
    `"StartError: protectKernelDefaults is true, and the kernel has other settings than Kubernetes expects (vm.overcommit_memory is 0, kernel.panic is 0, kernel.keys.root_maxkeys is unreadable (/proc/sys/kernel/keys/root_maxkeys does not exist)): run sysctl -w vm.overcommit_memory=1 kernel.panic=10 and keep them in /etc/sysctl.d, or set protectKernelDefaults: false; this kernel lacks what is unreadable, or /proc/sys hides it"`,
  );
  expect(sysctls.written).toEqual([]);
});

for (const { name } of kernelTunables)
  test(`protectKernelDefaults checks ${name}`, async () => {
    const path = name.replaceAll(".", "/");
    expect(await apply(protects, { ...expected, [path]: "7000000000" }).catch(String)).toContain(
      `${name} is 7000000000`,
    );
  });
